"""A robot as a whole dataset shows it: its grippers, which end is closed, and its arms."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from goalreel.planners.kinematic.closed_end import (
    Evidence,
    HandTrace,
    closed_end,
    episodes_by_end,
    hold_level,
    is_away,
    level_spans,
    read_trace,
)
from goalreel.planners.kinematic.layout import (
    Confidence,
    Finding,
    Layout,
    check_layout,
    episodes_text,
    names_of,
    values_of,
    written,
)
from goalreel.planners.kinematic.roles import find_base, find_position, is_of_arm, named_hands, side_of
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


_NO_HEIGHT = "no dimension is known to be a height: --layout vertical=N names one"
_DOWNWARDS = "named z, but it falls between taking and leaving a thing: --layout vertical=N names another"
_STEPS = "x, y and z of the action are near 0 whenever the arm stands: steps, and no places"
_RISES = 0.1
"""Share of the height's range that a hand with a thing rises at least."""
_AT_ZERO, _OFTEN = 0.05, 0.05
"""Steps lie this near to 0, as a share of the greatest, in this share of the frames."""


def find_arm(
    recordings: Sequence[Recording], layout: Layout, label: str, hand: Sequence[int], other: Sequence[int]
) -> tuple[Layout, list[Finding]]:
    """Complete position and vertical axis; the dimensions of the `hand` are no arm, nor of the `other`."""
    field = f"{label}position"
    if layout.position:
        place = Finding(field=field, value=written(layout.position), confidence="given", reason="by --layout")
        if layout.vertical is None:
            return layout, [place, _height(label, None, "likely", _NO_HEIGHT)]
        return layout, [place, _height(label, layout.vertical, "given", "by --layout")]
    source = "state" if recordings[0].state.shape[1] else "action"
    names, dims = names_of(recordings[0], source), values_of(recordings[0], source).shape[1]
    position, vertical = find_position(
        names,
        dims,
        hand if layout.source == source else (),
        layout.base if layout.base_source == source else (),
        other if layout.source == source else (),
    )
    confidence: Confidence = "likely" if vertical is None else "certain"
    reason = "named x, y and z"
    if vertical is None:
        reason = "the arm's joints, by their names" if len(names) == dims else "all the rest"
    elif source == "action" and _are_steps(recordings, position):
        position, vertical, confidence, reason = (), None, "unknown", _STEPS
    place = Finding(field=field, value=written(position) or None, confidence=confidence, reason=reason)
    if layout.vertical is not None:
        height = _height(label, layout.vertical, "given", "by --layout")
        return layout.model_copy(update={"position": position}), [place, height]
    layout = layout.model_copy(update={"position": position, "vertical": vertical})
    if vertical is None:
        return layout, [place, _height(label, None, "likely", _NO_HEIGHT)]
    if layout.gripper and _falls(recordings, layout):
        layout = layout.model_copy(update={"vertical": None})
        return layout, [place, _height(label, None, "likely", _DOWNWARDS)]
    return layout, [place, _height(label, vertical, "certain", "named z")]


def _height(label: str, vertical: int | None, confidence: Confidence, reason: str) -> Finding:
    value = None if vertical is None else str(vertical)
    return Finding(field=f"{label}vertical", value=value, confidence=confidence, reason=reason)


def _are_steps(recordings: Sequence[Recording], position: Sequence[int]) -> bool:
    """Whether all axes often lie at 0 at once, as those of an arm that stands do where they are steps."""
    values = np.abs(np.concatenate([recording.action[:, list(position)] for recording in recordings]))
    return bool((values < _AT_ZERO * values.max(axis=0)).all(axis=1).mean() >= _OFTEN)


def _falls(recordings: Sequence[Recording], layout: Layout) -> bool:
    """Whether the height falls and rises again between a hand's closing and opening, as a rule."""
    ways = [way for recording in recordings for way in _ways(read_trace(recording, layout))]
    return ways.count("down") >= 3 and ways.count("down") > 4 * ways.count("up")


def _ways(trace: HandTrace) -> list[str]:
    """Where the hand goes between two changes of it, away from where it rests: up or down, and back."""
    if trace.height is None:
        return []
    ways: list[str] = []
    for start, end, _ in level_spans(trace):
        if end == len(trace.hand) or not is_away(trace, start) or not is_away(trace, end):
            continue
        heights = trace.height[start : end + 1]
        up = heights.max() - max(heights[0], heights[-1])
        down = min(heights[0], heights[-1]) - heights.min()
        if max(up, down) > _RISES * np.ptp(trace.height):
            ways.append("up" if up > down else "down")
    return ways


SAMPLE = 200
"""Episodes that `infer_robot` needs at most."""

_ENOUGH, _CERTAIN = 2, 5
"""How far the evidence for an end must outweigh the rest, and what it takes to be certain."""
_FEW = 0.1
"""Share of the episodes up to which their commands may tell another end than those of the rest."""


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
        """As JSON: the layout as `--layout` writes it, and each finding."""
        return {"layout": str(self.layout), "findings": [f.model_dump(mode="json") for f in self.findings]}

    @property
    def unknown(self) -> tuple[Finding, ...]:
        """What the run needs and the data do not tell."""
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
    hint, base_findings = _find_base(recordings[0], hint, robot_type)
    hands: list[Hand]
    if hint.gripper:
        hands = [(h.model_copy(update={"other": None}), "given", "by --layout") for h in hint.hands]
    else:
        hands = find_hands(recordings, hint, sample)
    robots = [_infer_hand(recordings, *hand, robot_type, sample, hands) for hand in hands]
    if not robots:
        layout, arm_findings = find_arm(recordings, hint, "", (), ())
        nothing = "no dimension is named so or goes between two levels"
        gripper = Finding(field="gripper", value=None, confidence="likely", reason=f"{nothing} in {sample}")
        return Robot(
            layout=layout.model_copy(update={"complete": True}),
            findings=(gripper, *arm_findings, *base_findings),
        )
    layouts, findings = _settle(
        [layout for layout, _ in robots], [f for _, arm_findings in robots for f in arm_findings]
    )
    other = layouts[1] if len(layouts) > 1 else None
    return Robot(layout=layouts[0].model_copy(update={"other": other}), findings=(*findings, *base_findings))


def find_layout(recording: Recording, hint: Layout | None = None) -> Layout:
    """The layout of one recording on its own; a complete `hint` stays as it is.

    Raises:
        Unsegmentable: an index of `hint` lies outside the recording.
    """
    return infer_robot([recording], hint).layout


def _find_base(recording: Recording, layout: Layout, robot_type: str | None) -> tuple[Layout, list[Finding]]:
    """Complete the mobile base; a robot without one has no finding."""
    if layout.base:
        return layout, [
            Finding(field="base", value=written(layout.base), confidence="given", reason="by --layout")
        ]
    base, source, reason = find_base(recording, robot_type)
    if not base:
        return layout, []
    confidence: Confidence = "certain" if reason.startswith("named") else "likely"
    finding = Finding(
        field="base", value=written(base), confidence=confidence, reason=f"{reason}, in {source}"
    )
    update: dict[str, object] = {"base": base, "base_source": source}
    other = layout.other.model_copy(update=update) if layout.other else None
    return layout.model_copy(update={**update, "other": other}), [finding]


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
    hand = fingers(recordings, layout) if confidence == "likely" else layout.gripper
    if confidence == "certain":
        layout = layout.model_copy(update={"gripper": finger_joints(recordings, layout)})
    gripper = Finding(
        field=f"{label}gripper", value=written(layout.gripper), confidence=confidence, reason=reason
    )
    other = [
        i for h, _, _ in hands if h.source == layout.source and h.gripper[0] not in hand for i in h.gripper
    ]
    layout, arm = find_arm(recordings, layout, label, hand, other)
    closed = _find_closed(recordings, layout, robot_type, sample, label)
    layout = layout.model_copy(update={"closed": closed.value, "complete": True})
    findings = [gripper, closed, *arm]
    if layout.closed and layout.threshold is None and len(layout.gripper) == 1:
        threshold = hold_level([read_trace(recording, layout) for recording in recordings], layout.closed)
        layout = layout.model_copy(update={"threshold": threshold})
        if threshold is not None:
            reason = "it also closes on nothing, far beyond what it holds"
            finding = Finding(
                field=f"{label}threshold", value=written(threshold), confidence="likely", reason=reason
            )
            findings.insert(2, finding)
    return layout, findings


def _find_closed(
    recordings: Sequence[Recording], layout: Layout, robot_type: str | None, sample: str, label: str
) -> Finding:
    """Weigh what speaks for either end of a gripper."""
    field = f"{label}closed"
    if layout.closed is not None:
        return Finding(field=field, value=layout.closed, confidence="given", reason="by --layout")
    traces = [read_trace(recording, layout) for recording in recordings]
    if not any(moves(trace.hand) for trace in traces):
        return Finding(field=field, value=None, confidence="certain", reason=f"it never moves in {sample}")
    ends = episodes_by_end(traces)
    if min(ends.values()) > max(1, _FEW * sum(ends.values())):
        reason = (
            f"by their commands it closes at its low end in {episodes_text(ends['low'])} and at its high end "
            f"in {ends['high']}, as with two robots: annotate them apart, by --episodes"
        )
        return Finding(field=field, value=None, confidence="unknown", reason=reason)
    all_names = names_of(recordings[0], layout.source)
    names = [all_names[i] for i in layout.gripper] if all_names else []
    evidence = closed_end(traces, names, robot_type, len(layout.gripper))
    weights = {end: sum(e.weight for e in evidence if e.end == end) for end in ("low", "high")}
    end: Literal["low", "high"] = "low" if weights["low"] >= weights["high"] else "high"
    against = weights["high" if end == "low" else "low"]
    reason = _reasons(evidence, end)
    if weights[end] - against < _ENOUGH:
        hand = np.concatenate([trace.hand for trace in traces])
        what = f"it goes from {hand.min():.3g} to {hand.max():.3g} in {sample}"
        return Finding(
            field=field, value=None, confidence="unknown", reason=f"{what}; {reason or 'nothing tells more'}"
        )
    sure = not against and weights[end] >= _CERTAIN
    return Finding(field=field, value=end, confidence="certain" if sure else "likely", reason=reason)


def _reasons(evidence: Sequence[Evidence], end: str) -> str:
    support = "; ".join(e.reason for e in evidence if e.end == end)
    against = "; ".join(e.reason for e in evidence if e.end != end)
    return f"{support}; but {against}" if against else support


def _settle(layouts: list[Layout], findings: list[Finding]) -> tuple[list[Layout], list[Finding]]:
    """Let two hands of one robot close at the same end where only one of them tells."""
    ends = {layout.closed for layout in layouts if layout.closed}
    if len(layouts) < 2 or len(ends) != 1:
        return layouts, findings
    (end,) = ends
    return (
        [layout.model_copy(update={"closed": end}) for layout in layouts],
        [
            f.model_copy(
                update={"value": end, "confidence": "likely", "reason": f"as the other hand; {f.reason}"}
            )
            if f.field.endswith("closed") and f.confidence == "unknown"
            else f
            for f in findings
        ],
    )
