"""A request being carried out on the engine's event loop."""

import asyncio
from collections.abc import Callable

from goalreel.streaming.board import Board, CodedText, ErrorCode
from goalreel.streaming.live_board import LiveBoard
from goalreel.streaming.operator_commands import Override, PendingCommands, TaskCommand
from goalreel.streaming.request import TaskOutcome
from goalreel.streaming.session import Session
from goalreel.streaming.ticket import Ticket


class Execution:
    """A ticket with its session, its board, and the pending commands about it."""

    def __init__(
        self,
        ticket: Ticket,
        session: Session,
        live: LiveBoard,
        commands: PendingCommands,
        call: Callable[..., None],
    ) -> None:
        """`call` calls a function with its arguments on the loop, from any thread."""
        self.ticket, self.session, self.live = ticket, session, live
        self._commands, self._call = commands, call
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

    def command(self, command: TaskCommand, reason: str) -> CodedText:
        """Carry an operator's command out, or say why not. Called from any thread."""
        if command == "cancel":
            self.ticket.cancel(reason or "cancelled by an operator")
        elif command != "replan":
            if not self.session.executes:
                return ErrorCode.INVALID_REQUEST, "a storyboard that is only generated has nothing to pause"
            self._call(self._commands.pause, command == "pause")
        elif self.live.board.active is None:
            return ErrorCode.INVALID_REQUEST, "nothing is being executed that could be re-planned"
        else:
            self._call(self._commands.request_replan, reason)
        return ErrorCode.NONE, ""

    def set_step(self, index: int, status: str, board: Board, active: int) -> CodedText:
        """Go to a step of `board`, or mark the `active` one, or say why not. Called from any thread."""
        steps = len(board.steps)
        if not 0 <= index < steps:
            return ErrorCode.INVALID_REQUEST, f"there is no step {index}: there are 0 to {steps - 1}"
        if status != "active" and index != active:
            return ErrorCode.INVALID_REQUEST, f"step {active} is the active one, not {index}"
        if status == "failed":
            self.ticket.cancel(f"step {index} was marked as failed", ErrorCode.STEP_FAILED)
        elif status not in ("active", "completed", "skipped"):
            return ErrorCode.INVALID_REQUEST, f"a step cannot be made {status}"
        elif board.state == "planning":
            return ErrorCode.INVALID_REQUEST, f"step {active} and what follows are being planned anew"
        else:
            self._call(self._commands.request_override, Override(index, status, board.revision))
        return ErrorCode.NONE, ""

    async def _run(self, previous: "Execution | None") -> TaskOutcome:
        if previous is not None:
            await asyncio.wait([previous._coroutine])
        return await self.session.run()
