"""How a storyboard is made, streamed and tracked. `goalreel.streaming.parameters` has the same for ROS."""

from typing import Annotated, Literal, Self

from pydantic import Field

from goalreel.models.choice import ModelChoice
from goalreel.models.presets import FIELDS
from goalreel.settings import Settings

MAX_IMAGE_SIDE = 1280
"""The editors of the catalogue draw a megapixel, and a model server takes 16 in one request."""


class EngineSettings(Settings):
    """The settings of an Engine. Every field has a description and, where it is a number, a range."""

    models: ModelChoice = ModelChoice()
    """The preset, and what replaces its fields."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, description="Seed of the pictures.")] = 0
    max_instruction_length: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Refuse requests with a longer task, auxiliary text or reason, in characters.",
        ),
    ] = 2000
    max_replans: Annotated[int, Field(ge=0, le=100, description="How often a task may be re-planned.")] = 2
    task_timeout: Annotated[
        float | None, Field(gt=0, le=86400, description="Longest duration of a task in seconds.")
    ] = None
    model_timeout: Annotated[
        float,
        Field(
            ge=0.1,
            le=3600,
            description="Seconds after which a model call counts as failed.",
        ),
    ] = 120.0
    on_model_failure: Annotated[
        Literal["text_only", "fail"],
        Field(
            description="When a model cannot be asked: continue in words, marked UNVERIFIED, or end the task."
        ),
    ] = "text_only"
    on_unverified: Annotated[
        Literal["publish", "fail"],
        Field(
            description="When all pictures of a step were rejected: publish one (see "
            "keep), marked UNVERIFIED, or end the task."
        ),
    ] = "publish"
    require_verified: Annotated[
        bool,
        Field(
            description="Publish only goal images that a critic accepted, in a plan of the planner. "
            "At any other step the policy holds, until "
            "set_active_step moves on, or the rest is re-planned after stall_timeout."
        ),
    ] = False
    max_image_age: Annotated[
        float,
        Field(ge=0.05, le=60, description="Age in seconds from which a camera frame is too old to use."),
    ] = 1.0
    image_timeout: Annotated[
        float, Field(ge=0, le=3600, description="Seconds to wait for a usable camera frame before giving up.")
    ] = 10.0
    max_image_side: Annotated[
        int,
        Field(
            ge=64,
            le=8192,
            description="Longest side, in pixels, of camera frames that models get. "
            "Goal images keep the camera's size.",
        ),
    ] = MAX_IMAGE_SIDE
    track_rate: Annotated[
        float, Field(ge=0.1, le=30, description="How often the live view is looked at, in Hz.")
    ] = 5.0
    critic_period: Annotated[
        float,
        Field(ge=0, le=600, description="Shortest time between two questions to the critic, in seconds."),
    ] = 2.0
    gate: Annotated[
        float,
        Field(
            ge=-10,
            le=1,
            description="Share of the visible change that must be seen before "
            "the critic is asked (1: all of it). "
            "If the view comes to rest earlier, the critic is asked once.",
        ),
    ] = 0.3
    stall_timeout: Annotated[
        float,
        Field(ge=0.1, le=86400, description="Seconds without progress after which the rest is re-planned."),
    ] = 60.0
    leave_timeout: Annotated[
        float,
        Field(
            ge=0.1,
            le=86400,
            description="Seconds far off the plan (see leave) after which the task is re-planned.",
        ),
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
            description="Share of the picture that may differ between scene and prediction. Above it the "
            "next goal image is rendered again from the scene.",
        ),
    ] = 0.015
    goals_ahead: Annotated[
        int,
        Field(
            ge=0,
            le=1000,
            description="How many more goal images to render before the policy gets the first one. With "
            "more it starts later, and waits less between steps.",
        ),
    ] = 0

    @classmethod
    def of(cls, preset: str = "nano", **values: object) -> Self:
        """Make settings from values by their names: fields of these settings, and of presets.

        >>> EngineSettings.of("klein", max_attempts=2, gate=0.5).models
        ModelChoice(preset='klein', overrides={'max_attempts': 2})

        Raises:
            SettingError: there is no such field, or a value does not fit.
        """
        overrides = {name: values.pop(name) for name in FIELDS if name in values}
        return cls.read({"models": ModelChoice.of(preset, **overrides), **values})
