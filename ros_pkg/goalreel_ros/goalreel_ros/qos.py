"""Quality-of-service profiles that several modules share."""

import os
from copy import copy
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, HistoryPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
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


def subscription_qos(node: Node, topic: str, qos: QoSProfile) -> QoSProfile:
    """Give the QoS of a subscription to the resolved `topic`, as the parameters of `node` override it.

    For a subscription of another node, whose parameters nobody would look for.

    Raises:
        InputError: a parameter names no such policy.
    """
    qos = copy(qos)
    for policy, kind in {"history": HistoryPolicy, "depth": None, "reliability": ReliabilityPolicy}.items():
        name, value = f"qos_overrides.{topic}.subscription.{policy}", getattr(qos, policy)
        if not node.has_parameter(name):
            descriptor = ParameterDescriptor(
                read_only=True, description=f"{policy} for subscription `{topic}`"
            )
            node.declare_parameter(name, value if kind is None else value.name.lower(), descriptor)
        value = node.get_parameter(name).value
        if kind is not None:
            if str(value).lower() not in kind.short_keys():
                # Here, as a policy's machine has this module without goalreel itself.
                from goalreel.errors import InputError

                raise InputError(f"{name}: {value!r} is none of {', '.join(kind.short_keys())}")
            value = kind[value.upper()]
        setattr(qos, policy, value)
    return qos
