"""The grippers of a robot: names, robot types and commands propose them, and the numbers decide."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import (
    Confidence,
    Finding,
    Layout,
    body_of,
    finding,
    names_of,
    values_of,
    written,
)
from goalreel.planners.kinematic.roles import find_speeds, is_of_arm, named_hands, side_of
from goalreel.planners.kinematic.signals import hand_signal, moves, smooth, two_levels, unwrap
from goalreel.types import Recording

_TWO_LEVELS, _BRIEF = 0.6, 0.15  # less of its variance in two levels, moving in more frames: no gripper
_LIKE = 0.6  # likeness of what may be a gripper
_VERY_LIKE = 0.9  # likeness of what is one: joints have 0.90 at most
_RIVAL = 0.75  # likeness of a number that contradicts a name
_BEATS, _NEAR = 0.3, 0.15  # its lead over what is named, and that of any other
_JOINTS = 6  # joints and gripper of an arm without names, at least
# A robot type and the numbers of each arm, its gripper's last: a proposal that the numbers must bear out.
_ARMS = ((r"so_?-?10[01]|so_follower|koch|omx", 6), (r"aloha", 7))
_SECOND_HAND = 1 / 3  # a second hand moves by at least this share of the one that moves most
_TOGETHER, _APART = 0.95, 0.8  # correlation of the fingers of one hand at least, and of two hands at most
_RARELY = 0.05  # share of the frames in which, or of its range by which, a command may miss open and closed
_EXACTLY = 0.005  # share of its range by which it mostly does: an angle that wraps around misses by 0.014
_FOLLOWS, _AFTER_S = 0.6, 1.2  # share of its movement that a hand makes so soon after commands; joints 0.45
_LOOKED = 50  # episodes that are looked at
_ENOUGH = 3  # episodes that contradict a name
_SHOWN = 5  # numbers offered as the gripper
_FINGERS = 2  # numbers of a gripper; a hand of more has joints that need not go between two levels
_ALONG = 0.9  # correlation from which more dimensions than those of a gripper are the fingers of a hand
_LEAST = 0.01  # a gripper's number goes as far: a centimetre, in the greatest of all units
_SIDES: dict[str, Literal["left", "right"]] = {"l": "left", "r": "right"}
_NO_LEVELS = "the last number of an arm, a {}'s gripper, does not go between two levels"
_NO_NAME = "no number is named so, and joints too go between two levels"


@dataclass(frozen=True, slots=True)
class Hand:
    """A layout with its gripper, how sure that is, and why."""

    layout: Layout
    confidence: Confidence
    reason: str
    answers: tuple[str, ...] = ()
    """Grippers to ask for before the closed end: other numbers look like grippers too."""


@dataclass(frozen=True, slots=True)
class Look:
    """The way in which a number moves, over the episodes in which it does."""

    levels: float = 0.0
    """Share of its variance that two levels explain."""
    busy: float = 1.0
    """Share of the frames in which it moves."""

    @property
    def likeness(self) -> float:
        """Likeness to a gripper, which has two levels, and is between them for a short time."""
        return self.levels - self.busy


def find_hands(
    recordings: Sequence[Recording], hint: Layout, robot_type: str | None, sample: str
) -> list[Hand] | Finding:
    """Find the grippers that a person names, else those that names tell, else those that move like one; or
    what to ask."""
    if hint.handless:
        return []
    if hint.gripper:
        return [Hand(hand.model_copy(update={"other": None}), "given", "by --layout") for hand in hint.hands]
    named = _named_hands(recordings, hint)
    some = recordings[:: -(-len(recordings) // _LOOKED)]
    return _tested(some, named) if named else _moving_hands(some, hint, robot_type, sample)


def looks(
    recordings: Sequence[Recording], hint: Layout, source: str, others: Collection[int] | None = None
) -> dict[int, Look]:
    """Look at each dimension but for a base, speeds, and `others`, or without them an arm by name."""
    recordings = recordings[:: -(-len(recordings) // _LOOKED)]
    values = [unwrap(values_of(r, source)) for r in recordings]
    if others is None:
        others = {i for i, name in enumerate(names_of(recordings[0], source)) if is_of_arm(name)}
    others = {*others, *(hint.base if hint.base_source == source else ())}
    if source == body_of(recordings[0]):
        others |= find_speeds(recordings)
    dims = [i for i in range(values[0].shape[1]) if i not in others]
    return {i: _look([v[:, i] for v in values], recordings[0].fps) for i in dims}


def _look(curves: Sequence[NDArray[np.floating]], fps: float) -> Look:
    moving = [curve for curve in map(unwrap, curves) if moves(curve) and np.ptp(curve) >= _LEAST]
    if not moving:
        return Look()
    levels = float(np.mean([two_levels(c) for c in moving])) if 3 * len(moving) >= len(curves) else 0.0
    speeds = [np.abs(np.diff(smooth(curve, fps))) for curve in moving]
    return Look(levels, float(np.mean([(speed > speed.max() / 4).mean() for speed in speeds])))


def go_together(
    values: Sequence[NDArray[np.floating]], first: int, second: int, least: float = _TOGETHER
) -> bool:
    """Tell whether two dimensions run along with each other, or against."""
    pairs = [v[:, (first, second)] for v in values if np.ptp(v[:, first]) and np.ptp(v[:, second])]
    return bool(pairs and abs(np.mean([np.corrcoef(p.T)[0, 1] for p in pairs])) >= least)


def _named_hands(recordings: Sequence[Recording], hint: Layout) -> list[Hand]:
    """The grippers that are named so in the state, else in the action: at most two, the widest first."""
    hands: list[tuple[float, Hand]] = []
    for source in ("state", "action"):
        names, dims = names_of(recordings[0], source), values_of(recordings[0], source).shape[1]
        named = named_hands(names, dims)
        if len(named) == 1 and not side_of(names[named[0][0]]):
            named = _two_arms(recordings, source, named[0])
        for hand in named:
            curves = [hand_signal(values_of(r, source)[:, hand]) for r in recordings]
            size = max((float(np.ptp(c)) for c in curves if moves(c)), default=0.0)
            side = _SIDES.get(side_of(names[hand[0]]))
            layout = hint.model_copy(update={"gripper": tuple(hand), "source": source, "side": side})
            hands.append((size, Hand(layout, "certain", f"named {', '.join(names[i] for i in hand)}")))
        if any(size for size, _ in hands):
            break
    else:
        hands = hands[:1]
    hands = sorted(hands, key=lambda hand: -hand[0])[:2]
    greatest = hands[0][0] if hands else 0.0
    return [hand for size, hand in hands if size >= _SECOND_HAND * greatest and (size or not greatest)]


def _two_arms(recordings: Sequence[Recording], source: str, hand: list[int]) -> list[list[int]]:
    """A hand whose names tell no side, or the hands of two arms, which do not go along with each other."""
    values = [values_of(recording, source) for recording in recordings]
    dims = values[0].shape[1]
    first = hand[:1] if len(hand) == 2 else [i for i in hand if i < dims / 2]
    second = hand[1:] if len(hand) == 2 else [i + dims // 2 for i in first]
    if not first or first + second != hand:
        return [hand]
    pairs = [np.stack([hand_signal(v[:, first]), hand_signal(v[:, second])], axis=1) for v in values]
    if not any(moves(pair[:, i]) for pair in pairs for i in (0, 1)) or go_together(pairs, 0, 1, _APART):
        return [hand]
    return [first, second]


def _tested(recordings: Sequence[Recording], hands: Sequence[Hand]) -> list[Hand] | Finding:
    """Named hands as sure as the numbers make them, or what to ask where another is more like a gripper."""
    source, named = hands[0].layout.source, [i for hand in hands for i in hand.layout.gripper]
    values = [values_of(recording, source) for recording in recordings]
    others = looks(recordings, hands[0].layout, source, named)
    tested: list[Hand] = []
    for hand in hands:
        first, *_ = dims = list(hand.layout.gripper)
        own = _look([hand_signal(v[:, dims]) for v in values], recordings[0].fps)
        rivals = [i for i in _distinct(others, values) if not go_together(values, first, i)]
        lead = others[rivals[0]].likeness - own.likeness if rivals else 0.0
        reason, answers = hand.reason, ()
        if own == Look():
            reason = f"{reason}, but it hardly moves"
        elif own.likeness < _LIKE or lead >= _NEAR:
            reason = f"{reason}, but it does not just go between two levels"
            is_unlike = own.levels < _TWO_LEVELS and own.busy > _BRIEF
            best = others[rivals[0]].likeness if rivals and len(recordings) >= _ENOUGH else 0.0
            is_beaten = own.likeness < _LIKE and lead >= _BEATS and (is_unlike or best >= _VERY_LIKE)
            if is_beaten and len(dims) <= _FINGERS:
                reason = f"{reason}, as number {rivals[0]} of the {source} does"
                answers = _answers(source, [[h.layout.gripper for h in hands], *([(i,)] for i in rivals)])
                if best >= _RIVAL:
                    return finding("gripper", None, "unknown", reason, answers)
        confidence = "certain" if reason == hand.reason else "likely"
        tested.append(replace(hand, confidence=confidence, reason=reason, answers=answers))
    return tested


def _distinct(found: Mapping[int, Look], values: Sequence[NDArray[np.floating]]) -> list[int]:
    """The dimensions by likeness, one of those that go together."""
    kept: list[int] = []
    for i in sorted(found, key=lambda i: -found[i].likeness):
        if found[i] != Look() and not any(go_together(values, i, other) for other in kept):
            kept.append(i)
            if len(kept) == _SHOWN:
                break
    return kept


def _answers(
    source: str, proposed: Sequence[Sequence[tuple[int, ...]]], more: Sequence[str] = ()
) -> tuple[str, ...]:
    """Grippers to choose from: hands that are `proposed`, one or two each, and `more` after the first."""
    where = "" if source == "state" else ",source=action"
    options = [f"gripper={'/'.join(map(written, hands))}{where}" for hands in proposed if hands]
    return (*[*dict.fromkeys([*options[:1], *more, *options[1:]])][:_SHOWN], "gripper=none")


def _moving_hands(
    recordings: Sequence[Recording], hint: Layout, robot_type: str | None, sample: str
) -> list[Hand] | Finding:
    """The numbers that move with the commands to open or close, else those that look like grippers, the last
    of each arm before others; or what to ask."""
    told = _commands(recordings)
    values = {source: [unwrap(values_of(r, source)) for r in recordings] for source in ("state", "action")}
    found = {source: looks(recordings, hint, source) for source in values}
    fps = recordings[0].fps
    lasts = {s: _last_of_arms([*found[s]], names_of(recordings[0], s), robot_type) for s in values}
    fingers = {s: _join_fingers(found[s], values[s], fps, lasts[s][0]) for s in values}

    def taken(source: str, dims: Sequence[int], reason: str, answers: tuple[str, ...] = ()) -> list[Hand]:
        grippers = [fingers[source].get(i) or _with_neighbours(values[source], i) for i in dims]
        layouts = [hint.model_copy(update={"gripper": hand, "source": source}) for hand in grippers]
        return [Hand(layout, "likely", reason, answers) for layout in layouts]

    if 0 < len(told) <= 2 and found["state"]:
        followers = [_follower(values["state"], [*found["state"]], curves, fps) for curves in told.values()]
        dims = [*dict.fromkeys(i for i in followers if i is not None)]
        if len(dims) == len(told):
            numbers = " and ".join(map(str, told))
            return taken("state", dims, f"moves just after number {numbers} of the action says so")
    by_state, by_action = (
        max((look.likeness for look in by.values()), default=-1.0) for by in (found["state"], found["action"])
    )
    source = "action" if by_action >= max(_LIKE, by_state + _NEAR) else "state"
    seen = found[source]
    moving = [i for i, look in seen.items() if look != Look()]
    if not moving or max(look.levels for look in seen.values()) < _TWO_LEVELS:
        return []
    ends, is_type = lasts[source]
    last = [i for i in ends if i in moving] or moving[-1:]
    first, *others = _distinct(seen, values[source])
    own = [i for i in last if seen[i].likeness >= max(_LIKE, seen[first].likeness - _NEAR)]
    if is_type:
        sizes = {i: max(float(np.ptp(v[:, i])) for v in values[source]) for i in last}
        fits = any(seen[i].levels >= _TWO_LEVELS for i in last)
        own = [i for i in last if fits and sizes[i] >= _SECOND_HAND * max(sizes.values())]
    lead = seen[first].likeness - max((seen[i].likeness for i in others), default=-1.0)
    is_like = seen[first].likeness >= _VERY_LIKE or (lead >= _NEAR and seen[first].likeness >= _RIVAL)
    chosen = own or ([first] if is_like and not is_type else [])
    of_state = [f"gripper={i}" for i in _distinct(found["state"], values["state"])]
    more = of_state if source == "action" else [f"gripper={i},source=action" for i in told]
    both = [ends, *([i] for i in ends)] if len(ends) > 1 else []
    proposed = [chosen or last, *([i] for i in fingers[source]), *both, (last if chosen else ends)[-1:]]
    proposed += [[i] for i in (first, *others)]
    answers = _answers(source, [[fingers[source].get(i, (i,)) for i in dims] for dims in proposed], more[:2])
    if not chosen:
        reason = _NO_LEVELS.format(robot_type) if is_type else _NO_NAME
        return finding("gripper", None, "unknown", reason, answers)
    is_clear = all(seen[i].likeness >= _VERY_LIKE for i in chosen)
    reason = f"{'the last of an arm, and ' if own else ''}goes between two levels in {sample}"
    return taken(source, chosen, reason, () if is_clear or is_type else answers)


def _join_fingers(
    found: dict[int, Look], values: Sequence[NDArray[np.floating]], fps: float, apart: Collection[int]
) -> dict[int, tuple[int, ...]]:
    """Join in `found` the fingers that go along with each other, where they are more than a gripper's.

    Those in `apart` stay alone. Returns each hand by the first of its dimensions, which stands for it.
    """
    dims = [i for i in found if found[i] != Look() and i not in apart]
    hands: dict[int, tuple[int, ...]] = {}
    if len(dims) <= _FINGERS:
        return hands
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.array([np.corrcoef(v[:, dims], rowvar=False) for v in values if len(v) > 1])
    known = np.maximum(1, np.isfinite(each).sum(axis=0))
    along = np.abs(np.nan_to_num(each).sum(axis=0) / known) >= _ALONG
    while (count := along.sum(axis=0)).max() > _FINGERS:
        joined = np.flatnonzero(along[count.argmax()])
        along[joined] = along[:, joined] = False
        first, *others = hand = [dims[i] for i in joined]
        hands[first], found[first] = tuple(hand), _look([hand_signal(v[:, hand]) for v in values], fps)
        for i in others:
            del found[i]
    return hands


def _with_neighbours(values: Sequence[NDArray[np.floating]], dim: int) -> tuple[int, ...]:
    """A gripper's dimension and those next to it that go along with it."""
    start = end = dim
    while start and go_together(values, start, start - 1):
        start -= 1
    while end + 1 < values[0].shape[1] and go_together(values, end, end + 1):
        end += 1
    return tuple(range(start, end + 1))


def _last_of_arms(
    dims: Sequence[int], names: Sequence[str], robot_type: str | None
) -> tuple[list[int], bool]:
    """The last dimension of each of two equal arms, or of one, and if the robot's type says so."""
    half = len(dims) // 2
    for pattern, size in _ARMS:
        if len(dims) in (size, 2 * size) and re.search(pattern, robot_type or "", re.IGNORECASE):
            return [*dims[size - 1 :: size]], True
    ends = [re.findall("[a-z0-9]+", names[i].lower())[-1:] for i in dims if names]
    are_alike = len(ends) > 2 and len(ends) == len(dims) and ends[:half] == ends[half:]
    is_two = len(dims) % 2 == 0 and (half >= _JOINTS or are_alike)
    return [dims[half - 1], dims[-1]] if is_two else [*dims[-1:]], False


def _commands(recordings: Sequence[Recording]) -> dict[int, list[NDArray[np.bool_]]]:
    """The action's dimensions that only say open or closed, one of those that go together."""
    values = [unwrap(values_of(recording, "action")) for recording in recordings]
    told: dict[int, list[NDArray[np.bool_]]] = {}
    for i in range(values[0].shape[1]):
        every = np.concatenate([v[:, i] for v in values])
        low, high = every.min(), every.max()
        misses = np.minimum(every - low, high - every)
        is_high = [v[:, i] > (low + high) / 2 for v in values]
        turns = [np.flatnonzero(np.diff(curve)) + 1 for curve in is_high]
        lasting = [np.diff([0, *turn, len(c)]) for turn, c in zip(turns, is_high, strict=True) if len(turn)]
        if (
            3 * len(lasting) >= len(values)
            and (misses < _RARELY * (high - low)).mean() >= 1 - _RARELY
            and np.median(misses) <= _EXACTLY * (high - low)
            and np.median(np.concatenate(lasting)) >= recordings[0].fps / 2
            and not any(go_together(values, i, other) for other in told)
        ):
            told[i] = is_high
    return told


def _follower(
    values: Sequence[NDArray[np.floating]], dims: Sequence[int], told: Sequence[NDArray[np.bool_]], fps: float
) -> int | None:
    """Find the dimension that moves just after a command, and no other as much; None where none does."""
    moved = soon = np.zeros(len(dims))
    for v, command in zip(values, told, strict=True):
        after = np.zeros(len(command), bool)
        for frame in np.flatnonzero(np.diff(command)).tolist():
            after[max(0, frame - round(0.3 * fps)) : frame + 2 + round(_AFTER_S * fps)] = True
        places = unwrap(v[:, dims])
        steps = np.abs(np.diff(smooth(places, fps), axis=0)) * [moves(p) for p in places.T]
        moved, soon = moved + steps.sum(axis=0), soon + steps[after[1:]].sum(axis=0)
    share = soon / np.maximum(moved, 1e-9)
    best = int(share.argmax())
    near = np.flatnonzero(share > max(_FOLLOWS, share[best]) - _NEAR).tolist()
    is_clear = all(i == best or go_together(values, dims[best], dims[i]) for i in near)
    return dims[best] if share[best] >= _FOLLOWS and is_clear else None
