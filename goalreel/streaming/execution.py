"""A request being carried out on the engine's event loop."""

import asyncio
from collections.abc import Callable

from goalreel.streaming.board import ErrorCode
from goalreel.streaming.live_board import LiveBoard
from goalreel.streaming.operator_commands import PendingCommands
from goalreel.streaming.request import TaskOutcome
from goalreel.streaming.session import Session
from goalreel.streaming.ticket import Ticket


class Execution:
    """A ticket with its session, its board, and the pending commands about it."""

    def __init__(self, ticket: Ticket, session: Session, live: LiveBoard, commands: PendingCommands) -> None:
        self.ticket, self.session, self.live, self.commands = ticket, session, live, commands
        self._coroutine: asyncio.Task[TaskOutcome]

    def start(
        self, previous: "Execution | None", on_end: Callable[["Execution", asyncio.Task[TaskOutcome]], None]
    ) -> None:
        """Run the session once the previous execution has ended, then call `on_end`, all on the loop."""
        self._coroutine = asyncio.create_task(self._run(previous), name="goalreel-task")
        self._coroutine.add_done_callback(lambda coroutine: on_end(self, coroutine))

    def stop(self, error: ErrorCode, message: str) -> None:
        """End it with that code. Called on the event loop."""
        self.session.reason = error, message
        self._coroutine.cancel()

    async def _run(self, previous: "Execution | None") -> TaskOutcome:
        if previous is not None:
            await asyncio.wait([previous._coroutine])
        return await self.session.run()
