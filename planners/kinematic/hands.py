"""Which dimensions of a dataset's recordings are its grippers: by name, else by behaviour."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.dimension_roles import is_of_arm, named_hands, side_of
from goalreel.planners.kinematic.finding import Confidence
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.signals import finger_leader, hand_signal, moves, two_levels, unwrap
from goalreel.types import Recording

_TWO_LEVELS = 0.85
"""The two levels of a gripper's signal explain at least this share of its variance."""
_SECOND_HAND = 1 / 3
"""A second hand moves by at least this share of the one that moves most."""
_TOGETHER = 0.95
"""Correlation from which two dimensions are fingers of one hand."""
_APART = 0.8
"""Correlation below which two dimensions that are named alike are hands of two arms."""
_SIDES: dict[str, Literal["left", "right"]] = {"l": "left", "r": "right"}

type Hand = tuple[Layout, Confidence, str]
"""A layout with its gripper, how sure that is, and why."""


def find_hands(recordings: Sequence[Recording], hint: Layout, sample: str) -> list[Hand]:
    """The grippers, at most two, the one that moves most first: by name in the state, then in the action,
    else by behaviour."""
    hands: list[tuple[float, Layout, str]] = []
    for source in ("state", "action"):
        names, dims = names_of(recordings[0], source), values_of(recordings[0], source).shape[1]
        named = named_hands(names, dims)
        if len(named) == 1 and not side_of(names[named[0][0]]):
            named = _arms(recordings, source, named[0])
        for hand in named:
            curves = [hand_signal(values_of(r, source)[:, hand]) for r in recordings]
            size = max((float(np.ptp(c)) for c in curves if moves(c)), default=0.0)
            side = _SIDES.get(side_of(names[hand[0]]))
            layout = hint.model_copy(update={"gripper": tuple(hand), "source": source, "side": side})
            hands.append((size, layout, ", ".join(names[i] for i in hand)))
        if any(size for size, _, _ in hands):
            break
    else:
        hands = hands[:1]
    greatest = max((size for size, _, _ in hands), default=0.0)
    hands = sorted(hands, key=lambda hand: -hand[0])[:2]
    if hands:
        return [
            (layout, "certain", f"named {text}")
            for size, layout, text in hands
            if size >= _SECOND_HAND * greatest and (size or not greatest)
        ]
    return _find_by_behaviour(recordings, hint, sample)


def _arms(recordings: Sequence[Recording], source: str, hand: list[int]) -> list[list[int]]:
    """A hand whose names tell no side, or the hands of two arms, which do not go along with each other."""
    values = [values_of(recording, source) for recording in recordings]
    dims = values[0].shape[1]
    first = hand[:1] if len(hand) == 2 else [i for i in hand if i < dims / 2]
    second = hand[1:] if len(hand) == 2 else [i + dims // 2 for i in first]
    if not first or first + second != hand:
        return [hand]
    pairs = [np.stack([hand_signal(v[:, first]), hand_signal(v[:, second])], axis=1) for v in values]
    if not any(moves(pair[:, i]) for pair in pairs for i in (0, 1)):
        return [hand]
    return [hand] if _go_together(pairs, 0, 1, _APART) else [first, second]


def _find_by_behaviour(recordings: Sequence[Recording], hint: Layout, sample: str) -> list[Hand]:
    """The last dimension whose signal has two levels, and the one in the same place of the other half."""
    for source in ("state", "action"):
        values = [values_of(r, source) for r in recordings]
        dims = values[0].shape[1]
        names = names_of(recordings[0], source)
        others = {*(hint.base if hint.base_source == source else ())}
        others |= {i for i, name in enumerate(names) if len(names) == dims and is_of_arm(name)}
        scores = [0.0 if i in others else _two_levels([v[:, i] for v in values]) for i in range(dims)]
        best = max(scores, default=0.0)
        if best < _TWO_LEVELS:
            continue
        last = max(i for i, score in enumerate(scores) if score >= max(_TWO_LEVELS, best - 0.1))
        hands = [last]
        if dims % 2 == 0 and scores[twin := (last + dims // 2) % dims] >= _TWO_LEVELS:
            hands.append(twin)
        reason = f"goes between two levels in {sample}"
        return [
            (hint.model_copy(update={"gripper": (i,), "source": source}), "likely", reason) for i in hands
        ]
    return []


def fingers(recordings: Sequence[Recording], layout: Layout) -> tuple[int, ...]:
    """The gripper's dimensions and those next to them that go along with them: they are no arm."""
    values = [values_of(recording, layout.source) for recording in recordings]
    hand = sorted(layout.gripper)
    for edge, step in ((hand[0], -1), (hand[-1], 1)):
        while 0 <= (other := edge + step) < values[0].shape[1] and _go_together(values, edge, other):
            hand.append(other)
            edge = other
    return tuple(sorted(hand))


def _go_together(
    values: Sequence[NDArray[np.floating]], first: int, second: int, least: float = _TOGETHER
) -> bool:
    pairs = [v[:, (first, second)] for v in values if np.ptp(v[:, first]) and np.ptp(v[:, second])]
    return bool(pairs and abs(np.mean([np.corrcoef(p.T)[0, 1] for p in pairs])) >= least)


def _two_levels(columns: Sequence[NDArray[np.floating]]) -> float:
    """How much of a dimension's variance two levels explain, over the episodes in which it moves."""
    scores = [two_levels(column) for column in columns if moves(unwrap(column))]
    return float(np.mean(scores)) if 3 * len(scores) >= len(columns) and scores else 0.0


def finger_joints(recordings: Sequence[Recording], layout: Layout) -> tuple[int, ...]:
    """The gripper's dimensions; of joints that go either way, those that go with the widest, where episodes
    would otherwise not agree on which way is up (`signals.hand_signal`)."""
    hand = list(layout.gripper)
    values = [v for r in recordings if moves(hand_signal(v := values_of(r, layout.source)[:, hand]))]
    leaders = {finger_leader(v) for v in values}
    if len(leaders) < 2:
        return layout.gripper
    widest = int(np.mean([np.ptp(v, axis=0) for v in values], axis=0).argmax())
    along = [sum(float(np.cov(v[:, i], v[:, widest])[0, 1]) for v in values) > 0 for i in range(len(hand))]
    if all(along[i] for i in leaders):
        return layout.gripper
    return tuple(i for i, same in zip(hand, along, strict=True) if same)


def values_of(recording: Recording, source: str) -> NDArray[np.float32]:
    """The numbers of the state or the action."""
    return recording.state if source == "state" else recording.action


def names_of(recording: Recording, source: str) -> tuple[str, ...]:
    """The names of their dimensions, or nothing."""
    return recording.state_names if source == "state" else recording.action_names
