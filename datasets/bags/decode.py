"""Messages as what a dataset holds: a picture, or a row of named numbers."""

from collections.abc import Callable
from typing import Any

from goalreel.image import Image
from goalreel.pixels import decode_compressed, decode_raw

type NamedNumbers = tuple[tuple[str, ...], tuple[float, ...]]
"""Names and values, one a dimension."""

JOINT_STATE = "sensor_msgs/msg/JointState"
IMAGE_TYPES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
STRING = "std_msgs/msg/String"
SUBGOAL = "goalreel_interfaces/msg/SubGoal"
STORYBOARD = "goalreel_interfaces/msg/Storyboard"
PROGRESS = "goalreel_interfaces/msg/StoryboardProgress"


def picture(message: Any) -> Image:
    """Decode an Image or CompressedImage message.

    Raises:
        ValueError: see `decode_raw` and `decode_compressed`.
    """
    if hasattr(message, "encoding"):
        return decode_raw(message.encoding, message.height, message.width, message.step, message.data)
    return decode_compressed(message.data, message.format)


def stamp(message: Any, received: int) -> int:
    """The header's stamp in ns; `received` for a message without a header."""
    header = getattr(message, "header", None)
    return received if header is None else header.stamp.sec * 1_000_000_000 + header.stamp.nanosec


def _joint_state(m: Any) -> NamedNumbers:
    """The positions; nothing of a message that has only velocities or efforts, as ROS allows."""
    if not len(m.position):
        return (), ()
    if len(m.name) != len(m.position):
        raise ValueError(f"{len(m.name)} joint names but {len(m.position)} positions")
    return tuple(m.name), tuple(map(float, m.position))


def _array(m: Any) -> NamedNumbers:
    return tuple(map(str, range(len(m.data)))), tuple(map(float, m.data))


def _scalar(m: Any) -> NamedNumbers:
    return ("0",), (float(m.data),)


def _point(m: Any) -> NamedNumbers:
    return ("x", "y", "z"), (m.x, m.y, m.z)


def _pose(m: Any) -> NamedNumbers:
    p, q = m.position, m.orientation
    return ("x", "y", "z", "qx", "qy", "qz", "qw"), (p.x, p.y, p.z, q.x, q.y, q.z, q.w)


def _twist(m: Any) -> NamedNumbers:
    a, b = m.linear, m.angular
    return ("vx", "vy", "vz", "wx", "wy", "wz"), (a.x, a.y, a.z, b.x, b.y, b.z)


NUMBERS: dict[str, Callable[[Any], NamedNumbers]] = {
    JOINT_STATE: _joint_state,
    "geometry_msgs/msg/Point": _point,
    "geometry_msgs/msg/PointStamped": lambda m: _point(m.point),
    "geometry_msgs/msg/Pose": _pose,
    "geometry_msgs/msg/PoseStamped": lambda m: _pose(m.pose),
    "geometry_msgs/msg/Twist": _twist,
    "geometry_msgs/msg/TwistStamped": lambda m: _twist(m.twist),
    **{f"std_msgs/msg/{k}MultiArray": _array for k in ("Float32", "Float64", "Int32", "Int64", "UInt8")},
    **{f"std_msgs/msg/{k}": _scalar for k in ("Bool", "Float32", "Float64", "Int32", "Int64", "UInt8")},
}
"""Message type -> its numbers. Of joint states the positions."""
