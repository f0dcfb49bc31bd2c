"""How a storyboard is made, streamed and tracked. The ROS node declares one parameter a field from here."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from goalreel.models.discovery import forms
from goalreel.models.registry import Role

READ_ONLY: JsonDict = {"read_only": True}
"""Marks what is fixed once the models are loaded."""

MAX_IMAGE_SIDE = 1280
"""The editors of the catalogue draw a megapixel, and a model server takes 16 in one request."""


def _instead(role: Role) -> str:
    return f"Instead of the preset's: {', '.join(forms(role))}."


class EngineSettings(BaseModel):
    """The settings of an Engine. Every field has a description and, where it is a number, a range."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    preset: Annotated[
        str,
        Field(
            description="Which planner, editor and critic: a name, or a YAML file of one's own; nano knows "
            "only the simulated tabletop.",
            json_schema_extra=READ_ONLY,
        ),
    ] = "nano"
    planner: Annotated[
        str,
        Field(
            description=_instead("planner"),
            json_schema_extra=READ_ONLY,
        ),
    ] = ""
    editor: Annotated[
        str,
        Field(
            description=_instead("editor"),
            json_schema_extra=READ_ONLY,
        ),
    ] = ""
    critic: Annotated[
        str,
        Field(
            description=_instead("critic"),
            json_schema_extra=READ_ONLY,
        ),
    ] = ""
    critic_mode: Annotated[
        Literal["preset", "strict", "fast"],
        Field(description="How the critic is asked.", json_schema_extra=READ_ONLY),
    ] = "preset"
    critic_scores: Annotated[
        Literal["preset", "with", "without"],
        Field(description="The critic is asked for 0-10 scores too, or not.", json_schema_extra=READ_ONLY),
    ] = "preset"
    critic_threshold: Annotated[
        float,
        Field(
            ge=-1,
            le=1,
            description="Accept a picture from this probability of success on; below 0: the preset's.",
            json_schema_extra=READ_ONLY,
        ),
    ] = -1.0
    critic_live: Annotated[
        Literal["preset", "candidate", "observed"],
        Field(
            description="How the critic is asked about live frames: in the words for an editor's pictures, "
            "as nano learns them, or in those for a camera's, which suit other chat models.",
            json_schema_extra=READ_ONLY,
        ),
    ] = "preset"
    keep: Annotated[
        Literal["preset", "best", "last"],
        Field(
            description="Of pictures that were all rejected, the one that is shown: the best by the critic's "
            "scores, or else its probability, or without either the last; or always the last."
        ),
    ] = "preset"
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, description="Seed of the pictures.")] = 0
    max_instruction_length: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Refuse requests with a longer task, auxiliary text or reason, in characters.",
        ),
    ] = 2000
    max_steps: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="Refuse plans with more steps; 0: the preset's number. A request may allow fewer.",
            json_schema_extra=READ_ONLY,
        ),
    ] = 0
    max_attempts: Annotated[int, Field(ge=0, le=20, description="Pictures a step; 0: the preset's.")] = 0
    max_replans: Annotated[int, Field(ge=0, le=100, description="Re-plans a task.")] = 2
    task_timeout: Annotated[float, Field(ge=0, le=86400, description="Seconds a task may take; 0: any.")] = (
        0.0
    )
    model_timeout: Annotated[
        float,
        Field(
            ge=0.1,
            le=3600,
            description="Seconds a model call may take, from its beginning, before it counts as failed.",
        ),
    ] = 120.0
    on_model_failure: Annotated[
        Literal["text_only", "fail"],
        Field(
            description="A model that cannot be asked: go on in words, marked UNVERIFIED, or end the task."
        ),
    ] = "text_only"
    on_unverified: Annotated[
        Literal["publish", "fail"],
        Field(
            description="A step whose pictures were all rejected: show one (see keep), UNVERIFIED, or end "
            "the task."
        ),
    ] = "publish"
    confirm: Annotated[
        Literal["preset", "with", "without"],
        Field(
            description="The critic is asked at the end, on live frames, whether the task as a whole is "
            "done, or not; what it does not confirm ends as UNVERIFIED, not as SUCCEEDED."
        ),
    ] = "preset"
    max_image_age: Annotated[
        float,
        Field(ge=0.05, le=60, description="Seconds after which a camera frame is not the scene any more."),
    ] = 1.0
    image_timeout: Annotated[
        float, Field(ge=0, le=3600, description="Seconds to wait for a usable camera frame before giving up.")
    ] = 10.0
    max_image_side: Annotated[
        int,
        Field(
            ge=64,
            le=8192,
            description="The longer side, in pixels, that models are given camera frames with at most; goal "
            "images keep the camera's size.",
        ),
    ] = MAX_IMAGE_SIDE
    track_rate: Annotated[float, Field(ge=0.1, le=30, description="Looks at the live view, in Hz.")] = 5.0
    critic_period: Annotated[
        float, Field(ge=0, le=600, description="Least seconds between two questions to the critic.")
    ] = 2.0
    gate: Annotated[
        float,
        Field(
            ge=-10,
            le=1,
            description="Share of the visible change to be seen before the critic is asked (1: all of it); "
            "about a view that comes to rest short of that it is asked once.",
        ),
    ] = 0.3
    stall_timeout: Annotated[
        float,
        Field(ge=0.1, le=86400, description="Seconds without progress after which the rest is re-planned."),
    ] = 60.0
    leave_timeout: Annotated[
        float,
        Field(ge=0.1, le=86400, description="Seconds far off the plan (see leave) before it is re-planned."),
    ] = 30.0
    leave: Annotated[
        float,
        Field(
            ge=-100,
            le=0,
            description="Share of the visible change below which the scene is off the plan (0: no change).",
        ),
    ] = -2.0
    rerender: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Share of the picture that may differ between scene and prediction; above it the "
            "next goal is rendered again from the scene.",
        ),
    ] = 0.015
