"""The settings of a storyboard under way, and the same as flat parameters, as ROS has them.

A parameter that may be unset says so by a value of its own:

    text            ""
    one of a few    "preset"
    yes or no       "preset", else "with" or "without"
    a number        0 where its range begins above 0, else -1
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args, get_origin

from pydantic.fields import FieldInfo

from goalreel.models.presets import FIELDS, PRESET_HELP, ModelChoice, Preset
from goalreel.settings import SettingError, Settings, bound_of, is_read_only, kind_of, setting

MAX_IMAGE_SIDE = 1280
"""The editors of the catalogue draw a megapixel, and a model server takes 16 in one request."""


class EngineSettings(Settings):
    """The settings of an Engine. Every field has a description and, where it is a number, a range."""

    models: ModelChoice = ModelChoice()
    """The preset, and what replaces its fields."""
    seed: int = setting(0, "Seed of the pictures.", ge=0, le=2**31 - 1)
    max_instruction_length: int = setting(
        2000, "Refuse requests with a longer task, auxiliary text or reason, in characters.", ge=1, le=100_000
    )
    max_replans: int = setting(2, "How often a task may be re-planned.", ge=0, le=100)
    task_timeout: float | None = setting(None, "Longest duration of a task in seconds.", gt=0, le=86400)
    model_timeout: float = setting(
        120.0, "Seconds after which a model call counts as failed.", ge=0.1, le=3600
    )
    on_model_failure: Literal["text_only", "fail"] = setting(
        "text_only", "When a model cannot be asked: continue in words, marked as such, or end the task."
    )
    on_rejected: Literal["publish", "fail"] = setting(
        "publish",
        "When all pictures of a step were rejected: publish one (see keep), marked as such, or end the task.",
    )
    require_verified: bool = setting(
        False,
        "Publish only goal images that are verified (see examination), in a plan of the planner. At any "
        "other step the policy holds, until set_active_step moves on, or the rest is re-planned after "
        "stall_timeout.",
    )
    examination: str = setting(
        "",
        "Folder of the critic's answers to control questions: its own (see controls) are added to those of a "
        "run of annotate or plan. Empty: they are forgotten at the end. What a critic that passed accepts is "
        "verified.",
    )
    controls: float = setting(
        1.0,
        "Control questions to the critic between tasks, as a multiple of those of annotate: one for five "
        "pictures at first, then one for twenty. 0 asks none.",
        ge=0,
        le=5,
    )
    max_image_age: float = setting(
        1.0, "Age in seconds from which a camera frame is too old to use.", ge=0.05, le=60
    )
    image_timeout: float = setting(
        10.0, "Seconds to wait for a usable camera frame before giving up.", ge=0, le=3600
    )
    max_image_side: int = setting(
        MAX_IMAGE_SIDE,
        "Longest side, in pixels, of camera frames that models get. Goal images keep the camera's size.",
        ge=64,
        le=8192,
    )
    track_rate: float = setting(5.0, "How often the live view is looked at, in Hz.", ge=0.1, le=30)
    critic_period: float = setting(
        2.0, "Shortest time between two questions to the critic, in seconds.", ge=0, le=600
    )
    gate: float = setting(
        0.3,
        "Share of the visible change that must be seen before the critic is asked (1: all of it). If the "
        "view comes to rest earlier, the critic is asked once.",
        ge=-10,
        le=1,
    )
    examples: str = setting(
        "",
        "Folder of a dataset with labelled episodes of the robot's tasks. The critic is then asked when the "
        "robot's joints say, by them, that a step is done, not as soon as much is seen (see gate).",
        read_only=True,
    )
    stall_timeout: float = setting(
        60.0, "Seconds without progress after which the rest is re-planned.", ge=0.1, le=86400
    )
    rerender: float = setting(
        0.015,
        "Share of the picture that may differ between scene and prediction. Above it the next goal image is "
        "rendered again from the scene.",
        ge=0,
        le=1,
    )
    goals_ahead: int = setting(
        0,
        "How many more goal images to render before the policy gets the first one. With more it starts "
        "later, and waits less between steps.",
        ge=0,
        le=1000,
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
        """The setting that a value stands for; None where it is unset. A wrong word is a SettingError."""
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
    parameters = engine_parameters()
    read = {name: parameters[name].setting(v) if name in parameters else v for name, v in values.items()}
    settings: dict[str, Any] = {name: value for name, value in read.items() if value is not None}
    return EngineSettings.of(**settings)


def parameter_values(overrides: Mapping[str, object]) -> dict[str, object]:
    """A preset's overrides as values of parameters."""
    texts = {flag: text for text, flag in FLAGS.items()}
    return {name: texts[value] if isinstance(value, bool) else value for name, value in overrides.items()}


def _plain(name: str, field: FieldInfo) -> FlatParameter:
    low, high = bound_of(field, "ge", "gt"), bound_of(field, "le")
    return FlatParameter(
        name,
        field.default,
        field.description or "",
        choices=get_args(field.annotation) if get_origin(field.annotation) is Literal else (),
        bounds=None if low is None or high is None else (low, high),
        read_only=is_read_only(field),
    )


def _optional(name: str, field: FieldInfo, meaning: str) -> FlatParameter:
    """A parameter that may be unset, with what it means then."""
    kind = kind_of(field)
    default: Value = ""
    choices, bounds = (), None
    if kind is bool:
        default, choices = UNSET, (UNSET, *FLAGS)
    elif get_origin(kind) is Literal:
        default, choices = UNSET, (UNSET, *get_args(kind))
    elif kind in (int, float):
        default = kind(-1 if bound_of(field, "ge") == 0 else 0)
        bounds = default, bound_of(field, "le") or default
    shown = "empty" if default == "" else "below 0" if default == -1 else str(default)
    description = f"{(field.description or '').removesuffix('.')} ({shown}: {meaning})."
    return FlatParameter(name, default, description, choices, bounds, is_read_only(field), optional=True)
