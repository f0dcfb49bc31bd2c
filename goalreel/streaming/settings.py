"""The settings of a storyboard under way, and the same as flat parameters, as ROS has them.

A parameter that may be unset says so by a value of its own:

    text            ""
    one of a few    "preset"
    yes or no       "preset", else "with" or "without"
    a number        0 where its range begins above 0, else -1
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo

from goalreel.models.presets import FIELDS, PRESET_HELP, ModelChoice, Preset
from goalreel.settings import SettingError, Settings, bound_of, is_read_only

MAX_IMAGE_SIDE = 1280
"""The editors of the catalogue draw a megapixel, and a model server takes 16 in one request."""


class EngineSettings(Settings):
    """The settings of an Engine. Every field has a description and, where it is a number, a range."""

    models: ModelChoice = ModelChoice()
    """The preset, and what replaces its fields."""
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Seed of the pictures.")
    max_instruction_length: int = Field(
        2000,
        ge=1,
        le=100_000,
        description="Refuse requests with a longer task, auxiliary text or reason, in characters.",
    )
    max_replans: int = Field(2, ge=0, le=100, description="How often a task may be re-planned.")
    task_timeout: float | None = Field(
        None, gt=0, le=86400, description="Longest duration of a task in seconds."
    )
    model_timeout: float = Field(
        120.0, ge=0.1, le=3600, description="Seconds after which a model call counts as failed."
    )
    on_model_failure: Literal["text_only", "fail"] = Field(
        "text_only",
        description="When a model cannot be asked: continue in words, marked UNVERIFIED, or end the task.",
    )
    on_unverified: Literal["publish", "fail"] = Field(
        "publish",
        description="When all pictures of a step were rejected: publish one (see keep), marked UNVERIFIED, "
        "or end the task.",
    )
    require_verified: bool = Field(
        False,
        description="Publish only goal images that a critic accepted, in a plan of the planner. At any other "
        "step the policy holds, until set_active_step moves on, or the rest is re-planned after "
        "stall_timeout.",
    )
    max_image_age: float = Field(
        1.0, ge=0.05, le=60, description="Age in seconds from which a camera frame is too old to use."
    )
    image_timeout: float = Field(
        10.0, ge=0, le=3600, description="Seconds to wait for a usable camera frame before giving up."
    )
    max_image_side: int = Field(
        MAX_IMAGE_SIDE,
        ge=64,
        le=8192,
        description="Longest side, in pixels, of camera frames that models get. Goal images keep the "
        "camera's size.",
    )
    track_rate: float = Field(5.0, ge=0.1, le=30, description="How often the live view is looked at, in Hz.")
    critic_period: float = Field(
        2.0, ge=0, le=600, description="Shortest time between two questions to the critic, in seconds."
    )
    gate: float = Field(
        0.3,
        ge=-10,
        le=1,
        description="Share of the visible change that must be seen before the critic is asked (1: all of "
        "it). If the view comes to rest earlier, the critic is asked once.",
    )
    stall_timeout: float = Field(
        60.0, ge=0.1, le=86400, description="Seconds without progress after which the rest is re-planned."
    )
    leave_timeout: float = Field(
        30.0,
        ge=0.1,
        le=86400,
        description="Seconds far off the plan (see leave) after which the task is re-planned.",
    )
    leave: float = Field(
        -2.0,
        ge=-100,
        le=0,
        description="Share of the visible change below which the scene is off the plan (0: no change).",
    )
    rerender: float = Field(
        0.015,
        ge=0,
        le=1,
        description="Share of the picture that may differ between scene and prediction. Above it the next "
        "goal image is rendered again from the scene.",
    )
    goals_ahead: int = Field(
        0,
        ge=0,
        le=1000,
        description="How many more goal images to render before the policy gets the first one. With more it "
        "starts later, and waits less between steps.",
    )

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


UNSET = "preset"
FLAGS = {"with": True, "without": False}

type Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class FlatParameter:
    """One parameter: what it is for, and what it may hold."""

    name: str
    default: Value
    description: str
    choices: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    """Least and greatest value of a number."""
    read_only: bool = False
    optional: bool = False
    """Its default stands for none."""

    def setting(self, value: object) -> object:
        """The setting that a value stands for; None where it is unset.

        Raises:
            SettingError: it is no word for yes or no, where these are the choices.
        """
        if self.optional and self._is_unset(value):
            return None
        if not set(FLAGS) <= set(self.choices):
            return value
        if value not in FLAGS:
            raise SettingError(self.name, f"{self.name}: Input should be one of {', '.join(self.choices)}")
        return FLAGS[str(value)]

    def _is_unset(self, value: object) -> bool:
        if isinstance(self.default, str):
            return value == self.default
        try:
            number = float(str(value))
        except ValueError:
            return False
        return number == self.default or self.default < number < 0


def engine_parameters() -> dict[str, FlatParameter]:
    """The parameters of `EngineSettings`, those of its preset one by one."""
    preset = FlatParameter("preset", ModelChoice().preset, PRESET_HELP, read_only=True)
    overrides = {name: _optional(name, Preset.model_fields[name], "the preset's") for name in FIELDS}
    return {"preset": preset, **overrides, **parameters_of(EngineSettings)}


def parameters_of(settings: type[Settings]) -> dict[str, FlatParameter]:
    """A parameter for each field of settings but for `models`."""
    return {
        name: _optional(name, field, "none") if field.default is None else _plain(name, field)
        for name, field in settings.model_fields.items()
        if name != "models"
    }


def engine_settings(values: Mapping[str, object]) -> EngineSettings:
    """Read settings from values of parameters; what is not among them has its default.

    Raises:
        SettingError: there is no such parameter, or a value does not fit.
    """
    settings: dict[str, Any] = dict(_settings(engine_parameters(), values))
    return EngineSettings.of(**settings)


def parameter_values(overrides: Mapping[str, object]) -> dict[str, object]:
    """A preset's overrides as values of parameters."""
    flag_texts = {flag: text for text, flag in FLAGS.items()}
    return {
        name: flag_texts[value] if isinstance(value, bool) else value for name, value in overrides.items()
    }


def _settings(
    parameters: Mapping[str, FlatParameter], values: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    """The settings that values stand for, without those that are unset."""
    for name, value in values.items():
        setting = parameters[name].setting(value) if name in parameters else value
        if setting is not None:
            yield name, setting


def _plain(name: str, field: FieldInfo) -> FlatParameter:
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    bounds = _bounds(field)
    return FlatParameter(name, field.default, field.description or "", choices, bounds, is_read_only(field))


def _optional(name: str, field: FieldInfo, meaning: str) -> FlatParameter:
    """A parameter that may be unset, with what it means then."""
    kind = _without_none(field.annotation)
    default: Value = ""
    choices, bounds = (), None
    if kind is bool:
        default, choices = UNSET, (UNSET, *FLAGS)
    elif get_origin(kind) is Literal:
        default, choices = UNSET, (UNSET, *get_args(kind))
    elif kind in (int, float):
        default = kind(-1 if bound_of(field, "ge") == 0 else 0)
        bounds = default, bound_of(field, "le") or default
    description = f"{(field.description or '').removesuffix('.')} ({_shown(default)}: {meaning})."
    return FlatParameter(name, default, description, choices, bounds, is_read_only(field), optional=True)


def _shown(default: Value) -> str:
    return "empty" if default == "" else "below 0" if default == -1 else str(default)


def _bounds(field: FieldInfo) -> tuple[float, float] | None:
    low, high = bound_of(field, "ge", "gt"), bound_of(field, "le")
    return None if low is None or high is None else (low, high)


def _without_none(annotation: Any) -> Any:
    """The annotation itself, or the one beside None."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if type(None) in get_args(annotation) else annotation
