"""Probes of the models' servers, before tasks are taken."""

import asyncio
import time
from functools import partial

from goalreel.errors import BackendError
from goalreel.http.probe import probe
from goalreel.models.trio import Trio
from goalreel.streaming.model_caller import ModelThread
from goalreel.streaming.step_panel import ModelNames
from goalreel.types import ROLES, Role

PAUSE_S = 0.5
"""Seconds between two probes of a server that does not answer yet."""


class Probes:
    """One probe a role. `names` are the published names of the models."""

    def __init__(self, trio: Trio, names: ModelNames) -> None:
        self._trio, self._names = trio, names
        self.answers: dict[Role, str] = {}
        """How each server answered; without those of models that ask no server."""
        self._remarks: dict[Role, str] = {}
        self._problems: dict[Role, str] = {}
        self._began = time.monotonic()

    async def run(self, timeout: float) -> None:
        """Probe all servers, for `timeout` seconds at most where one does not answer.

        Raises:
            UserError: one does not answer, or the address, the key or the model's name is wrong.
        """
        tasks = [asyncio.create_task(self._probe(role, timeout)) for role in ROLES]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
        for task in done:
            task.result()  # raises what is wrong with an address, a key or a name
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
        """What should be looked at although all servers answered."""
        return [f"the {role}: {self._remarks[role]}" for role in ROLES if role in self._remarks]

    async def _probe(self, role: Role, timeout: float) -> None:
        late = self._began + timeout
        thread, ask = ModelThread(f"goalreel-probe-{role}"), partial(probe, getattr(self._trio, role))
        try:
            while True:
                began = time.monotonic()
                try:
                    remark = await thread.call(ask, max(PAUSE_S, late - began))
                    break
                except (BackendError, TimeoutError) as e:
                    self._problems[role] = str(e) or f"no answer within {timeout:g} s"
                    if time.monotonic() + PAUSE_S > late:
                        return
                await asyncio.sleep(PAUSE_S)
        finally:
            thread.close()
        self._problems.pop(role, None)
        if remark is not None:
            self.answers[role] = f"answered in {time.monotonic() - began:.3f} s"
        if remark:
            self._remarks[role] = remark
