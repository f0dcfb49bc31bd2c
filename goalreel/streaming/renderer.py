"""Renders the steps of a board ahead of the robot, each from the picture before it.

The inner loop is the paper's, `goalreel.loop.render_step`; here its course shows on the board.
"""

from dataclasses import replace

from goalreel.async_driver import advance
from goalreel.image import Image
from goalreel.loop import Answer, Keep, Request, render_step
from goalreel.streaming.board import Frame, StepPanel
from goalreel.streaming.live_board import LiveBoard
from goalreel.streaming.model_caller import Caller
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.task_end import TaskEnded, unacceptable
from goalreel.types import Edit, StoryboardStep, Task


class Renderer:
    """Renders the pictures of one task's steps, and shows on its board how that goes."""

    def __init__(self, live: LiveBoard, caller: Caller, settings: EngineSettings, keep: Keep) -> None:
        self._live = live
        self._caller = caller
        self._settings = settings
        self._keep: Keep = keep

    async def run(self, task: Task, first: int, source: Frame) -> None:
        """Render every step from `first` on, that one from `source`.

        Raises:
            Ended: a step came out in a way that the settings do not accept.
        """
        image = source.image
        for index in range(first, len(self._live.board.steps)):
            result = await self._render(task, index, image, source)
            image = result.goal_image or image

    def in_words(self) -> None:
        """Mark every step as text only, without a picture."""
        now = self._live.now()
        self._live.update(steps=tuple(_worded(p, now) for p in self._live.board.steps))

    async def _render(self, task: Task, index: int, image: Image, source: Frame) -> StoryboardStep:
        pictures = 0

        def panel() -> StepPanel:
            # Read anew each time: the robot's side of the panel changes meanwhile.
            return replace(self._live.board.steps[index], source_stamp=source.stamp, attempts=pictures)

        async def ask(request: Request) -> Answer:
            nonlocal pictures
            drawing = isinstance(request, Edit)
            pictures += drawing
            stage = "generating" if drawing else "validating"
            shown = replace(panel(), image_status=stage)
            self._live.put(shown)
            self._live.phase(stage, shown)
            return await self._caller.ask(request)

        step = panel().step
        trajectory = render_step(task, index, step, None, image, panel().max_attempts, self._keep)
        result = await advance(trajectory, ask)
        ended = unacceptable(result, self._settings)
        # The editor's own picture feeds the next step; whoever watches gets it as the camera would.
        self._finish(panel().finish(result, self._live.now(), source.size), ended)
        if ended is not None:
            raise ended
        return result

    def _finish(self, panel: StepPanel, ended: TaskEnded | None) -> None:
        if ended is not None:
            panel = replace(panel, image_status="failed")
        elif panel.image_status == "failed":  # the step goes on in words
            panel = replace(panel, image_status="unverified")
        self._live.put(panel)
        self._live.phase("validating", panel)


def _worded(panel: StepPanel, now: int) -> StepPanel:
    planned_so = panel.step.prompt is None
    return replace(panel, image_status="verified" if planned_so else "unverified", created=now)
