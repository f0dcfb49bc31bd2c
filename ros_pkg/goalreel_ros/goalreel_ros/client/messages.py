"""Building the messages that the client sends, and telling received ones apart."""

import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.streaming.board import Board
from goalreel.streaming.step_panel import StepPanel
from goalreel.types import Storyboard
from goalreel_interfaces.msg import Storyboard as StoryboardMessage
from goalreel_interfaces.msg import SubGoal
from goalreel_ros import convert


def build[M](kind: Callable[..., M], **fields: Any) -> M:
    """Make a message with checked fields. rclpy does not check them by default and crashes later.

    Raises:
        InputError: a value has the wrong type or is out of range.
    """
    try:
        return kind(check_fields=True, **fields)
    except AssertionError as e:
        raise InputError(" ".join(str(e).split())) from None


def png(image: NDArray[np.uint8]) -> CompressedImage:
    """Encode an RGB picture (h, w, 3) as a PNG message."""
    return CompressedImage(format="png", data=array("B", Image(image.copy()).png()))


def storyboard_message(board: Storyboard) -> StoryboardMessage:
    """Convert a storyboard for a node to execute, its goal images without loss.

    Raises:
        InputError: it has no plan, or a step has no picture yet.
    """
    if board.failure is not None:
        raise InputError(f"the storyboard has no plan: {board.failure.line}")
    panels = []
    for index, step in enumerate(board.steps):
        if step.status == "skipped":
            raise InputError(f"step {index} ({step.step.name}) has no goal image yet: draw it first")
        panel = StepPanel(
            index, step.step, len(step.attempts), what=step.claims.what, looks=step.claims.looks
        )
        size = step.goal_image.size if step.goal_image is not None else (1, 1)
        panels.append(panel.finish(step, 0, size))
    sent = Board(task=board.task.instruction, state="ready", steps=tuple(panels))
    message = convert.storyboard(sent, None, time.time_ns())
    for step, panel in zip(message.steps, panels, strict=True):
        if panel.goal_image is not None:
            step.goal_image = png(panel.goal_image.pixels)
    if board.task.image is not None:
        message.source_image = png(board.task.image.pixels)
    return message


def subgoal_key(goal: SubGoal) -> tuple[object, ...]:
    """Give what identifies a sub-goal. Stamps do not suffice: simulated time may stand still."""
    return goal.header, bytes(goal.storyboard_id.uuid), goal.revision, goal.index
