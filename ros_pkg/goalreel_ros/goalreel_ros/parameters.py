"""The node's parameters: one a field of the engine's Settings and of the node's own Options.

A field's default gives the type, its bounds the range, its text the description; `read_only` in its
`json_schema_extra` makes the parameter read-only, a Literal's values are named in additional_constraints.
"""

from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from goalreel.errors import InputError
from goalreel.streaming.settings import READ_ONLY, EngineSettings
from goalreel.subgoal_camera import DEFAULT_FORM, SubGoalForm


class NodeOptions(BaseModel):
    """The node's parameters that concern ROS alone."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image_transport: Annotated[
        Literal["raw", "compressed"],
        Field(description="Type of the camera topic.", json_schema_extra=READ_ONLY),
    ] = "raw"
    frame_id: Annotated[
        str, Field(description="Optical frame of the camera, instead of the one its messages name.")
    ] = ""
    progress_rate: Annotated[
        float, Field(ge=2, le=5, description="Rate of ~/progress in Hz.", json_schema_extra=READ_ONLY)
    ] = 4.0
    jpeg_quality: Annotated[int, Field(ge=1, le=100, description="Of every JPEG that is published.")] = 90
    subgoal_form: Annotated[
        SubGoalForm,
        Field(
            description="How ~/subgoal/image shows a goal: as the dataset that the policy was trained on. "
            "difference and beside follow the camera, at its rate.",
            json_schema_extra=READ_ONLY,
        ),
    ] = DEFAULT_FORM
    contact_sheet_width: Annotated[
        int, Field(ge=160, le=4096, description="Width of ~/storyboard/image in pixels.")
    ] = 1280
    publish_markers: Annotated[bool, Field(description="Publish ~/markers.", json_schema_extra=READ_ONLY)] = (
        True
    )
    film_strip: Annotated[bool, Field(description="Goal images as textured quads among the markers.")] = False
    autostart: Annotated[
        bool, Field(description="Configure and activate on start.", json_schema_extra=READ_ONLY)
    ] = True


GROUPS: tuple[type[BaseModel], ...] = (EngineSettings, NodeOptions)


def declare(node: Node) -> None:
    """Declare every parameter.

    Raises:
        rclpy.exceptions.ParameterException: an override of the wrong type or out of range.
    """
    for group in GROUPS:
        for name, field in group.model_fields.items():
            node.declare_parameter(name, field.default, describe(field))


def describe(field: FieldInfo) -> ParameterDescriptor:
    """Describe a field as ROS describes a parameter: type, range, text, read-only or not."""
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    descriptor = ParameterDescriptor(
        description=field.description or "", read_only=bool(extra.get("read_only", False))
    )
    if get_origin(field.annotation) is Literal:
        descriptor.additional_constraints = "one of: " + ", ".join(get_args(field.annotation))
    low, high = _bound(field, "ge"), _bound(field, "le")
    if low is None or high is None:
        return descriptor
    if field.annotation is int:
        descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
    else:
        descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return descriptor


def read[Group: BaseModel](node: Node, group: type[Group], changes: dict[str, Any] | None = None) -> Group:
    """Read the declared parameters of a group, with `changes` on top.

    Raises:
        InputError: a value the group refuses; one line.
    """
    values = {n: node.get_parameter(n).value for n in group.model_fields} | (changes or {})
    try:
        return group.model_validate(values)
    except ValidationError as e:
        raise InputError("; ".join(f"{_place(x['loc'])}: {x['msg']}" for x in e.errors())) from None


def check(node: Node, changed: list[Parameter]) -> SetParametersResult:
    """Say whether the groups take the changes, all together."""
    try:
        for group in GROUPS:
            read(node, group, {p.name: p.value for p in changed if p.name in group.model_fields})
    except ValueError as e:
        return SetParametersResult(successful=False, reason=str(e))
    return SetParametersResult(successful=True)


def _bound(field: FieldInfo, side: Literal["ge", "le"]) -> float | None:
    return next((getattr(m, side) for m in field.metadata if hasattr(m, side)), None)


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location))
