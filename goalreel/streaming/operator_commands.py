"""Commands of an operator, or of the policy itself, while a task is executed."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

type TaskCommand = Literal["pause", "resume", "replan", "cancel"]


@dataclass(frozen=True)
class Override:
    """Go to step `index`, or mark it, the active one, as completed or skipped.

    It holds for the plan of one `revision` only: another plan has other steps.
    """

    index: int
    status: Literal["active", "completed", "skipped"]
    revision: int


class PendingCommands:
    """Commands that have not been carried out yet. Used from the event loop only."""

    def __init__(self) -> None:
        self.paused = False
        self.replan: str | None = None
        """The reason, once somebody asks for a new plan."""
        self.override: Override | None = None
        self._changed = asyncio.Event()

    def pause(self, paused: bool) -> None:
        """Hold the task, or resume it."""
        self.paused = paused
        self.wake()

    def request_replan(self, reason: str) -> None:
        """Ask for a new plan for the remaining steps."""
        self.replan = reason or "ordered"
        self.wake()

    def request_override(self, override: Override) -> None:
        """Ask to go to a step, or to mark it as completed or skipped."""
        self.override = override
        self.wake()

    def wake(self) -> None:
        """Wake whoever waits: something changed."""
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until `wake` is called, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()
