"""Nanoseconds and seconds as ROS writes them."""

from builtin_interfaces.msg import Duration, Time

GIGA = 10**9


def to_time(nanoseconds: int) -> Time:
    """Time since the epoch of the node's clock."""
    return Time(sec=nanoseconds // GIGA, nanosec=nanoseconds % GIGA)


def from_time(time: Time) -> int:
    """Nanoseconds."""
    return time.sec * GIGA + time.nanosec


def to_duration(seconds: float) -> Duration:
    """Rounded to a nanosecond."""
    nanoseconds = round(seconds * GIGA)
    return Duration(sec=nanoseconds // GIGA, nanosec=nanoseconds % GIGA)


def from_duration(duration: Duration) -> float:
    """Seconds."""
    return duration.sec + duration.nanosec / GIGA
