"""What an operator, or the policy itself, orders while a task is executed."""

import asyncio
from contextlib import suppress
from typing import Any, Literal

type OrderName = Literal["pause", "resume", "replan", "override"]
type Override = Literal["active", "completed", "skipped"]


class Orders:
    """Keeps what was ordered and not yet carried out, and one bell. Used from the event loop."""

    def __init__(self) -> None:
        self.paused = False
        self.replan: str | None = None
        """Why, once someone asks for it."""
        self.override: tuple[int, Override] | None = None
        self._bell = asyncio.Event()

    def give(self, order: OrderName, value: Any) -> None:
        """`pause`, `resume`, `replan` (value: why) or `override` (value: step and status)."""
        if order == "replan":
            self.replan = value or "ordered"
        elif order == "override":
            self.override = value
        else:
            self.paused = order == "pause"
        self.wake()

    def wake(self) -> None:
        """Something happened that whoever waits should look at."""
        self._bell.set()

    async def wait(self, seconds: float) -> None:
        """Wait until woken, at most that many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        self._bell.clear()
