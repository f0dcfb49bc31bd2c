"""Presets: small YAML files that name a planner, an editor, a critic and the attempts a step."""

from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goalreel.errors import InputError

Name = Annotated[str, Field(min_length=1)]


class Preset(BaseModel):
    """Which models to build (see `goalreel.models.load`), and the paper's T."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    planner: Name
    editor: Name
    critic: Name
    critic_mode: Literal["strict", "fast"] = "strict"
    """`strict` for an RL checkpoint, `fast` for an SFT one."""
    critic_scores: bool = False
    """Ask for 0-10 scores too, to choose the best of rejected attempts by; no checkpoint learned that."""
    critic_threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    """Accept where the Critic's probability of success is at least this; None takes its word."""
    max_attempts: Annotated[int, Field(ge=1)]
    keep: Literal["best", "last"] = "best"
    """The picture that is kept of a step without an accepted one (`goalreel.loop.Keep`)."""
    max_steps: Annotated[int, Field(ge=1, le=1000)] = 40
    """A longer plan is no plan: the planner is told so, and asked again."""
    name: Annotated[str | None, Field(exclude=True)] = None
    """The file that it was read from."""

    @property
    def predictive(self) -> bool:
        """It renders goals nobody has filmed, rather than read them off a recording."""
        return self.editor != "hindsight"


def names() -> list[str]:
    """The presets that come with goalreel."""
    return sorted(f.name.removesuffix(".yaml") for f in files(__name__).iterdir() if f.name.endswith(".yaml"))


def load(name: str, **overrides: object) -> Preset:
    """Read a preset by name and replace the fields of `overrides` that are not None.

    Raises:
        InputError: there is no such preset, or an override does not fit.
    """
    import yaml

    if name not in names():
        raise InputError(f"no preset {name!r}; there are {', '.join(names())}")
    fields = yaml.safe_load((files(__name__) / f"{name}.yaml").read_text())
    given = {k: v for k, v in overrides.items() if v is not None}
    try:
        return Preset.model_validate(fields | {"name": name} | given)
    except ValidationError as e:
        first = e.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from e
