"""The two actions. No goal is rejected, since a rejection carries no reason: it ends with a code and text."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future as ConcurrentFuture
from functools import partial
from typing import Any

from rclpy.action.server import ActionServer, CancelResponse, ServerGoalHandle
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.task import Future

from goalreel.streaming.board import BoardProgress, ErrorCode, Phase
from goalreel.streaming.request import TaskOutcome
from goalreel.streaming.ticket import Ticket
from goalreel_interfaces.action import AnnotateTask, GenerateStoryboard
from goalreel_ros import convert, requests
from goalreel_ros.outputs import Outputs
from goalreel_ros.requests import Refused, Submit
from goalreel_ros.times import to_duration

RESULT_KEPT = 60
"""Seconds after its end for which a goal's result can still be fetched."""


class _GoalUnderWay:
    """One goal under way: what the engine made of it, or why it did not get there."""

    def __init__(self, handle: ServerGoalHandle, submitted: Ticket | Refused) -> None:
        self.handle, self.submitted = handle, submitted
        self.cancel_asked = False

    def cancel(self) -> None:
        self.cancel_asked = True
        if isinstance(self.submitted, Ticket):
            self.submitted.cancel()


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
        # One goal after the other, of both actions: the newest wins, and a client may send it as soon as it
        # hears that the one before was accepted.
        group = MutuallyExclusiveCallbackGroup()

        def server(
            kind: type[Any],
            name: str,
            submit: Callable[[ServerGoalHandle], Ticket],
            execute: Callable[..., Any],
        ) -> ActionServer:
            return ActionServer(
                node,
                kind,
                name,
                execute,
                callback_group=group,
                handle_accepted_callback=partial(self._accepted, submit),
                # rclpy declares a request there and gives a handle.
                cancel_callback=self._cancel,  # pyright: ignore[reportArgumentType]
                result_timeout=RESULT_KEPT,
            )

        self._servers = [
            server(GenerateStoryboard, "~/generate_storyboard", self._submit_generate, self._generate),
            server(AnnotateTask, "~/annotate_task", self._submit_annotate, self._annotate),
        ]

    def progress(self, progress: BoardProgress) -> None:
        """Give feedback to whoever has this storyboard executed."""
        message = AnnotateTask.Feedback(progress=convert.progress(progress, self._now()))
        for goal in self._all():
            annotating, ticket = isinstance(goal.handle.request, AnnotateTask.Goal), goal.submitted
            if annotating and isinstance(ticket, Ticket) and ticket.id == progress.board.id:
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

    def _accepted(self, submit: Callable[[ServerGoalHandle], Ticket], handle: ServerGoalHandle) -> None:
        try:
            submitted = submit(handle)
        except Refused as e:
            submitted = e
        with self._changed:
            self._goals[bytes(handle.goal_id.uuid)] = _GoalUnderWay(handle, submitted)
        handle.execute()

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        with self._changed:
            goal = self._goals.get(bytes(handle.goal_id.uuid))
        if goal is None or not handle.is_active:
            return CancelResponse.REJECT  # it has just ended
        goal.cancel()
        return CancelResponse.ACCEPT

    def _submit_generate(self, handle: ServerGoalHandle) -> Ticket:
        def tell(phase: Phase) -> None:
            self._outputs.do(lambda: _publish(handle, self._feedback(phase)))

        return self._submit(requests.generate(handle.request), tell)

    def _submit_annotate(self, handle: ServerGoalHandle) -> Ticket:
        return self._submit(requests.annotate(handle.request), None)

    async def _generate(self, handle: ServerGoalHandle) -> GenerateStoryboard.Result:
        def result(outcome: TaskOutcome) -> GenerateStoryboard.Result:
            return GenerateStoryboard.Result(
                storyboard=convert.storyboard(outcome.board, self._outputs.jpegs, self._now()),
                planning_time=to_duration(outcome.planning_time),
                error_code=outcome.error,
                error_msg=outcome.message,
            )

        def refused(why: Refused) -> GenerateStoryboard.Result:
            return GenerateStoryboard.Result(error_code=why.code, error_msg=str(why))

        return await self._carry_out(handle, result, refused)

    async def _annotate(self, handle: ServerGoalHandle) -> AnnotateTask.Result:
        def result(outcome: TaskOutcome) -> AnnotateTask.Result:
            return AnnotateTask.Result(
                storyboard=convert.storyboard(outcome.board, self._outputs.jpegs, self._now()),
                verdict=convert.verdict(outcome.verdict),
                replans=outcome.replans,
                total_elapsed_time=to_duration(outcome.elapsed),
                error_code=outcome.error,
                error_msg=outcome.message,
            )

        def refused(why: Refused) -> AnnotateTask.Result:
            return AnnotateTask.Result(error_code=why.code, error_msg=str(why))

        return await self._carry_out(handle, result, refused)

    # -- inside

    async def _carry_out[Result](
        self,
        handle: ServerGoalHandle,
        result_of: Callable[[TaskOutcome], Result],
        refused: Callable[[Refused], Result],
    ) -> Result:
        """Take one goal from what the engine made of it to its result."""
        name = bytes(handle.goal_id.uuid)
        goal = self._goals[name]
        if isinstance(goal.submitted, Refused):
            code, result = goal.submitted.code, refused(goal.submitted)
        else:
            code, result = await self._ended(goal.submitted, result_of)
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
            del self._goals[name]
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
