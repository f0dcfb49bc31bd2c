"""What an operator, or the policy itself, orders while a task is executed."""

import asyncio
from contextlib import suppress
from typing import Literal

type Override = Literal["active", "completed", "skipped"]


class Orders:
    """Keeps what was ordered and not yet carried out, and one bell. Used from the event loop."""

    def __init__(self) -> None:
        self.paused = False
        self.replan: str | None = None
        """Why, once someone asks for it."""
        self.override: tuple[int, Override] | None = None
        self._bell = asyncio.Event()

    def pause(self, paused: bool) -> None:
        """Order to hold the task, or to go on with it."""
        self.paused = paused
        self.wake()

    def ask_replan(self, why: str) -> None:
        """Order a new plan for the rest."""
        self.replan = why or "ordered"
        self.wake()

    def ask_override(self, index: int, status: Override) -> None:
        """Order to go to a step, or to take it as completed or skipped."""
        self.override = index, status
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
