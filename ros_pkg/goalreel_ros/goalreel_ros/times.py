"""Converts nanoseconds and seconds to and from ROS messages."""

from builtin_interfaces.msg import Duration, Time

GIGA = 10**9


def to_time(nanoseconds: int) -> Time:
    """Turn nanoseconds since the epoch of the node's clock into a ROS time."""
    return Time(sec=nanoseconds // GIGA, nanosec=nanoseconds % GIGA)


def from_time(time: Time) -> int:
    """Turn a ROS time into nanoseconds."""
    return time.sec * GIGA + time.nanosec


def to_duration(seconds: float) -> Duration:
    """Turn seconds into a ROS duration, rounded to a nanosecond."""
    nanoseconds = round(seconds * GIGA)
    return Duration(sec=nanoseconds // GIGA, nanosec=nanoseconds % GIGA)


def from_duration(duration: Duration) -> float:
    """Turn a ROS duration into seconds."""
    return duration.sec + duration.nanosec / GIGA
