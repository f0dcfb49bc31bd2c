"""A robot as a whole dataset shows it: its grippers, which end is closed, and its arms."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import BaseModel

from goalreel.planners.kinematic import roles
from goalreel.planners.kinematic.closed_end import (
    End,
    HandTrace,
    closed_end,
    episodes_by_end,
    hold_level,
    read_trace,
)
from goalreel.planners.kinematic.hands import Hand, find_hands, looks
from goalreel.planners.kinematic.layout import (
    Confidence,
    Finding,
    Layout,
    as_places,
    body_of,
    check_layout,
    episodes_text,
    finding,
    names_of,
    times_text,
    values_of,
    written,
)
from goalreel.planners.kinematic.signals import arm_moves, find_turns, finger_leader, hand_signal, moves
from goalreel.types import Recording

SAMPLE = 200  # episodes that `infer_robot` needs at most
_TWO_LEVELS = 0.85  # share of its variance that two levels explain of a hand beside changes of an arm
_ENOUGH, _CERTAIN = 2, 5  # the least lead of the evidence for a closed end, and a weight that is certain
_FEW = 0.1  # share of the episodes up to which their commands may tell another end than those of the rest
# Of the arm:
_RISES = 0.1  # share of the height's range that a hand with a thing rises at least
_LIFTS = (3, 5)  # lifts from which a number goes with them, and is taken for the height
_LOOKED = 25  # episodes in which it is looked for
_RATE = re.compile(r"^(?:d|delta|vel)[_.]|[_.](?:vel|velocity|speed|delta)$", re.IGNORECASE)
_NO_HEIGHT = "no dimension is known to be a height: --layout vertical=N names one"
_DOWNWARDS = "named z, but it falls between taking and leaving a thing: --layout vertical=N names another"


class Robot(BaseModel, frozen=True):
    """A robot as its recordings show it."""

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
    count = len(recordings)
    sample = f"{count} of {sampled_from} episodes" if sampled_from else episodes_text(count)
    hint, base = _find_base(recordings, hint, robot_type)
    hint, sums = _find_sums(recordings, hint)
    is_scaled = roles.are_scaled(recordings)
    recordings = [as_places(recording, hint) for recording in recordings]
    base += sums
    hands = find_hands(recordings, hint, robot_type, sample)
    if isinstance(hands, Finding) or not hands:
        reason = f"no dimension is named so or goes between two levels in {sample}"
        none = finding("gripper", None, "given" if hint.handless else "likely", reason)
        gripper = hands if isinstance(hands, Finding) else none
        layout, arm = _find_arm(recordings, hint, "", (), ())
        return Robot(layout=layout.model_copy(update={"complete": True}), findings=(gripper, *arm, *base))
    robots = [_infer_hand(recordings, hand, robot_type, sample, hands, is_scaled) for hand in hands]
    layouts, findings = [layout for layout, _ in robots], [f for _, of_hand in robots for f in of_hand]
    ends = {layout.closed for layout in layouts if layout.closed}
    # Two hands of one robot close at the same end; scaled numbers do not tell which of them is idle.
    if len(layouts) > 1 and len(ends) == 1 and not is_scaled:
        (end,) = ends
        layouts = [layout.model_copy(update={"closed": end}) for layout in layouts]
        findings = [
            finding(f.field, end, "likely", f"as the other hand; {f.reason}")
            if f.field.endswith("closed") and f.confidence == "unknown"
            else f
            for f in findings
        ]
    unclear = next((hand for hand in hands if hand.answers), None)
    if unclear and any(f.confidence == "unknown" for f in findings):
        reason = f"perhaps {unclear.layout}: {unclear.reason}, as others do, and nothing tells its closed end"
        others = [f for f in findings if not f.field.endswith(("gripper", "closed"))]
        findings = [finding("gripper", None, "unknown", reason, unclear.answers), *others]
    other = layouts[1] if len(layouts) > 1 else None
    return Robot(layout=layouts[0].model_copy(update={"other": other}), findings=(*findings, *base))


def find_layout(recording: Recording, hint: Layout | None = None) -> Layout:
    """The layout of one recording on its own; a complete `hint` stays as it is.

    Raises:
        Unsegmentable: an index of `hint` lies outside the recording.
    """
    return infer_robot([recording], hint).layout


def _find_base(
    recordings: Sequence[Recording], layout: Layout, robot_type: str | None
) -> tuple[Layout, list[Finding]]:
    """Complete the mobile base; a robot without one has no finding."""
    if layout.base:
        return layout, [finding("base", layout.base, "given", "by --layout")]
    base, source, reason = roles.find_base(recordings[0], robot_type)
    if not base:
        return layout, []
    drives = any(np.ptp(values_of(r, source)[:, list(base)], axis=0).any() for r in recordings)
    confidence: Confidence = "certain" if drives and reason.startswith("named") else "likely"
    found = finding("base", base, confidence, f"{reason}, in {source}")
    return layout.with_all(base=base, base_source=source), [found]


def _find_sums(recordings: Sequence[Recording], layout: Layout) -> tuple[Layout, list[Finding]]:
    """Complete the dimensions that are no places, and must be summed."""
    if layout.summed:
        return layout, [finding("summed", layout.summed, "given", "by --layout")]
    if layout.position:
        return layout, []
    body = body_of(recordings[0])
    names, dims = names_of(recordings[0], body), values_of(recordings[0], body).shape[1]
    hands = [hand.gripper for hand in layout.hands if hand.source == body and hand.gripper]
    hands += roles.named_hands(names, dims)
    hands += [[i] for i, look in looks(recordings, layout, body).items() if look.levels >= _TWO_LEVELS]
    summed = roles.find_rates(recordings, hands, layout.base if layout.base_source == body else ())
    if not summed:
        return layout, []
    reason = f"the {body} holds changes or speeds, not places: all is near 0 whenever the arm stands"
    return layout.with_all(summed=summed), [finding("summed", summed, "likely", reason)]


def _infer_hand(
    recordings: Sequence[Recording],
    of: Hand,
    robot_type: str | None,
    sample: str,
    hands: Sequence[Hand],
    is_scaled: bool,
) -> tuple[Layout, list[Finding]]:
    """Complete the layout of one of `hands`; numbers that `is_scaled` cannot be compared with commands."""
    layout = of.layout
    label = f"{layout.side or written(layout.gripper)} " if len(hands) > 1 else ""
    hand = layout.gripper
    if of.confidence != "given":
        layout = layout.model_copy(update={"gripper": _finger_joints(recordings, layout)})
    gripper = finding(f"{label}gripper", layout.gripper, of.confidence, of.reason)
    others = [h.layout.gripper for h in hands if h.layout.source == layout.source]
    other = [i for dims in others if dims[0] not in hand for i in dims]
    layout, arm = _find_arm(recordings, layout, label, hand, other)
    traces = [read_trace(recording, layout) for recording in recordings]
    if is_scaled:
        traces = [replace(trace, command=None) for trace in traces]
    closed = _find_closed(recordings[0], traces, layout, robot_type, sample, label)
    if of.confidence == "likely" and closed.confidence == "certain":
        closed = closed.model_copy(update={"confidence": "likely"})
    layout = layout.model_copy(update={"closed": closed.value, "complete": True})
    findings = [gripper, closed, *arm]
    if layout.closed and layout.threshold is None and len(layout.gripper) == 1:
        threshold = hold_level(traces, layout.closed)
        layout = layout.model_copy(update={"threshold": threshold})
        if threshold is not None:
            reason = "it also closes on nothing, far beyond what it holds"
            findings.insert(2, finding(f"{label}threshold", threshold, "likely", reason))
    return layout, findings


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
    height, is_given = f"{label}vertical", layout.vertical is not None
    place, axis = finding(f"{label}position", layout.position, "given", "by --layout"), "named z"
    if not layout.position:
        position, named, reason = _find_place(recordings, layout, hand, other)
        if named is None and hand and (height_at := _find_height(recordings, layout, position)) is not None:
            position, named = _with_height(height_at, position), height_at
            reason, axis = "without names", "alone of all numbers"
        place = finding(place.field, position, "likely", reason)
        vertical = layout.vertical if is_given else named
        layout = layout.model_copy(update={"position": position, "vertical": vertical})
    if is_given:
        return layout, [place, finding(height, layout.vertical, "given", "by --layout")]
    if layout.vertical is None:
        return layout, [place, finding(height, None, "likely", _NO_HEIGHT)]
    ups, downs = _lifts(recordings, layout) if layout.gripper else (0, 0)
    if downs >= 3 and downs > 4 * ups:
        layout = layout.model_copy(update={"vertical": None})
        return layout, [place, finding(height, None, "likely", _DOWNWARDS)]
    if ups <= 4 * downs:
        return layout, [place, finding(height, layout.vertical, "likely", axis)]
    sure: Confidence = "certain" if axis == "named z" else "likely"
    columns = [values_of(recording, "body")[:, list(layout.position)] for recording in recordings]
    if place.confidence == "likely" and not layout.summed and roles.are_places(columns):
        place = finding(place.field, layout.position, sure, f"{place.reason}, and z agrees")
    reason = f"{axis}, and it rises between taking and leaving a thing {times_text(ups)}"
    return layout, [place, finding(height, layout.vertical, sure, reason)]


def _find_place(
    recordings: Sequence[Recording], layout: Layout, hand: Sequence[int], other: Sequence[int]
) -> tuple[tuple[int, ...], int | None, str]:
    """The dimensions of the arm, the height among them, and why."""
    source, names = body_of(recordings[0]), _place_names(recordings[0], layout)
    dims = values_of(recordings[0], source).shape[1]
    dead = {i for i in range(dims) if not any(arm_moves(values_of(r, source)[:, [i]]) for r in recordings)}
    hand, other = (hand, other) if layout.source == source else ((), ())
    base = {*(layout.base if layout.base_source == source else ()), *roles.find_speeds(recordings)}
    position, named = roles.find_position(names, dims, hand, base, other)
    if {*position} <= dead and len(dead) < dims:
        position, named = roles.find_position(names, dims, hand, base | dead, other)
    by_name = "the arm's joints, by their names" if names else "all the rest"
    return position, named, by_name if named is None else "named x, y and z"


def _place_names(recording: Recording, layout: Layout) -> tuple[str, ...]:
    """The names of the body's dimensions, of summed rates as if they were places."""
    names = enumerate(names_of(recording, "body"))
    return tuple(_RATE.sub("", name) if i in layout.summed else name for i, name in names)


def _find_height(recordings: Sequence[Recording], layout: Layout, dims: Sequence[int]) -> int | None:
    """The only one of numbers without names, `dims`, that goes one way with a thing and back.

    With each lift several joints do, and of a pose the height. A quaternion holds none.
    """
    if len({re.sub(r"\d+", "", name) for name in _place_names(recordings[0], layout)}) > 1:
        return None
    some = recordings[:: -(-len(recordings) // _LOOKED)]
    bodies = [values_of(r, "body") for r in some]
    turns = find_turns(np.concatenate(bodies))
    ways = {
        i: _lifts(some, layout.model_copy(update={"position": _with_height(i, dims), "vertical": i}))
        for i in dims
        if i not in turns and any(arm_moves(body[:, [i]]) for body in bodies)
    }
    least = max(_LIFTS[0], max(map(max, ways.values()), default=0) / 2 + 0.5)
    lifted = [i for i, way in ways.items() if max(way) >= max(least, 4 * min(way) + 1)]
    if len(lifted) != 1:
        return None
    ups, downs = ways[lifted[0]]
    return lifted[0] if ups >= _LIFTS[1] and ups > downs else None


def _with_height(height: int, dims: Sequence[int]) -> tuple[int, ...]:
    """The place whose height is known: x and y come before it, or anywhere."""
    place = (height - 2, height - 1, height)
    return place if {*place} <= {*dims} else tuple(dims)


def _lifts(recordings: Sequence[Recording], layout: Layout) -> tuple[int, int]:
    """Count how often the height rises, and falls, between a hand's closing and opening.

    Only what the hand does away from where it rests counts.
    """
    ups = downs = 0
    for trace in (read_trace(recording, layout) for recording in recordings):
        for start, end, _ in trace.level_spans():
            if trace.height is None or end == len(trace.hand):
                continue
            if not (trace.is_away(start) and trace.is_away(end)):
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
        return finding(field, layout.closed, "given", "by --layout")
    if not any(moves(trace.hand) for trace in traces):
        return finding(field, None, "certain", f"it never moves in {sample}")
    ends = episodes_by_end(traces)
    if min(ends.values()) > max(1, _FEW * sum(ends.values())):
        reason = (
            f"by their commands it closes at its low end in {episodes_text(ends['low'])} and at its high end "
            f"in {ends['high']}, as with two robots: annotate them apart, by --episodes"
        )
        return finding(field, None, "unknown", reason)
    names = names_of(first, layout.source)
    evidence = closed_end(traces, [names[i] for i in layout.gripper] if names else [], robot_type)
    low, high = (sum(e.weight for e in evidence if e.end == end) for end in ("low", "high"))
    end: End = "low" if low >= high else "high"
    reason = "; ".join(e.reason for e in evidence if e.end == end)
    if against := [e.reason for e in evidence if e.end != end]:
        reason = f"{reason}; but {'; '.join(against)}"
    if abs(high - low) < _ENOUGH:
        hand = np.concatenate([trace.hand for trace in traces])
        span = f"it goes from {hand.min():.3g} to {hand.max():.3g} in {sample}"
        reason = f"{span}; {reason or 'nothing tells more'}"
        return finding(field, None, "unknown", reason, ("closed=low", "closed=high"))
    sure = not against and max(low, high) >= _CERTAIN
    return finding(field, end, "certain" if sure else "likely", reason)
