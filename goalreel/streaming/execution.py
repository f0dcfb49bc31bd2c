"""A request being carried out, on the engine's event loop."""

import asyncio
from collections.abc import Callable

from goalreel.streaming.board import ErrorCode
from goalreel.streaming.live_board import LiveBoard
from goalreel.streaming.operator_commands import Orders
from goalreel.streaming.request import TaskOutcome
from goalreel.streaming.session import Session
from goalreel.streaming.ticket import Ticket


class Execution:
    """A ticket with what carries it out: its session, its board, and the orders of whoever watches."""

    def __init__(self, ticket: Ticket, session: Session, live: LiveBoard, orders: Orders) -> None:
        self.ticket, self.session, self.live, self.orders = ticket, session, live, orders
        self._coroutine: asyncio.Task[TaskOutcome]

    def begin(
        self,
        earlier: "Execution | None",
        ended: Callable[["Execution", asyncio.Task[TaskOutcome]], None],
    ) -> None:
        """Run the session once the earlier execution has ended, then call `ended`, all on the event loop."""
        self._coroutine = asyncio.create_task(self._run(earlier), name="goalreel-task")
        self._coroutine.add_done_callback(lambda coroutine: ended(self, coroutine))

    def stop(self, error: ErrorCode, message: str) -> None:
        """End it under that code. Called on the event loop."""
        self.session.reason = error, message
        self._coroutine.cancel()

    async def _run(self, earlier: "Execution | None") -> TaskOutcome:
        if earlier is not None:
            await asyncio.wait([earlier._coroutine])
        return await self.session.run()
