"""The models of a studio: those of the start, and sets of a preset each, made when they are first asked."""

import asyncio
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace

from starlette.exceptions import HTTPException

from goalreel.errors import InputError
from goalreel.serving.service import Service
from goalreel.serving.settings import Models
from goalreel.serving.storyboards import RETRY_SECONDS
from goalreel.studio.presets import StudioPreset
from goalreel.torch_support import free_memory
from goalreel.types import ROLES


class ModelSets:
    """The start's models, which stay, and those of presets. Used from the event loop only.

    Beside the start's there is one set with models of this process at most. Sets of servers hold no memory.
    """

    def __init__(self, started: Service, presets: Sequence[StudioPreset]) -> None:
        self._started = started
        self._presets = {preset.name: preset for preset in presets}
        self._services: dict[str, Service] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def presets(self) -> tuple[StudioPreset, ...]:
        """What may be chosen."""
        return tuple(self._presets.values())

    def open(self, name: str | None, at_work: Collection[Service]) -> Service:
        """The models of a preset, None for those of the start; `at_work` are in use, and stay.

        Raises:
            InputError: there is no such preset.
            UserError, ModuleNotFoundError: it cannot be used here.
            HTTPException: 429, other models are at work, and there is no memory beside them.
        """
        if name is None:
            return self._started
        preset = self._find(name)
        service = self._services.get(name)
        if service is not None and (service in at_work or all(b.alive for b in service.batchers.values())):
            return service
        if service is not None:
            self._drop(name)
        models, loop = preset.build()
        if models is self._started.models:
            return self._started
        if _is_local(models):
            self._make_room(name, at_work)
        settings = replace(self._started.settings, loop=loop)
        service = self._services[name] = Service(models, settings)
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

    def _find(self, name: str) -> StudioPreset:
        if name not in self._presets:
            choices = f"there are {', '.join(self._presets)}" if self._presets else "this server has one set"
            raise InputError(f"no preset {name!r} here: {choices}; leave it out for the models of the start")
        return self._presets[name]

    def _make_room(self, name: str, at_work: Collection[Service]) -> None:
        """Drop the set with models of this process, which there is at most once.

        Raises:
            HTTPException: 429, it is at work.
        """
        for other, service in list(self._services.items()):
            if not _is_local(service.models):
                continue
            if service in at_work:
                message = (
                    f"preset {name}: the models of preset {other} are at work: try again when they are done"
                )
                raise HTTPException(429, message, {"Retry-After": str(RETRY_SECONDS)})
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
    """Whether a model of a set is in this process."""
    return any(role not in models.remote for role in ROLES)
