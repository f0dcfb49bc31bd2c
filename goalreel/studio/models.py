"""The models of a studio: those of the start, and those of presets, made when they are first asked.

The page shows which presets cannot be used here, and why. Nothing is loaded, fetched or started to find out.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException

from goalreel.errors import InputError, UserError, first_line
from goalreel.extras import absent
from goalreel.http.probe import probe
from goalreel.models import presets
from goalreel.models.load import check_references, kinds_of
from goalreel.models.memory import gpu_gb, memory_of
from goalreel.models.presets import LoopOptions, Preset
from goalreel.serving.loading import build_models
from goalreel.serving.service import Service
from goalreel.serving.settings import Models
from goalreel.torch_support import free_memory
from goalreel.types import ROLES, Role

RETRY_SECONDS = 10
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
    models: dict[Role, str]
    """Their names for a reader."""

    def view(self) -> dict[str, Any]:
        """Describe it to a client. It blocks: its servers are asked if they are there."""
        reason = self.problem()
        return {"name": self.name, "models": self.models, "available": reason is None, "reason": reason}

    def problem(self) -> str | None:
        """Say in one line why they cannot be used now, servers included; None: they can."""
        try:
            models, _ = self.build()
            for model in (models.planner, models.editor, models.critic):
                probe(model)
        except (UserError, OSError) as e:
            return first_line(e)
        except ModuleNotFoundError as e:
            return absent(e) or str(e)
        return None


def studio_presets(started: Preset, started_models: Models) -> list[StudioPreset]:
    """List the presets that come with goalreel; that of the start has the start's models."""

    def build_started() -> tuple[Models, LoopOptions]:
        return started_models, started

    offered: list[StudioPreset] = []
    for name in presets.names():
        preset = presets.read(name)
        models = {role: preset.model_name(role) for role in ROLES}
        shown = {role: model.plain() if model.nameless else model.brief() for role, model in models.items()}
        build = build_started if preset == started else partial(_build, name, started)
        offered.append(StudioPreset(name, build, shown))
    return offered


def _build(name: str, started: Preset) -> tuple[Models, LoopOptions]:
    """Build the models of a preset beside those of the start.

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
            f"`goalreel doctor --models {name}` fetches them"
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


class ModelSets:
    """The start's models, which stay, and those of presets. Used from the event loop only.

    Beside the start's there is one set with models of this process at most. Sets of servers hold no memory.
    """

    def __init__(self, started: Service, presets: Sequence[StudioPreset]) -> None:
        self._started = started
        self.presets = {preset.name: preset for preset in presets}
        """The presets that may be chosen, by name."""
        self._services: dict[str, Service] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def open(self, name: str | None, at_work: Collection[Service]) -> Service:
        """Open the models of a preset, None for those of the start; `at_work` are in use, and stay.

        Raises:
            InputError: there is no such preset.
            UserError, ModuleNotFoundError: it cannot be used here.
            HTTPException: 429, other models are at work, and there is no memory beside them.
        """
        if name is None:
            return self._started
        if name not in self.presets:
            choices = f"there are {', '.join(self.presets)}" if self.presets else "this server has one set"
            raise InputError(f"no preset {name!r} here: {choices}; leave it out for the models of the start")
        service = self._services.get(name)
        if service is not None:
            if service in at_work or all(b.alive for b in service.batchers.values()):
                return service
            self._drop(name)
        models, loop = self.presets[name].build()
        if models is self._started.models:
            return self._started
        if _is_local(models):
            self._make_room(name, at_work)
        settings = self._started.settings.model_copy(update={"loop": loop})
        service = self._services[name] = Service(models, settings)
        service.examiner_of = self._started.examiner_of
        return service

    async def until_free(self) -> None:
        """Wait until models that were dropped hold no memory any more."""
        while self._closing:
            await asyncio.wait(self._closing)

    async def close(self) -> None:
        """End all sets but the start's."""
        for service in self._services.values():
            await asyncio.to_thread(service.close)
        self._services.clear()

    def _make_room(self, name: str, at_work: Collection[Service]) -> None:
        """Drop the set with models of this process, which there is at most once.

        Raises:
            HTTPException: 429, it is at work.
        """
        local = [one for one, service in self._services.items() if _is_local(service.models)]
        for other in local:
            if self._services[other] in at_work:
                busy = f"preset {name}: the models of preset {other} are at work: try again later"
                raise HTTPException(429, busy, {"Retry-After": str(RETRY_SECONDS)})
            self._drop(other)

    def _drop(self, name: str) -> None:
        task = asyncio.create_task(_end(self._services.pop(name)), name=f"end-{name}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _end(service: Service) -> None:
    """End a set's threads, however long a model still takes, and give back its memory."""
    await asyncio.to_thread(service.close, threading.TIMEOUT_MAX)
    del service
    await asyncio.to_thread(free_memory)


def _is_local(models: Models) -> bool:
    """Tell a set with a model in this process from sets of servers."""
    return any(role not in models.remote for role in ROLES)
