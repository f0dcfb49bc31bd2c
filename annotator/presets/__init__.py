"""Presets: small YAML files that name a planner, an editor, a critic and the attempts a step."""

from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Preset(BaseModel):
    """Which back ends to build, and the paper's T."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    planner: Literal["kinematic"]
    editor: Literal["hindsight"]
    critic: Literal["difference"]
    max_attempts: Annotated[int, Field(ge=1)]


def names() -> list[str]:
    """The presets that come with goalreel."""
    return sorted(f.name.removesuffix(".yaml") for f in files(__name__).iterdir() if f.name.endswith(".yaml"))


def load(name: str) -> Preset:
    """Read a preset by name.

    Raises:
        ValueError: there is no such preset.
    """
    import yaml

    if name not in names():
        raise ValueError(f"no preset {name!r}; there are {', '.join(names())}")
    return Preset.model_validate(yaml.safe_load((files(__name__) / f"{name}.yaml").read_text()))
