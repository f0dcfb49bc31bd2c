"""Renders the steps of a board ahead of the robot, each from the picture before it.

The inner loop is the paper's, `goalreel.loop.render_step`; its progress is shown on the board. While the
critic looks at a step's picture, the editor draws the next one from it. Where the critic rejects the first,
nobody ever sees the second: what is shown was imagined from the picture that came out before it.
"""

import asyncio
from dataclasses import replace

from goalreel.drivers import advance
from goalreel.image import Image
from goalreel.loop import StepDrawing, Trajectory, choose_references, render_step
from goalreel.streaming.board import Frame, StepPanel
from goalreel.streaming.live_task import LiveTask
from goalreel.streaming.model_caller import ModelCaller
from goalreel.streaming.request import end_from_step
from goalreel.types import Answer, Candidate, Edit, Failure, Request, StoryboardStep, Task


class Renderer:
    """Renders the goal images of one task's steps, in the foreground (`run`) or ahead of the robot (`start`).

    Where the request is `text_only`, steps are marked as text and no picture is made.
    """

    def __init__(self, live: LiveTask, caller: ModelCaller) -> None:
        self._live, self._caller = live, caller
        self._settings, self._loop = live.settings, live.preset.loop_arguments
        self._background: asyncio.Task[None] | None = None
        self._early: tuple[Edit, asyncio.Task[Image | Failure]] | None = None
        """The edit of the next step that is drawn while its source is judged."""

    async def run(self, task: Task, first: int, source: Frame) -> None:
        """Render every step from number `first` on, that one from `source`.

        Raises:
            TaskEnded: the settings do not accept how a step came out.
        """
        if self._live.request.text_only:
            now = self._live.now()
            self._live.update(steps=tuple(_as_text(p, now) for p in self._live.board.steps))
            return
        images = [source.image]
        try:
            for index in range(first, len(self._live.board.steps)):
                result = await self._render(task, index, images, source)
                images += [result.goal_image] if result.goal_image else []
        finally:
            self._drop_early()

    async def start(self, task: Task, first: int, source: Frame) -> None:
        """Render from step `first` on in the background. Its end wakes the task; `check` has its error."""
        await self.stop()
        steps = self._live.board.steps
        self._live.update(steps=(*steps[:first], *(p.without_picture() for p in steps[first:])))
        if self._live.request.text_only:
            return await self.run(task, first, source)

        def end(background: asyncio.Task[None]) -> None:
            if not background.cancelled():
                background.exception()  # mark as retrieved: `check` raises it when its step is due
            self._live.wake()

        self._background = asyncio.create_task(self.run(task, first, source), name="goalreel-rendering")
        self._background.add_done_callback(end)

    def check(self) -> None:
        """Raise what ended the background rendering, if anything: a TaskEnded, as `run` does."""
        if self._background is not None and self._background.done():
            self._background.result()

    @property
    def at_work(self) -> bool:
        """True while pictures are rendered in the background."""
        return self._background is not None and not self._background.done()

    def cancel(self) -> None:
        """Cancel the background rendering, if any."""
        if self._background is not None:
            self._background.cancel()

    async def stop(self) -> None:
        """Cancel the background rendering and wait for its end."""
        self.cancel()
        if self._background is not None:
            await asyncio.wait([self._background])

    async def _render(self, task: Task, index: int, images: list[Image], source: Frame) -> StoryboardStep:
        attempts = 0
        may_draw_early = self._caller.draws_early

        def panel() -> StepPanel:
            # Read again each time: the tracker changes other fields of the panel meanwhile.
            return replace(self._live.board.steps[index], source_stamp=source.stamp, attempts=attempts)

        async def ask(request: Request) -> Answer:
            nonlocal attempts, may_draw_early
            is_edit = isinstance(request, Edit)
            attempts += is_edit
            stage = "generating" if is_edit else "validating"
            current = replace(panel(), image_status=stage)
            self._live.put_panel(current)
            self._live.report_phase(stage, current)
            if isinstance(request, Edit):
                if self._early is not None and self._early[0] == request:
                    return await self._early[1]
                self._drop_early()
            elif isinstance(request, Candidate) and may_draw_early:
                may_draw_early = False  # at most one picture a step is thrown away
                self._draw_early(task, index + 1, [*images, request.image])
            return await self._caller.ask(request)

        result = await advance(self._trajectory(task, index, images), ask)
        # The next step starts from the editor's own picture; listeners get it in the camera's size.
        final = panel().finish(result, self._live.now(), source.size)
        if (end := end_from_step(result, self._settings)) is not None:
            final = replace(final, image_status="failed")
        elif final.image_status == "failed":  # the step continues in words
            final = replace(final, image_status="unjudged")
        self._live.put_panel(final)
        self._live.report_phase("validating", final)
        if end is not None:
            raise end
        return result

    def _trajectory(self, task: Task, index: int, images: list[Image]) -> Trajectory[StoryboardStep]:
        panel = self._live.board.steps[index]
        drawing = StepDrawing(
            task,
            index,
            panel.step,
            images[-1],
            references=choose_references(self._loop.get("references", "none"), images, images[-1]),
            background=self._loop.get("background", "correct"),
        )
        return render_step(drawing, panel.max_attempts, self._loop.get("keep", "best"))

    def _draw_early(self, task: Task, first: int, images: list[Image]) -> None:
        """Begin the next picture, of step `first` or later. Its source, the last seen, has no verdict."""
        self._drop_early()
        steps = self._live.board.steps[first:]
        index = next((p.index for p in steps if p.step.prompt is not None), None)
        if index is not None:
            edit = next(self._trajectory(task, index, images))
            assert isinstance(edit, Edit)
            self._early = edit, asyncio.create_task(self._caller.ask(edit), name="goalreel-early-edit")

    def _drop_early(self) -> None:
        if self._early is not None:
            self._early[1].cancel()
            self._early = None


def _as_text(panel: StepPanel, now: int) -> StepPanel:
    """The panel without a picture: `text` where it was planned so, else unjudged."""
    planned_as_text = panel.step.prompt is None and panel.written_by == "planner"
    return replace(panel, image_status="text" if planned_as_text else "unjudged", created=now)
