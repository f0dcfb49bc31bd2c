"""Read a training configuration: frozen settings from YAML, or from one of goalreel's presets.

Paths in a configuration are relative to the working directory, as on the command line.
"""

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import goalreel.training.presets as presets_package
from goalreel.errors import InputError

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Portion = Annotated[float, Field(ge=0, le=1)]


class TrainingConfig(BaseModel):
    """Settings that cannot change, and that refuse a name they do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Schedule(TrainingConfig):
    """How long and how fast one trainer runs."""

    steps: Count
    batch: Count
    """Rows a step, over all devices."""
    learning_rate: Positive = 2e-3
    """AdamW's highest rate."""
    muon_learning_rate: Positive = 1.5e-2
    """Muon's highest rate, for the matrices."""
    warmup: Count = 100
    decay: Portion = 0.5
    """The last share of the steps, over which the rates fall to 1 %."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-3
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.999
    log_every: Count = 50
    save_every: Count = 1000


def presets() -> list[str]:
    """Name the configurations that come with goalreel."""
    return sorted(f.stem for f in Path(presets_package.__file__).parent.glob("*.yaml"))


def read_config[C: TrainingConfig](source: str, kind: type[C], **overrides: object) -> C:
    """Read a preset by name, or a YAML file, with those of `overrides` that are not None in place of its own.

    Raises:
        InputError: no such preset or file, no YAML, or a setting that cannot be; one line that names it.
    """
    settings = read_settings(source)
    try:
        return kind.model_validate(settings | {k: v for k, v in overrides.items() if v is not None})
    except ValidationError as e:
        raise InputError(f"{source}: {_first(e)}") from e


def read_settings(source: str) -> dict[str, Any]:
    """Read a preset by name, or a YAML file, as it is.

    Raises:
        InputError: no such preset or file, or no YAML mapping.
    """
    try:
        read = yaml.safe_load(config_file(source).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise InputError(f"{source}: not YAML: {' '.join(str(e).split())[:200]}") from e
    settings = {} if read is None else read
    if not isinstance(settings, dict):
        raise InputError(f"{source}: a configuration is a mapping of settings to values")
    return settings


def _first(error: ValidationError) -> str:
    """Say where the first mistake is and what it is, and how many more there are."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}{more}"


def config_file(source: str) -> Path:
    """Find the file of a preset, by its name, or the file itself.

    Raises:
        InputError: neither; names the presets.
    """
    if source in presets():
        return Path(presets_package.__file__).parent / f"{source}.yaml"
    if not Path(source).is_file():
        raise InputError(f"no configuration {source}: give a YAML file or one of {', '.join(presets())}")
    return Path(source)
