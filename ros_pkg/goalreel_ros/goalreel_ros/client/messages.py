"""Building the messages that the client sends, and telling received ones apart."""

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel_interfaces.msg import SubGoal


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


def subgoal_key(goal: SubGoal) -> tuple[object, ...]:
    """Give what identifies a sub-goal. Stamps do not suffice: simulated time may stand still."""
    return goal.header, bytes(goal.storyboard_id.uuid), goal.revision, goal.index
