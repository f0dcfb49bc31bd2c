"""The two actions. No goal is rejected, since a rejection carries no reason: it ends with a code and text."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future as ConcurrentFuture
from typing import Any

from rclpy.action.server import ActionServer, CancelResponse, RCLError, ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future

from goalreel.streaming.board import BoardProgress, ErrorCode, Phase
from goalreel.streaming.engine import OnPhase
from goalreel.streaming.request import TaskOutcome, TaskRequest
from goalreel.streaming.ticket import Ticket
from goalreel_interfaces.action import AnnotateTask, GenerateStoryboard
from goalreel_ros import convert, requests
from goalreel_ros.outputs import Outputs
from goalreel_ros.requests import Refused, Submit
from goalreel_ros.times import to_duration

RESULT_KEPT = 60
"""Seconds after its end for which a goal's result can still be fetched."""


class _GoalUnderWay:
    """One goal under way. It may be cancelled before its ticket exists."""

    def __init__(self, handle: ServerGoalHandle) -> None:
        self.handle = handle
        self.ticket: Ticket | None = None
        self.cancel_asked = False

    def start(self, ticket: Ticket) -> None:
        self.ticket = ticket
        if self.cancel_asked:
            ticket.cancel()

    def cancel(self) -> None:
        self.cancel_asked = True
        if self.ticket is not None:
            self.ticket.cancel()


class Actions:
    """Both servers. No executor thread waits: a goal's coroutine sleeps until the engine is done."""

    def __init__(
        self,
        node: Node,
        submit: Submit,
        outputs: Outputs,
        now: Callable[[], int],
    ) -> None:
        self._node, self._submit, self._outputs, self._now = node, submit, outputs, now
        self._goals: dict[bytes, _GoalUnderWay] = {}
        self._changed = threading.Condition()
        group = ReentrantCallbackGroup()

        def server(kind: type[Any], name: str, execute: Callable[..., Any]) -> ActionServer:
            return ActionServer(
                node,
                kind,
                name,
                execute,
                callback_group=group,
                handle_accepted_callback=self._accepted,
                # rclpy declares a request there and gives a handle.
                cancel_callback=self._cancel,  # pyright: ignore[reportArgumentType]
                result_timeout=RESULT_KEPT,
            )

        self._servers = [
            server(GenerateStoryboard, "~/generate_storyboard", self._generate),
            server(AnnotateTask, "~/annotate_task", self._annotate),
        ]

    def progress(self, progress: BoardProgress) -> None:
        """Give feedback to whoever has this storyboard executed."""
        message = AnnotateTask.Feedback(progress=convert.progress(progress, self._now()))
        for goal in self._all():
            annotating = isinstance(goal.handle.request, AnnotateTask.Goal)
            if annotating and goal.ticket is not None and goal.ticket.id == progress.board.id:
                _publish(goal.handle, message)

    def drain(self, seconds: float) -> None:
        """Wait until every goal has ended, so long at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._goals, seconds)

    def destroy(self) -> None:
        """Take the actions away."""
        for server in self._servers:
            server.destroy()

    # -- callbacks of the servers

    def _accepted(self, handle: ServerGoalHandle) -> None:
        self._goal_of(handle)
        try:
            handle.execute()
        except RCLError:
            # Cancelled between rclpy's look at the state and its transition. Now it sees that.
            handle.execute()

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        if not handle.is_active:
            return CancelResponse.REJECT  # it has just ended
        self._goal_of(handle).cancel()
        return CancelResponse.ACCEPT

    def _goal_of(self, handle: ServerGoalHandle) -> _GoalUnderWay:
        """Made by whichever comes first: the answer that a goal is accepted may be overtaken by a cancel."""
        with self._changed:
            return self._goals.setdefault(bytes(handle.goal_id.uuid), _GoalUnderWay(handle))

    async def _generate(self, handle: ServerGoalHandle) -> GenerateStoryboard.Result:
        def tell(phase: Phase) -> None:
            self._outputs.do(lambda: _publish(handle, self._feedback(phase)))

        def result(outcome: TaskOutcome) -> GenerateStoryboard.Result:
            return GenerateStoryboard.Result(
                storyboard=convert.storyboard(outcome.board, self._outputs.jpegs, self._now()),
                planning_time=to_duration(outcome.planning_time),
                error_code=outcome.error,
                error_msg=outcome.message,
            )

        def refused(why: Refused) -> GenerateStoryboard.Result:
            return GenerateStoryboard.Result(error_code=why.code, error_msg=str(why))

        return await self._carry_out(handle, requests.generate, tell, result, refused)

    async def _annotate(self, handle: ServerGoalHandle) -> AnnotateTask.Result:
        def result(outcome: TaskOutcome) -> AnnotateTask.Result:
            return AnnotateTask.Result(
                storyboard=convert.storyboard(outcome.board, self._outputs.jpegs, self._now()),
                replans=outcome.replans,
                total_elapsed_time=to_duration(outcome.elapsed),
                error_code=outcome.error,
                error_msg=outcome.message,
            )

        def refused(why: Refused) -> AnnotateTask.Result:
            return AnnotateTask.Result(error_code=why.code, error_msg=str(why))

        return await self._carry_out(handle, requests.annotate, None, result, refused)

    # -- inside

    async def _carry_out[Result](
        self,
        handle: ServerGoalHandle,
        parse: Callable[[Any], TaskRequest],
        on_phase: OnPhase | None,
        result_of: Callable[[TaskOutcome], Result],
        refused: Callable[[Refused], Result],
    ) -> Result:
        """Take one goal from its acceptance to its result."""
        goal = self._goal_of(handle)
        try:
            if goal.cancel_asked:  # so early that nobody else's task need end for it
                raise Refused(ErrorCode.CANCELED, "cancelled")
            ticket = self._submit(parse(handle.request), on_phase)
            goal.start(ticket)
            code, result = await self._ended(ticket, result_of)
        except Refused as e:
            code, result = e.code, refused(e)
        # The engine may be faster than rclpy, which notes a cancellation after the callback for it.
        while goal.cancel_asked and not handle.is_cancel_requested:
            await _Turn()
        if code is ErrorCode.NONE:
            handle.succeed()
        elif code is ErrorCode.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        with self._changed:
            del self._goals[bytes(handle.goal_id.uuid)]
            self._changed.notify_all()
        return result

    async def _ended[Result](
        self, ticket: Ticket, result_of: Callable[[TaskOutcome], Result]
    ) -> tuple[ErrorCode, Result]:
        """Wait for the engine; the publishing thread makes the result."""
        future: Future[tuple[ErrorCode, Result]] = Future(executor=self._node.executor)
        future.add_done_callback(_wake)

        def finish(outcome: TaskOutcome) -> None:
            future.set_result((outcome.error, result_of(outcome)))

        def settled(done: ConcurrentFuture[TaskOutcome]) -> None:
            self._outputs.do(lambda: finish(done.result()))

        ticket.outcome.add_done_callback(settled)
        ended = await future
        if ended is None:
            raise RuntimeError("the executor cancelled a future that is nobody's but ours")
        return ended

    def _feedback(self, phase: Phase) -> GenerateStoryboard.Feedback:
        return convert.phase(phase, self._outputs.frame_id, self._outputs.jpegs)

    def _all(self) -> list[_GoalUnderWay]:
        with self._changed:
            return list(self._goals.values())


class _Turn:
    """Awaited by a coroutine that the executor shall resume at its next turn."""

    def __await__(self) -> Generator[None]:
        yield


def _publish(handle: ServerGoalHandle, feedback: AnnotateTask.Feedback | GenerateStoryboard.Feedback) -> None:
    # rclpy declares its own wrapper there and takes the bare message.
    handle.publish_feedback(feedback)  # pyright: ignore[reportArgumentType]


def _wake(_: Future) -> None:
    """Done callbacks are tasks of the executor; without one it would not look at the coroutine again."""
