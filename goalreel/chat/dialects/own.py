"""goalreel's own dialect: a system turn with the rules, a user turn with the case. Nano knows it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from goalreel.chat.conversation import MARK, Conversation, Message, interleave, plain
from goalreel.chat.prompts import render
from goalreel.chat.verdict import (
    OBSERVED_EXAMPLE,
    OBSERVED_FORMAT,
    PASSING,
    PUBLISHED_FORMAT,
    verdict_example,
)
from goalreel.image import Image
from goalreel.terms import Mode
from goalreel.types import Candidate, DoneStep, ReplanContext, StoryboardStep, Task

type DialectName = Literal["own", "interleavethinker"]
"""The dialects that a user can name."""


class OwnDialect:
    """Templates in `prompts/planner/` and `prompts/critic/`; for any model that follows instructions.

    `plan` and `replan` raise ValueError where pictures do not fit the `<image>` marks of an instruction.
    """

    name: DialectName | Literal["observed"] = "own"
    note: str | None = None
    """The part of the published prompts that is missing, and how to get it; None if complete."""
    scored = True
    """It can ask a Critic for scores."""
    repeats = False
    """A Critic that accepts repeats the prompt that it was asked about."""
    verdict_format = PUBLISHED_FORMAT

    def __init__(self, *, trained_steps: int | Callable[[], int | None] | None = None) -> None:
        self._trained_steps = trained_steps

    @property
    def trained_steps(self) -> int | None:
        """The number of steps in each question that the planner was trained on, and is always asked with.

        None: the question names the limit of the plan. A function asks the server for each question.
        """
        return self._trained_steps() if callable(self._trained_steps) else self._trained_steps

    def plan(self, task: Task, max_steps: int) -> Conversation:
        """Ask for a plan, which goes on after `task.done`."""
        scene, images = task_images(task)
        if task.done:
            return self._continuation(task, [_done(step) for step in task.done], (), None, scene, max_steps)
        values = {"instruction": task.instruction, "image_first": scene is not None}
        return self._planner(render("planner/plan", values), [scene, *images], max_steps)

    def replan(self, progress: ReplanContext, max_steps: int) -> Conversation:
        task, steps = progress.storyboard.task, [_planned(step) for step in progress.storyboard.steps]
        done = [*map(_done, task.done), *steps[: progress.done]]
        scene, _ = task_images(task)
        return self._continuation(task, done, steps[progress.done :], scene, progress.image, max_steps)

    def _continuation(
        self,
        task: Task,
        done: Sequence[Mapping[str, Any]],
        remaining: Sequence[Mapping[str, Any]],
        first: Image | None,
        now: Image | None,
        max_steps: int,
    ) -> Conversation:
        """Ask for what comes after `done`; `first` is the first scene, `now` the present one."""
        values = {
            "instruction": task.instruction,
            "has_first": first is not None,
            "done": done,
            "remaining": remaining,
            "has_now": now is not None,
            "first": len(done) + 1,
        }
        _, images = task_images(task)
        pictures = [first, *images, *(step["image"] for step in done), now]
        return self._planner(render("planner/continue", values), pictures, max_steps)

    def _planner(self, text: str, pictures: Sequence[Image | None], max_steps: int) -> Conversation:
        system = render("planner/system", {"max_steps": self.trained_steps or max_steps})
        images = [picture for picture in pictures if picture is not None]
        return Message("system", (system,)), Message("user", interleave(text, images))

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        rules = {"mode": mode, "scores": scores, "passing": PASSING, "example": verdict_example(scores)}
        case = {
            "has_source": candidate.source is not None,
            "instruction": plain(candidate.instruction),
            "prompt": plain(candidate.drawn_by),
        }
        system, user = render("critic/system", rules), render("critic/judge", case)
        return _judging(candidate, system, user)


OWN = OwnDialect()


class ObservedDialect(OwnDialect):
    """`own`, with a Critic's question for frames of a camera: does the state hold, and can it be seen?

    Nothing was edited, so there is no prompt to rewrite. What cannot be told is a rejection that says so.
    """

    name: DialectName | Literal["observed"] = "observed"
    scored = False
    verdict_format = OBSERVED_FORMAT

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        values = {"has_source": candidate.source is not None, "instruction": plain(candidate.instruction)}
        system = render("critic/observed_system", {"example": OBSERVED_EXAMPLE})
        return _judging(candidate, system, render("critic/observed", values))


def _judging(candidate: Candidate, system: str, user: str) -> Conversation:
    pictures = [p for p in (candidate.source, candidate.image) if p is not None]
    return Message("system", (system,)), Message("user", interleave(user, pictures))


def _done(step: DoneStep) -> Mapping[str, Any]:
    return {
        "name": "",
        "instruction": plain(step.instruction),
        "has_image": step.image is not None,
        "image": step.image,
    }


def _planned(step: StoryboardStep) -> Mapping[str, Any]:
    done = DoneStep(instruction=step.step.instruction, image=step.goal_image)
    return {**_done(done), "name": plain(step.step.name)}


def task_images(task: Task) -> tuple[Image | None, tuple[Image, ...]]:
    """(the scene, or None where a mark or a done step has it; the pictures at the instruction's marks)."""
    if task.image is None:
        return None, task.images
    if not task.images and MARK in task.instruction:
        return None, (task.image,)
    places = (*task.images, *(step.image for step in task.done))
    return (None if task.image in places else task.image), task.images
