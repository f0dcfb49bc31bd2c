"""The state of models that are loaded, and probes of their servers."""

import asyncio
import time
from functools import partial
from typing import Literal

from goalreel.errors import BackendError, first_line
from goalreel.extras import absent
from goalreel.http.probe import probe
from goalreel.models.model_set import ModelSet
from goalreel.streaming.board import ModelNames
from goalreel.streaming.model_caller import ModelQueue
from goalreel.types import ROLES, Role

PAUSE_S = 0.5
"""Seconds between two probes of a server that does not answer yet."""

type Loading = Literal["unloaded", "loading", "ready", "failed"]


class Probes:
    """One probe a role. `names` are the published names of the models."""

    def __init__(self, model_set: ModelSet, names: ModelNames) -> None:
        self._model_set, self._names = model_set, names
        self.answers: dict[Role, str] = {}
        """The answer of each server; without those of models that ask no server."""
        self._remarks: dict[Role, str] = {}
        self._problems: dict[Role, str] = {}

    async def run(self, timeout: float) -> None:
        """Probe all servers, for `timeout` seconds at most where one does not answer.

        Raises:
            UserError: one does not answer, or the address, the key or the model's name is wrong.
        """
        late = time.monotonic() + timeout
        tasks = [asyncio.create_task(self._probe(role, timeout, late)) for role in ROLES]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if problem := self.describe():
            raise BackendError(problem)

    def describe(self) -> str:
        """Say which servers do not answer, in one line."""
        names: dict[str, list[str]] = {}
        for role in ROLES:
            if problem := self._problems.get(role):
                names.setdefault(problem, []).append(f"{role} ({getattr(self._names, role)})")
        return "; ".join(f"{', '.join(each)}: {problem}" for problem, each in names.items())

    @property
    def remarks(self) -> list[str]:
        """Things to look at although all servers answered."""
        return [f"the {role}: {self._remarks[role]}" for role in ROLES if role in self._remarks]

    async def _probe(self, role: Role, timeout: float, late: float) -> None:
        queue, ask = ModelQueue(f"goalreel-probe-{role}"), partial(probe, getattr(self._model_set, role))
        while True:
            began = time.monotonic()
            try:
                remark = await queue.call(ask, max(PAUSE_S, late - began))
                break
            except (BackendError, TimeoutError) as e:
                self._problems[role] = str(e) or f"no answer within {timeout:g} s"
                if time.monotonic() + PAUSE_S > late:
                    return
            await asyncio.sleep(PAUSE_S)
        self._problems.pop(role, None)
        if remark is not None:
            self.answers[role] = f"answered in {time.monotonic() - began:.3f} s"
        if remark:
            self._remarks[role] = remark


def one_line(error: BaseException) -> str:
    """Give an error's message in one line; for a missing package, how to install it."""
    if isinstance(error, ModuleNotFoundError) and (message := absent(error)) is not None:
        return message
    return first_line(error)
