"""Quality-of-service profiles that several modules share."""

import os

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy

OFFERED_LEASE = 0.5
LEASE = float(os.environ.get("GOALREEL_LEASE", "1.5"))
"""Seconds of silence after which a publisher counts as gone: three missed assertions, or a delay of a second.
Set it higher, where goals are followed, on a lossy network or a busy machine."""

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""A late subscriber gets the present state."""


def _alive(lease: float) -> QoSProfile:
    # AUTOMATIC: a thread of the middleware asserts liveliness. It ends, or stops, with the process. With
    # MANUAL, assertions would be missed while Python holds its lock for seconds as models load.
    return QoSProfile(
        depth=1,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        liveliness=LivelinessPolicy.AUTOMATIC,
        liveliness_lease_duration=Duration(nanoseconds=round(lease * 1e9)),
    )


GOAL = _alive(OFFERED_LEASE)
"""For publishers of sub-goals: latched, with liveliness."""
WATCHED = _alive(LEASE)
"""For subscribers that must know whether the publisher is alive. Incompatible with publishers without it."""
