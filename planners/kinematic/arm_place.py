"""Which dimensions tell where the arm is, and which one grows upwards."""

from collections.abc import Sequence

import numpy as np

from goalreel.planners.kinematic.closed_end import is_away, level_spans
from goalreel.planners.kinematic.commands import HandTrace
from goalreel.planners.kinematic.dimension_roles import find_position
from goalreel.planners.kinematic.finding import Confidence, Finding
from goalreel.planners.kinematic.hands import names_of, values_of
from goalreel.planners.kinematic.layout import Layout, written
from goalreel.planners.kinematic.traces import read_trace
from goalreel.types import Recording

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
