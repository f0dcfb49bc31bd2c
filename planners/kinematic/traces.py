"""What a hand and its arm do in one episode, as the inference of a robot reads it."""

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.commands import HandTrace
from goalreel.planners.kinematic.hands import values_of
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.signals import hand_signal, unwrap
from goalreel.types import Recording


def read_trace(recording: Recording, layout: Layout) -> HandTrace:
    """One hand in one episode, under a layout with its gripper and the arm."""
    body = recording.state if recording.state.shape[1] else recording.action
    hand = list(layout.gripper)
    height = None if layout.vertical is None else body[:, layout.vertical].astype(np.float64)
    return HandTrace(
        hand_signal(values_of(recording, layout.source)[:, hand]),
        _command(recording, layout),
        unwrap(body[:, list(layout.position)]),
        height,
        recording.fps,
    )


def _command(recording: Recording, layout: Layout) -> NDArray[np.float64] | None:
    """The command of a hand in the state: the action's dimensions of the same names, or the same indices."""
    if layout.source == "action" or not recording.action.shape[1]:
        return None
    hand = list(layout.gripper)
    if len(recording.state_names) == recording.state.shape[1] and recording.action_names:
        names = [recording.state_names[i] for i in hand]
        if not set(names) <= set(recording.action_names):
            return None
        hand = [recording.action_names.index(name) for name in names]
    elif recording.state.shape != recording.action.shape:
        return None
    return hand_signal(recording.action[:, hand])
