"""The presets that a person may choose on the page, and why some cannot be used here.

Nothing is loaded, fetched or started to find that out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from goalreel.errors import InputError, UserError
from goalreel.extras import absent
from goalreel.http.probe import probe
from goalreel.models import presets
from goalreel.models.load import check_references, kinds_of
from goalreel.models.memory import gpu_gb, memory_of
from goalreel.models.presets import LoopOptions, Preset
from goalreel.serving.loading import build_models
from goalreel.serving.settings import Models
from goalreel.types import ROLES, Role

CPU_GB = 2.0
"""Models of this process that take more, in GB of 10^9 bytes, are not run without a GPU."""


@dataclass(frozen=True)
class StudioPreset:
    """A set of models by its name."""

    name: str
    build: Callable[[], tuple[Models, LoopOptions]]
    """Makes the models, which are loaded when they are first asked, and says how the loop asks them.

    Raises UserError or ModuleNotFoundError where they cannot be used.
    """
    problem: Callable[[], str | None]
    """Why they cannot be used now, in one line, servers included; None: they can."""
    models: dict[Role, str]
    """Their names for a reader."""


def studio_presets(started: Preset, started_models: Models) -> list[StudioPreset]:
    """The presets that come with goalreel; the one that was chosen at the start has the start's models."""
    return [_studio_preset(name, started, started_models) for name in presets.names()]


def _studio_preset(name: str, started: Preset, started_models: Models) -> StudioPreset:
    preset = presets.read(name)
    brief = {role: preset.model_name(role).brief() for role in ROLES}
    if preset == started:
        return StudioPreset(name, lambda: (started_models, started), lambda: None, brief)
    build = partial(_build, name, started)
    return StudioPreset(name, build, partial(_problem, build), brief)


def _build(name: str, started: Preset) -> tuple[Models, LoopOptions]:
    """The models of a preset beside those of the start.

    Raises:
        UserError: it leaves a model open, reads recordings, has no weights here, or does not fit.
        ModuleNotFoundError: a package is missing.
    """
    preset = presets.load(name)
    kinds_of(preset, recordings=False)
    check_references(preset.references, preset.model_name("editor"))
    _check_memory(name, preset, started)
    return build_models(preset.planner, preset.critic, preset.editor, loading=True), preset


def _check_memory(name: str, preset: Preset, started: Preset) -> None:
    """Check that the weights are on this machine and fit beside the models of the start.

    Raises:
        InputError: they do not.
    """
    memory = memory_of(preset)
    needed = memory.together_gb
    away = [m.role for m in memory.models if m.weights_gb is None or m.origin == "published"]
    if needed is None or away:
        raise InputError(
            f"the weights of {' and '.join(away)} are not on this machine: "
            f"`goalreel doctor --models --preset {name}` fetches them"
        )
    if not needed:
        return
    size, start_gb = gpu_gb(), memory_of(started).together_gb or 0.0
    if size is None:
        if needed > CPU_GB:
            raise InputError(f"it needs a GPU of {needed:.1f} GB, and there is none here")
    elif needed + start_gb > size:
        raise InputError(
            f"it needs {needed:.1f} GB of GPU memory; of {size:.1f} GB, "
            f"the models of the start take {start_gb:.1f}"
        )


def _problem(build: Callable[[], tuple[Models, LoopOptions]]) -> str | None:
    try:
        models, _ = build()
        for model in (models.planner, models.editor, models.critic):
            probe(model)
    except (UserError, OSError) as e:
        return (str(e).splitlines() or [type(e).__name__])[0]
    except ModuleNotFoundError as e:
        return absent(e) or str(e)
    return None
