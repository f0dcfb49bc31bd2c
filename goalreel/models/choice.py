"""Which models a person chooses: a preset, and what replaces its fields."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import create_model
from pydantic.fields import FieldInfo

from goalreel.models import presets
from goalreel.models.presets import FIELDS, Preset
from goalreel.settings import Settings

PRESET_HELP = (
    "Which planner, editor and critic: a name, or the path of a .yaml file. nano knows only the simulated "
    "tabletop."
)


@dataclass(frozen=True)
class ModelChoice:
    """A preset by its name or path, and values of `FIELDS` that replace the preset's.

    >>> ModelChoice.of("klein", max_attempts=2, keep=None)
    ModelChoice(preset='klein', overrides={'max_attempts': 2})

    Raises:
        SettingError: a preset has no such field, or the value does not fit.
    """

    preset: str = "nano"
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = _Overrides.read(self.overrides).model_dump(exclude_none=True)
        object.__setattr__(self, "overrides", checked)

    @classmethod
    def of(cls, preset: str, **overrides: object) -> Self:
        """Choose a preset; an override of None leaves the preset's value."""
        return cls(preset, {name: value for name, value in overrides.items() if value is not None})

    def load(self, replaced: Collection[str] = ()) -> Preset:
        """Read the preset and replace its fields. The roles in `replaced` are not asked, and need no name.

        Raises:
            InputError: as `presets.load`.
        """
        return presets.load(self.preset, replaced, **self.overrides)


def _optional(field: FieldInfo) -> Any:
    """The type of an override, and its default."""
    kind: Any = field.annotation
    return Annotated[kind | None, *field.metadata], None


_Overrides = create_model(
    "_Overrides", __base__=Settings, **{name: _optional(Preset.model_fields[name]) for name in FIELDS}
)
