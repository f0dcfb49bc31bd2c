"""The two actions. No goal is rejected, since a rejection carries no reason: it ends with a code and text."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future as Outcomes
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.action.server import RCLError, ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future

from goalreel.streaming.board import ErrorCode, Phase, Progress
from goalreel.streaming.engine import Job, Request
from goalreel.streaming.job import Outcome
from goalreel_interfaces.action import AnnotateTask, GenerateStoryboard
from goalreel_ros import convert, requests
from goalreel_ros.outputs import Outputs
from goalreel_ros.requests import OnPhase, Refused, Submit
from goalreel_ros.times import to_duration

RESULT_KEPT = 60
"""Seconds after its end for which a goal's result can still be fetched."""


class _Run:
    """One goal under way. Cancelling may come before its job exists."""

    def __init__(self, handle: ServerGoalHandle) -> None:
        self.handle = handle
        self.job: Job | None = None
        self.cancel_asked = False

    def start(self, job: Job) -> None:
        self.job = job
        if self.cancel_asked:
            job.cancel()

    def cancel(self) -> None:
        self.cancel_asked = True
        if self.job is not None:
            self.job.cancel()


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
        self._runs: dict[bytes, _Run] = {}
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
                cancel_callback=self._cancel,
                result_timeout=RESULT_KEPT,
            )

        self._servers = [
            server(GenerateStoryboard, "~/generate_storyboard", self._generate),
            server(AnnotateTask, "~/annotate_task", self._annotate),
        ]

    def progress(self, progress: Progress) -> None:
        """Feedback for whoever had this storyboard made or executed."""
        message = AnnotateTask.Feedback(progress=convert.progress(progress, self._now()))
        for run in self._all():
            annotating = isinstance(run.handle.request, AnnotateTask.Goal)
            if annotating and run.job is not None and run.job.id == progress.board.id:
                run.handle.publish_feedback(message)

    def drain(self, seconds: float) -> None:
        """Wait until every goal has ended, so long at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._runs, seconds)

    def destroy(self) -> None:
        """Take the actions away."""
        for server in self._servers:
            server.destroy()

    # -- callbacks of the servers

    def _accepted(self, handle: ServerGoalHandle) -> None:
        self._run_of(handle)
        try:
            handle.execute()
        except RCLError:
            # Cancelled between rclpy's look at the state and its transition. Now it sees that.
            handle.execute()

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        if not handle.is_active:
            return CancelResponse.REJECT  # it has just ended
        self._run_of(handle).cancel()
        return CancelResponse.ACCEPT

    def _run_of(self, handle: ServerGoalHandle) -> _Run:
        """Made by whichever comes first: the answer that a goal is accepted may be overtaken by a cancel."""
        with self._changed:
            return self._runs.setdefault(bytes(handle.goal_id.uuid), _Run(handle))

    async def _generate(self, handle: ServerGoalHandle) -> GenerateStoryboard.Result:
        def tell(phase: Phase) -> None:
            self._outputs.do(lambda: handle.publish_feedback(self._feedback(phase)))

        def result(outcome: Outcome) -> GenerateStoryboard.Result:
            return GenerateStoryboard.Result(
                storyboard=convert.storyboard(outcome.board, self._outputs.jpegs, self._now()),
                planning_time=to_duration(outcome.planning_time),
                error_code=outcome.error,
                error_msg=outcome.message,
            )

        return await self._run(handle, requests.generate, tell, result, GenerateStoryboard.Result)

    async def _annotate(self, handle: ServerGoalHandle) -> AnnotateTask.Result:
        def result(outcome: Outcome) -> AnnotateTask.Result:
            return AnnotateTask.Result(
                storyboard=convert.storyboard(outcome.board, self._outputs.jpegs, self._now()),
                replans=outcome.replans,
                total_elapsed_time=to_duration(outcome.elapsed),
                error_code=outcome.error,
                error_msg=outcome.message,
            )

        return await self._run(handle, requests.annotate, None, result, AnnotateTask.Result)

    # -- inside

    async def _run[Result](
        self,
        handle: ServerGoalHandle,
        parse: Callable[[Any], Request],
        on_phase: OnPhase | None,
        result_of: Callable[[Outcome], Result],
        kind: type[Result],
    ) -> Result:
        """One goal from acceptance to its result."""
        run = self._run_of(handle)
        try:
            if run.cancel_asked:  # so early that nobody else's task need end for it
                raise Refused(ErrorCode.CANCELED, "cancelled")
            job = self._submit(parse(handle.request), on_phase)
            run.start(job)
            code, result = await self._ended(job, result_of)
        except Refused as e:
            code, result = e.code, kind(error_code=e.code, error_msg=str(e))
        # The engine may be faster than rclpy, which notes a cancellation after the callback for it.
        while run.cancel_asked and not handle.is_cancel_requested:
            await _Turn()
        if code is ErrorCode.NONE:
            handle.succeed()
        elif code is ErrorCode.CANCELED and handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.abort()
        with self._changed:
            del self._runs[bytes(handle.goal_id.uuid)]
            self._changed.notify_all()
        return result

    def _ended[Result](self, job: Job, result_of: Callable[[Outcome], Result]) -> Future:
        """Of (code, result), made in the publishing thread once the engine is done."""
        future: Future = Future(executor=self._node.executor)
        future.add_done_callback(_wake)

        def finish(outcome: Outcome) -> None:
            future.set_result((outcome.error, result_of(outcome)))

        def settled(done: Outcomes[Outcome]) -> None:
            self._outputs.do(lambda: finish(done.result()))

        job.outcome.add_done_callback(settled)
        return future

    def _feedback(self, phase: Phase) -> GenerateStoryboard.Feedback:
        return convert.phase(phase, self._outputs.frame_id, self._outputs.jpegs)

    def _all(self) -> list[_Run]:
        with self._changed:
            return list(self._runs.values())


class _Turn:
    """Awaited by a coroutine that the executor shall resume at its next turn."""

    def __await__(self) -> Generator[None]:
        yield


def _wake(_: Future) -> None:
    """Done callbacks are tasks of the executor; without one it would not look at the coroutine again."""
