# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The node's parameters: those of the engine's settings and of the node's own options.

`goalreel.streaming.settings` says how a field becomes a parameter. Here they are declared to ROS and read.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Literal

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from goalreel.errors import InputError
from goalreel.settings import Settings, setting
from goalreel.streaming.settings import (
    EngineSettings,
    FlatParameter,
    engine_parameters,
    engine_settings,
    parameters_of,
)
from goalreel.subgoal_camera import DEFAULT_FORM, SubGoalForm


class NodeOptions(Settings):
    """The node's parameters that concern ROS alone."""

    image_transport: Literal["raw", "compressed"] = setting(
        "raw", "Type of the camera topic.", read_only=True
    )
    frame_id: str = setting("", "Optical frame of the camera, instead of the one its messages name.")
    progress_rate: float = setting(4.0, "Rate of ~/progress in Hz.", ge=2, le=5, read_only=True)
    jpeg_quality: int = setting(90, "Quality of every JPEG that is published.", ge=1, le=100)
    subgoal_form: SubGoalForm = setting(
        DEFAULT_FORM,
        "How ~/subgoal/image shows a goal: as the dataset that the policy was trained on. "
        "difference and beside follow the camera, at its rate.",
        read_only=True,
    )
    contact_sheet_width: int = setting(1280, "Width of ~/storyboard/image in pixels.", ge=160, le=4096)
    publish_markers: bool = setting(True, "Publish ~/markers.", read_only=True)
    server_timeout: float = setting(
        3.0, "Seconds that activation waits for models' servers to answer, before it fails.", ge=0, le=3600
    )
    autostart: bool = setting(True, "Configure and activate on start.", read_only=True)


ENGINE: Mapping[str, FlatParameter] = engine_parameters()
NODE: Mapping[str, FlatParameter] = parameters_of(NodeOptions)
FIXED = "fixed once the node is configured"
PARAMETERS: Mapping[str, FlatParameter] = {**ENGINE, **NODE}


def declare(node: Node, parameters: Mapping[str, FlatParameter] = PARAMETERS) -> None:
    """Declare every parameter; rclpy raises a ParameterException for an override that does not fit."""
    for parameter in parameters.values():
        node.declare_parameter(parameter.name, parameter.default, describe(parameter))


def declare_options[Options: Settings](node: Node, options: type[Options]) -> Options:
    """Declare one parameter per field, and read them all.

    Raises:
        SettingError: a value is not valid.
        rclpy.exceptions.ParameterException: an override has the wrong type or is out of range.
    """
    parameters = parameters_of(options)
    declare(node, parameters)
    return options.read(_values(node, parameters))


def check_names(overrides: Collection[str], parameters: Collection[str]) -> Iterator[str]:
    """Give the names of `overrides` that are no `parameters` of ours. A file for all nodes may hold others.

    Raises:
        InputError: one is so near to one of ours that it must be meant.
    """
    for name in sorted(set(overrides) - set(parameters)):
        if near := get_close_matches(name, PARAMETERS, 1, 0.8):
            raise InputError(f"there is no parameter {name}: write {near[0]}")
        if not name.startswith("qos_overrides."):
            yield name


def describe(parameter: FlatParameter) -> ParameterDescriptor:
    """Describe a parameter to ROS: type, range, text, and whether it is fixed once the node is configured."""
    constraints = ["one of: " + ", ".join(parameter.choices)] if parameter.choices else []
    constraints += [FIXED] if parameter.read_only else []
    descriptor = ParameterDescriptor(
        description=parameter.description, additional_constraints="; ".join(constraints)
    )
    if parameter.bounds is None:
        return descriptor
    low, high = parameter.bounds
    if isinstance(parameter.default, int):
        descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    else:
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor


def read_engine_settings(node: Node, changes: Mapping[str, object] | None = None) -> EngineSettings:
    """Read the engine's settings from the declared parameters, with `changes` on top.

    Raises:
        InputError: a value that does not fit; one line.
    """
    return engine_settings({**_values(node, ENGINE), **(changes or {})})


def read_node_options(node: Node, changes: Mapping[str, object] | None = None) -> NodeOptions:
    """Read the node's own options in the same way."""
    return NodeOptions.read({**_values(node, NODE), **(changes or {})})


def check(node: Node, changed: list[Parameter], configured: bool) -> SetParametersResult:
    """Say whether the settings take the changes, all together. Some are fixed once the node is configured."""
    try:
        for parameter in changed if configured else ():
            name, ours = parameter.name, PARAMETERS.get(parameter.name)
            if ours is not None and ours.read_only and parameter.value != node.get_parameter(name).value:
                raise InputError(f"{name} is {FIXED}: clean it up first (ros2 lifecycle set NODE cleanup)")
        read_engine_settings(node, {p.name: p.value for p in changed if p.name in ENGINE})
        read_node_options(node, {p.name: p.value for p in changed if p.name in NODE})
    except ValueError as e:
        return SetParametersResult(successful=False, reason=str(e))
    return SetParametersResult(successful=True)


def _values(node: Node, parameters: Mapping[str, FlatParameter]) -> dict[str, object]:
    return {name: node.get_parameter(name).value for name in parameters}
