"""Settings as flat parameters without a null, as ROS has them; they know nothing of ROS itself.

A parameter that may be unset says so by a value of its own:

    text            ""
    one of a few    "preset"
    yes or no       "preset", else "with" or "without"
    a number        0 where its range begins above 0, else -1
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from goalreel.models.choice import PRESET_HELP, ModelChoice
from goalreel.models.discovery import with_forms
from goalreel.models.presets import FIELDS, Preset
from goalreel.settings import SettingError, Settings, bound_of, is_read_only
from goalreel.streaming.settings import EngineSettings

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
    description = f"{with_forms(field.description or '').removesuffix('.')} ({_shown(default)}: {meaning})."
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
