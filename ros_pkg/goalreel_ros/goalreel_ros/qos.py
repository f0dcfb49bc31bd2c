"""Quality of service that several modules share."""

import os

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

OFFERED_LEASE = 0.5
LEASE = float(os.environ.get("GOALREEL_LEASE", "1.5"))
"""Seconds of silence after which a publisher counts as gone: three signs of life, or a second's delay. On a
network that loses more, or a machine that is busier, set it higher where goals are followed."""

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""A late joiner gets the present state."""


def _alive(lease: float) -> QoSProfile:
    # AUTOMATIC: a thread of the middleware gives the signs of life. It ends, or stops, with the process; but
    # Python may hold its lock for seconds while models load, and a MANUAL sign would be missing then.
    return QoSProfile(
        depth=1,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        liveliness=LivelinessPolicy.AUTOMATIC,
        liveliness_lease_duration=Duration(nanoseconds=round(lease * 1e9)),
    )


GOAL = _alive(OFFERED_LEASE)
"""Of whoever publishes sub-goals: latched, with signs of life."""
WATCHED = _alive(LEASE)
"""Of whoever follows them and must know that their publisher lives; hears no publisher without such signs."""
