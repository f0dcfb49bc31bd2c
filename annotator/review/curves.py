"""Curves below the time line (how closed the hand is, how fast the arm moves), and events of the motion."""

import numpy as np

from goalreel.planners.kinematic.layout import Layout, Unsegmentable, check_recording
from goalreel.planners.kinematic.motion import read_arms
from goalreel.planners.kinematic.robot import find_layout
from goalreel.planners.watch.planner import proposed
from goalreel.types import Recording

type Points = list[tuple[int, float]]


def curves(recording: Recording, layout: Layout | None) -> dict[str, Points]:
    """Name -> points (frame, 0-1), at most 400; a curve that the recording does not give is left out."""
    try:
        check_recording(recording)
        motion = read_arms(recording, find_layout(recording, layout))
    except Unsegmentable:
        return {}
    hand = {} if motion.closed is None else {"gripper": _points(motion.closed)}
    top = float(motion.speed.max(initial=0.0))
    return hand | ({"speed": _points(motion.speed / top)} if top > 0 else {})


def candidates(recording: Recording, layout: Layout | None) -> list[int]:
    """List the frames at which the motion shows an event; none where the recording cannot be cut."""
    try:
        return [proposal.frame for proposal in proposed(recording, layout)]
    except Unsegmentable:
        return []


def _points(values: np.ndarray) -> Points:
    frames = np.unique(np.linspace(0, len(values) - 1, min(400, len(values))).round().astype(int))
    return [(int(frame), round(float(values[frame]), 3)) for frame in frames]
