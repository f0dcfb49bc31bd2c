"""What an operator, or the policy itself, orders while a task is executed."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Override:
    """To go to step `index`, or to take it, the active one, as completed or skipped.

    It is about the plan of one revision: another one has other steps.
    """

    index: int
    status: Literal["active", "completed", "skipped"]
    revision: int


class Orders:
    """Keeps what was ordered and not yet carried out, and one bell. Used from the event loop."""

    def __init__(self) -> None:
        self.paused = False
        self.replan: str | None = None
        """Why, once someone asks for it."""
        self.override: Override | None = None
        self._bell = asyncio.Event()

    def pause(self, paused: bool) -> None:
        """Order to hold the task, or to go on with it."""
        self.paused = paused
        self.wake()

    def ask_replan(self, why: str) -> None:
        """Order a new plan for the rest."""
        self.replan = why or "ordered"
        self.wake()

    def ask_override(self, override: Override) -> None:
        """Order to go to a step, or to take it as completed or skipped."""
        self.override = override
        self.wake()

    def wake(self) -> None:
        """Wake whoever waits: something happened that is worth a look."""
        self._bell.set()

    async def wait(self, seconds: float) -> None:
        """Wait until woken, at most that many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        self._bell.clear()
