"""What holds for a robot: its grippers, which end is closed, and its arms, inferred from a whole dataset."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from goalreel.planners.kinematic.arm_place import find_arm
from goalreel.planners.kinematic.base import find_base
from goalreel.planners.kinematic.closed_end import closed_end
from goalreel.planners.kinematic.commands import Evidence, episodes_by_end, hold_level
from goalreel.planners.kinematic.counts import episodes_text
from goalreel.planners.kinematic.finding import Confidence, Finding
from goalreel.planners.kinematic.hands import Hand, find_hands, finger_joints, fingers, names_of
from goalreel.planners.kinematic.layout import Layout, check_layout, written
from goalreel.planners.kinematic.signals import moves
from goalreel.planners.kinematic.traces import read_trace
from goalreel.types import Recording

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
