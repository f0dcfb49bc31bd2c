# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""Quality-of-service profiles that several modules share."""

import os
from copy import copy
from typing import Any

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions

OVERRIDABLE = QoSOverridingOptions.with_default_policies()
"""History, depth and reliability may be set by parameters, `qos_overrides./TOPIC.publisher.depth` for one."""

OFFERED_LEASE = 0.5
DEFAULT_LEASE = 1.5
LEASE = float(os.environ.get("GOALREEL_LEASE", DEFAULT_LEASE))
"""Seconds of silence after which a publisher counts as gone: three missed assertions, or a delay of a second.
Set it higher, where goals are followed, on a lossy network or a busy machine."""
LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""A late subscriber gets the present state."""


def alive(lease: float) -> QoSProfile:
    """Make a latched profile with signs of life, at most `lease` seconds apart."""
    # AUTOMATIC: a thread of the middleware asserts liveliness. It ends, or stops, with the process. With
    # MANUAL, assertions would be missed while Python holds its lock for seconds as models load.
    qos = copy(LATCHED)
    qos.liveliness = LivelinessPolicy.AUTOMATIC
    qos.liveliness_lease_duration = Duration(nanoseconds=round(lease * 1e9))
    return qos


GOAL = alive(OFFERED_LEASE)
"""For publishers of sub-goals: latched, with liveliness."""


def create_publisher(node: Node, kind: type[Any], topic: str, qos: QoSProfile) -> Publisher[Any]:
    """Create a publisher whose QoS the node's parameters may override; rclpy would change `qos` itself."""
    return node.create_publisher(kind, topic, copy(qos), qos_overriding_options=OVERRIDABLE)
