"""A robot as a whole dataset shows it: its grippers, which end is closed, and its arms."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from goalreel.planners.kinematic.closed_end import (
    End,
    HandTrace,
    closed_end,
    episodes_by_end,
    hold_level,
    read_trace,
)
from goalreel.planners.kinematic.kinds import are_places, find_rates, find_speeds
from goalreel.planners.kinematic.layout import (
    Confidence,
    Finding,
    Layout,
    as_places,
    check_layout,
    episodes_text,
    names_of,
    times_text,
    values_of,
    written,
)
from goalreel.planners.kinematic.roles import find_base, find_position, is_of_arm, named_hands, side_of
from goalreel.planners.kinematic.signals import finger_leader, hand_signal, moves, smooth, two_levels, unwrap
from goalreel.types import Recording

SAMPLE = 200
"""Episodes that `infer_robot` needs at most."""
# Of the gripper:
_TWO_LEVELS = 0.85  # the two levels of a gripper's signal explain at least this share of its variance
_MAYBE, _UNLIKE = 0.6, 0.15
"""The same of the last number of an arm that may be its gripper, and how much less than of another."""
_BRIEF = 0.22  # share of the frames in which a gripper moves; joints with two levels move in 0.23 to 0.85
_JOINTS = 6  # joints and gripper of an arm without names, at least
_ARMS = ((r"so_?-?10[01]|so_follower|koch|omx", 6), (r"aloha", 7))
"""A robot type and the numbers of each arm, its gripper's last: a proposal that the numbers must bear out."""
_SECOND_HAND = 1 / 3  # a second hand moves by at least this share of the one that moves most
_TOGETHER, _APART = 0.95, 0.8
"""Correlation from which two dimensions are fingers of one hand, and below which hands of two arms."""
_ENOUGH, _CERTAIN = 2, 5
"""The least lead of the evidence for a closed end, and its weight from which it is certain."""
_FEW = 0.1  # share of the episodes up to which their commands may tell another end than those of the rest
# Of the arm:
_RISES = 0.1  # share of the height's range that a hand with a thing rises at least
_NO_HEIGHT = "no dimension is known to be a height: --layout vertical=N names one"
_DOWNWARDS = "named z, but it falls between taking and leaving a thing: --layout vertical=N names another"
_SIDES: dict[str, Literal["left", "right"]] = {"l": "left", "r": "right"}

type Hand = tuple[Layout, Confidence, str]
"""A layout with its gripper, how sure that is, and why."""


class Robot(BaseModel):
    """A robot as its recordings show it."""

    model_config = ConfigDict(frozen=True)

    layout: Layout
    """Complete; with two hands, that of the one that moves most, and `other`."""
    findings: tuple[Finding, ...]

    @property
    def hands(self) -> tuple[Layout, ...]:
        """The layout of each hand."""
        return self.layout.hands

    def settings(self) -> dict[str, object]:
        """Give as JSON the layout as `--layout` writes it, and each finding."""
        return {"layout": str(self.layout), "findings": [f.model_dump(mode="json") for f in self.findings]}

    @property
    def unknown(self) -> tuple[Finding, ...]:
        """Fields that the run needs and the data do not tell."""
        return tuple(f for f in self.findings if f.confidence == "unknown")


def infer_robot(
    recordings: Sequence[Recording],
    hint: Layout | None = None,
    robot_type: str | None = None,
    sampled_from: int | None = None,
) -> Robot:
    """Find what `hint` leaves open from all of `recordings`.

    Args:
        recordings: of one robot, at least one.
        hint: what a person says; it is not doubted.
        robot_type: as in `meta/info.json`.
        sampled_from: the number of episodes of which `recordings` are a sample.

    Raises:
        Unsegmentable: an index of `hint` lies outside the recordings.
    """
    hint = hint or Layout()
    for recording in recordings:
        check_layout(recording, hint)
    if hint.complete:
        return Robot(layout=hint, findings=())
    sample = (
        f"{len(recordings)} of {sampled_from} episodes" if sampled_from else episodes_text(len(recordings))
    )
    hint, base = _find_base(recordings[0], hint, robot_type)
    hint, sums = _find_sums(recordings, hint, sample)
    recordings = [as_places(recording, hint) for recording in recordings]
    base += sums
    hands = _find_hands(recordings, hint, robot_type, sample)
    unclear = None if isinstance(hands, list) else hands
    hands = hands if isinstance(hands, list) else []
    robots = [_infer_hand(recordings, *hand, robot_type, sample, hands) for hand in hands]
    if not robots:
        layout, arm = _find_arm(recordings, hint, "", (), ())
        reason = f"no dimension is named so or goes between two levels in {sample}"
        gripper = unclear or _finding("gripper", None, "given" if hint.handless else "likely", reason)
        return Robot(layout=layout.model_copy(update={"complete": True}), findings=(gripper, *arm, *base))
    layouts, findings = [layout for layout, _ in robots], [f for _, of_hand in robots for f in of_hand]
    ends = {layout.closed for layout in layouts if layout.closed}
    if len(layouts) > 1 and len(ends) == 1:  # two hands of one robot close at the same end
        (end,) = ends
        layouts = [layout.model_copy(update={"closed": end}) for layout in layouts]
        findings = [
            _finding(f.field, end, "likely", f"as the other hand; {f.reason}")
            if f.field.endswith("closed") and f.confidence == "unknown"
            else f
            for f in findings
        ]
    other = layouts[1] if len(layouts) > 1 else None
    return Robot(layout=layouts[0].model_copy(update={"other": other}), findings=(*findings, *base))


def find_layout(recording: Recording, hint: Layout | None = None) -> Layout:
    """The layout of one recording on its own; a complete `hint` stays as it is.

    Raises:
        Unsegmentable: an index of `hint` lies outside the recording.
    """
    return infer_robot([recording], hint).layout


def _finding(
    field: str, value: object, confidence: Confidence, reason: str, answers: tuple[str, ...] = ()
) -> Finding:
    text = written(value) or None
    return Finding(field=field, value=text, confidence=confidence, reason=reason, answers=answers)


def _find_base(recording: Recording, layout: Layout, robot_type: str | None) -> tuple[Layout, list[Finding]]:
    """Complete the mobile base; a robot without one has no finding."""
    if layout.base:
        return layout, [_finding("base", layout.base, "given", "by --layout")]
    base, source, reason = find_base(recording, robot_type)
    if not base:
        return layout, []
    confidence: Confidence = "certain" if reason.startswith("named") else "likely"
    update: dict[str, object] = {"base": base, "base_source": source}
    other = layout.other.model_copy(update=update) if layout.other else None
    finding = _finding("base", base, confidence, f"{reason}, in {source}")
    return layout.model_copy(update={**update, "other": other}), [finding]


def _find_sums(recordings: Sequence[Recording], layout: Layout, sample: str) -> tuple[Layout, list[Finding]]:
    """Complete the dimensions that are no places, and must be summed."""
    if layout.summed:
        return layout, [_finding("summed", layout.summed, "given", "by --layout")]
    if layout.position:
        return layout, []
    body = "state" if recordings[0].state.shape[1] else "action"
    names, dims = names_of(recordings[0], body), values_of(recordings[0], body).shape[1]
    hand = {i for given in layout.hands if given.source == body for i in given.gripper}
    hand |= {i for named in named_hands(names, dims) for i in named}
    hand |= {i for i, score in _scores(recordings, layout, body).items() if score >= _TWO_LEVELS}
    summed = find_rates(recordings, hand, layout.base if layout.base_source == body else ())
    if not summed:
        return layout, []
    reason = f"the {body} holds changes or speeds, not places: all is near 0 whenever the arm stands"
    other = layout.other.model_copy(update={"summed": summed}) if layout.other else None
    finding = _finding("summed", summed, "likely", reason)
    return layout.model_copy(update={"summed": summed, "other": other}), [finding]


def _find_hands(
    recordings: Sequence[Recording], hint: Layout, robot_type: str | None, sample: str
) -> list[Hand] | Finding:
    """The grippers that a person names, else those that names tell, else those that move like one."""
    if hint.handless:
        return []
    if hint.gripper:
        return [(hand.model_copy(update={"other": None}), "given", "by --layout") for hand in hint.hands]
    return _named_hands(recordings, hint) or _moving_hands(recordings, hint, robot_type, sample)


def _named_hands(recordings: Sequence[Recording], hint: Layout) -> list[Hand]:
    """The grippers that are named so in the state, else in the action: at most two, the one that moves most
    first."""
    hands: list[tuple[float, Layout, str]] = []
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
            hands.append((size, layout, ", ".join(names[i] for i in hand)))
        if any(size for size, _, _ in hands):
            break
    else:
        hands = hands[:1]
    hands = sorted(hands, key=lambda hand: -hand[0])[:2]
    greatest = hands[0][0] if hands else 0.0
    return [
        (layout, "certain", f"named {text}")
        for size, layout, text in hands
        if size >= _SECOND_HAND * greatest and (size or not greatest)
    ]


def _two_arms(recordings: Sequence[Recording], source: str, hand: list[int]) -> list[list[int]]:
    """A hand whose names tell no side, or the hands of two arms, which do not go along with each other."""
    values = [values_of(recording, source) for recording in recordings]
    dims = values[0].shape[1]
    first = hand[:1] if len(hand) == 2 else [i for i in hand if i < dims / 2]
    second = hand[1:] if len(hand) == 2 else [i + dims // 2 for i in first]
    if not first or first + second != hand:
        return [hand]
    pairs = [np.stack([hand_signal(v[:, first]), hand_signal(v[:, second])], axis=1) for v in values]
    if not any(moves(pair[:, i]) for pair in pairs for i in (0, 1)) or _go_together(pairs, 0, 1, _APART):
        return [hand]
    return [first, second]


def _moving_hands(
    recordings: Sequence[Recording], hint: Layout, robot_type: str | None, sample: str
) -> list[Hand] | Finding:
    """The last number of each arm where it has two levels, else the last one that has; or what to ask.

    An arm's joint may have two levels too: where they do not agree, or it moves too long, a person knows.
    """
    found = {source: _scores(recordings, hint, source) for source in ("state", "action")}
    best = {source: max(scores.values(), default=0.0) for source, scores in found.items()}
    source = "action" if best["action"] > max(_TWO_LEVELS, best["state"]) + 0.1 else "state"
    if best[source] < _TWO_LEVELS <= best["action"]:
        source = "action"
    scores, names = found[source], names_of(recordings[0], source)
    moving = [i for i in scores if any(moves(unwrap(values_of(r, source)[:, i])) for r in recordings)]
    if not moving or best[source] < _MAYBE:
        return []
    ends, is_type = _last_of_arms(list(scores), names, robot_type)
    lasts = [i for i in ends if i in moving] or moving[-1:]
    clear = [i for i, score in scores.items() if score >= max(_TWO_LEVELS, best[source] - 0.1)]
    likely = max(scores[i] for i in lasts)
    own = [i for i in lasts if scores[i] >= max(_MAYBE, likely - 2 * _UNLIKE)]
    if clear and len(lasts) == 1 and likely < scores[clear[-1]] - _UNLIKE:
        own = []
    reason = f"goes between two levels in {sample}"
    if own and (is_type or (clear and clear[-1] in own)):
        chosen, reason = own, f"the last of an arm, and {reason}"
    else:
        chosen = [] if own else clear[-1:]
    if chosen and ((is_type and own) or all(_is_brief(recordings, source, i) for i in chosen)):
        layouts = [hint.model_copy(update={"gripper": (i,), "source": source}) for i in chosen]
        return [(layout, "likely", reason) for layout in layouts]
    where = "" if source == "state" else ",source=action"
    options = [own, lasts[-1:], *([i] for i in (*clear[:-4:-1], *ends[::-1]))]
    asked = [f"gripper={'/'.join(map(str, option))}{where}" for option in options if option]
    told = [i for i, score in found["action"].items() if score >= _TWO_LEVELS]
    if source == "state" and told:
        asked.insert(2, f"gripper={told[-1]},source=action")
    reason = "no number is named so, and joints too go between two levels"
    return _finding("gripper", None, "unknown", reason, (*[*dict.fromkeys(asked)][:5], "gripper=none"))


def _scores(recordings: Sequence[Recording], hint: Layout, source: str) -> dict[int, float]:
    """Measure how far each dimension, but for an arm or base by name, has two levels; 0 where none moves."""
    values, names = [values_of(r, source) for r in recordings], names_of(recordings[0], source)
    dims = values[0].shape[1]
    others = {*(hint.base if hint.base_source == source else ())}
    others |= {i for i, name in enumerate(names) if is_of_arm(name)}
    others |= find_speeds(recordings) if values[0] is values_of(recordings[0], "body") else set()
    return {i: _two_levels([v[:, i] for v in values]) for i in range(dims) if i not in others}


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
    return [dims[half - 1], dims[-1]] if is_two else [dims[-1]], False


def _is_brief(recordings: Sequence[Recording], source: str, dim: int) -> bool:
    """Tell whether a dimension moves in a small part of the time, as grippers do."""
    shares: list[float] = []
    for recording in recordings:
        curve = smooth(unwrap(values_of(recording, source)[:, dim]), round(0.2 * recording.fps))
        speed = np.abs(np.diff(curve))
        if moves(curve):
            shares.append(float((speed > speed.max() / 4).mean()))
    return bool(shares) and float(np.mean(shares)) <= _BRIEF


def _two_levels(columns: Sequence[NDArray[np.floating]]) -> float:
    """The share of a dimension's variance that two levels explain, over the episodes in which it moves."""
    scores = [two_levels(column) for column in columns if moves(unwrap(column))]
    return float(np.mean(scores)) if 3 * len(scores) >= len(columns) and scores else 0.0


def _go_together(
    values: Sequence[NDArray[np.floating]], first: int, second: int, least: float = _TOGETHER
) -> bool:
    pairs = [v[:, (first, second)] for v in values if np.ptp(v[:, first]) and np.ptp(v[:, second])]
    return bool(pairs and abs(np.mean([np.corrcoef(p.T)[0, 1] for p in pairs])) >= least)


def _infer_hand(
    recordings: Sequence[Recording],
    layout: Layout,
    confidence: Confidence,
    reason: str,
    robot_type: str | None,
    sample: str,
    hands: Sequence[Hand],
) -> tuple[Layout, list[Finding]]:
    """Complete the layout of one of `hands`."""
    label = f"{layout.side or written(layout.gripper)} " if len(hands) > 1 else ""
    hand = _with_neighbours(recordings, layout) if confidence == "likely" else layout.gripper
    if confidence == "certain":
        layout = layout.model_copy(update={"gripper": _finger_joints(recordings, layout)})
    gripper = _finding(f"{label}gripper", layout.gripper, confidence, reason)
    other = [
        i for h, _, _ in hands if h.source == layout.source and h.gripper[0] not in hand for i in h.gripper
    ]
    layout, arm = _find_arm(recordings, layout, label, hand, other)
    traces = [read_trace(recording, layout) for recording in recordings]
    closed = _find_closed(recordings[0], traces, layout, robot_type, sample, label)
    layout = layout.model_copy(update={"closed": closed.value, "complete": True})
    findings = [gripper, closed, *arm]
    if layout.closed and layout.threshold is None and len(layout.gripper) == 1:
        threshold = hold_level(traces, layout.closed)
        layout = layout.model_copy(update={"threshold": threshold})
        if threshold is not None:
            reason = "it also closes on nothing, far beyond what it holds"
            findings.insert(2, _finding(f"{label}threshold", threshold, "likely", reason))
    return layout, findings


def _with_neighbours(recordings: Sequence[Recording], layout: Layout) -> tuple[int, ...]:
    """The gripper's dimensions and those next to them that go along with them: they are no arm."""
    values = [values_of(recording, layout.source) for recording in recordings]
    hand = sorted(layout.gripper)
    for edge, step in ((hand[0], -1), (hand[-1], 1)):
        while 0 <= (other := edge + step) < values[0].shape[1] and _go_together(values, edge, other):
            hand.append(other)
            edge = other
    return tuple(sorted(hand))


def _finger_joints(recordings: Sequence[Recording], layout: Layout) -> tuple[int, ...]:
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


def _find_arm(
    recordings: Sequence[Recording], layout: Layout, label: str, hand: Sequence[int], other: Sequence[int]
) -> tuple[Layout, list[Finding]]:
    """Complete position and vertical axis; the dimensions of the `hand` are no arm, nor of the `other`."""
    position, vertical = layout.position, layout.vertical
    if position:
        confidence, reason = "given", "by --layout"
    else:
        source = "state" if recordings[0].state.shape[1] else "action"
        names, dims = names_of(recordings[0], source), values_of(recordings[0], source).shape[1]
        of_hand = (hand, other) if layout.source == source else ((), ())
        base = {*(layout.base if layout.base_source == source else ()), *find_speeds(recordings)}
        position, named = find_position(names, dims, of_hand[0], base, of_hand[1])
        confidence: Confidence = "certain"
        reason = "named x, y and z"
        if named is None:
            reason = "the arm's joints, by their names" if names else "all the rest"
            confidence = "likely"
        elif layout.summed or not are_places([values_of(r, source)[:, list(position)] for r in recordings]):
            confidence = "likely"
        vertical = named if vertical is None else vertical
    place = _finding(f"{label}position", position, confidence, reason)
    height = f"{label}vertical"
    is_given = layout.vertical is not None
    layout = layout.model_copy(update={"position": position, "vertical": vertical})
    if is_given:
        return layout, [place, _finding(height, vertical, "given", "by --layout")]
    if vertical is None:
        return layout, [place, _finding(height, None, "likely", _NO_HEIGHT)]
    ups, downs = _lifts(recordings, layout) if layout.gripper else (0, 0)
    if downs >= 3 and downs > 4 * ups:
        layout = layout.model_copy(update={"vertical": None})
        return layout, [place, _finding(height, None, "likely", _DOWNWARDS)]
    if ups <= 4 * downs:
        return layout, [place, _finding(height, vertical, "likely", "named z")]
    reason = f"named z, and it rises between taking and leaving a thing {times_text(ups)}"
    return layout, [place, _finding(height, vertical, "certain", reason)]


def _lifts(recordings: Sequence[Recording], layout: Layout) -> tuple[int, int]:
    """Count how often the height rises, and falls, between a hand's closing and opening.

    Only what the hand does away from where it rests counts.
    """
    ups = downs = 0
    for trace in (read_trace(recording, layout) for recording in recordings):
        for start, end, _ in trace.level_spans():
            if trace.height is None or end == len(trace.hand):
                continue
            if not trace.is_away(start) or not trace.is_away(end):
                continue
            heights = trace.height[start : end + 1]
            up = heights.max() - max(heights[0], heights[-1])
            down = min(heights[0], heights[-1]) - heights.min()
            if max(up, down) > _RISES * np.ptp(trace.height):
                ups, downs = ups + bool(up > down), downs + bool(up <= down)
    return ups, downs


def _find_closed(
    first: Recording,
    traces: Sequence[HandTrace],
    layout: Layout,
    robot_type: str | None,
    sample: str,
    label: str,
) -> Finding:
    """Weigh what speaks for either end of a gripper."""
    field = f"{label}closed"
    if layout.closed is not None:
        return _finding(field, layout.closed, "given", "by --layout")
    if not any(moves(trace.hand) for trace in traces):
        return _finding(field, None, "certain", f"it never moves in {sample}")
    ends = episodes_by_end(traces)
    if min(ends.values()) > max(1, _FEW * sum(ends.values())):
        reason = (
            f"by their commands it closes at its low end in {episodes_text(ends['low'])} and at its high end "
            f"in {ends['high']}, as with two robots: annotate them apart, by --episodes"
        )
        return _finding(field, None, "unknown", reason)
    names = names_of(first, layout.source)
    evidence = closed_end(
        traces, [names[i] for i in layout.gripper] if names else [], robot_type, len(layout.gripper)
    )
    weights = {end: sum(e.weight for e in evidence if e.end == end) for end in ("low", "high")}
    end: End = "low" if weights["low"] >= weights["high"] else "high"
    against = weights["high" if end == "low" else "low"]
    reason = "; ".join(e.reason for e in evidence if e.end == end)
    if against:
        reason = f"{reason}; but {'; '.join(e.reason for e in evidence if e.end != end)}"
    if weights[end] - against < _ENOUGH:
        hand = np.concatenate([trace.hand for trace in traces])
        span = f"it goes from {hand.min():.3g} to {hand.max():.3g} in {sample}"
        reason = f"{span}; {reason or 'nothing tells more'}"
        return _finding(field, None, "unknown", reason, ("closed=low", "closed=high"))
    sure = not against and weights[end] >= _CERTAIN
    return _finding(field, end, "certain" if sure else "likely", reason)
