"""A dialect, and goalreel's own: a system turn with the rules, a user turn with the case. Nano knows it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from goalreel.chat.conversation import MARK, Conversation, Message, interleave, plain
from goalreel.chat.prompts import render
from goalreel.chat.verdict import (
    OBSERVED_EXAMPLE,
    OBSERVED_FORMAT,
    PASSING,
    PUBLISHED_FORMAT,
    VerdictFormat,
    verdict_example,
)
from goalreel.image import Image
from goalreel.terms import Mode
from goalreel.types import Candidate, DoneStep, ReplanContext, StoryboardStep, Task

type DialectName = Literal["own", "interleavethinker"]
"""The dialects that a user can name."""


class Dialect(Protocol):
    """Words the questions to Planner and Critic, but not the turn after an unreadable reply.

    `plan` and `replan` raise ValueError where pictures do not fit the `<image>` marks of an instruction.
    """

    @property
    def name(self) -> DialectName | Literal["observed"]: ...
    @property
    def note(self) -> str | None:
        """The part of the published prompts that is missing, and how to get it; None if complete."""
        ...

    @property
    def scored(self) -> bool:
        """True if it can ask a Critic for scores."""
        ...

    @property
    def verdict_format(self) -> VerdictFormat:
        """The form of a Critic's reply."""
        ...

    @property
    def repeats(self) -> bool:
        """True if a Critic that accepts repeats the prompt that it was asked about."""
        ...

    @property
    def trained_steps(self) -> int | None:
        """The number of steps in every question to a planner; None where the question names the limit."""
        ...

    def plan(self, task: Task, max_steps: int) -> Conversation:
        """Ask for a plan, which goes on after `task.done`."""
        ...

    def replan(self, progress: ReplanContext, max_steps: int) -> Conversation:
        """Ask for a plan of the remaining steps."""
        ...

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        """Ask for a verdict."""
        ...


class OwnDialect:
    """Templates in `prompts/planner/` and `prompts/critic/`; for any model that follows instructions.

    `trained_steps`: the planner was trained on questions with this number of steps, and is always asked with
    it. None: the question names the limit of the plan. A function is called for each question, as its server
    may be the one that knows.
    """

    name: DialectName | Literal["observed"] = "own"
    note: str | None = None
    scored = True
    repeats = False
    verdict_format = PUBLISHED_FORMAT

    def __init__(self, *, trained_steps: int | Callable[[], int | None] | None = None) -> None:
        self._trained_steps = trained_steps

    @property
    def trained_steps(self) -> int | None:
        return self._trained_steps() if callable(self._trained_steps) else self._trained_steps

    def plan(self, task: Task, max_steps: int) -> Conversation:
        scene, images = task_images(task)
        if task.done:
            return _continuation(
                task,
                done=[_done(step) for step in task.done],
                pictures=(None, images, [step.image for step in task.done], scene),
                max_steps=self.trained_steps or max_steps,
            )
        values = {"instruction": task.instruction, "image_first": scene is not None}
        text = render("planner/plan", values)
        return _planner(text, _existing(scene, *images), self.trained_steps or max_steps)

    def replan(self, progress: ReplanContext, max_steps: int) -> Conversation:
        task, steps = progress.storyboard.task, progress.storyboard.steps
        scene, images = task_images(task)
        done, remaining = steps[: progress.done], steps[progress.done :]
        done_images = [*(step.image for step in task.done), *(step.goal_image for step in done)]
        return _continuation(
            task,
            done=[*map(_done, task.done), *map(_planned, done)],
            remaining=[_planned(step) for step in remaining],
            pictures=(scene, images, done_images, progress.image),
            max_steps=self.trained_steps or max_steps,
        )

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        rules = {"mode": mode, "scores": scores, "passing": PASSING, "example": verdict_example(scores)}
        case = {
            "has_source": candidate.source is not None,
            "instruction": plain(candidate.instruction),
            "prompt": plain(candidate.drawn_by),
        }
        images = _existing(candidate.source, candidate.image)
        system = Message("system", (render("critic/system", rules),))
        return system, Message("user", interleave(render("critic/judge", case), images))


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
        pictures = [p for p in (candidate.source, candidate.image) if p is not None]
        system = render("critic/observed_system", {"example": OBSERVED_EXAMPLE})
        user = interleave(render("critic/observed", values), pictures)
        return Message("system", (system,)), Message("user", user)


type _Pictures = tuple[Image | None, Sequence[Image], Sequence[Image | None], Image | None]
"""The first scene, the pictures at the marks, those after each done step, the present scene."""


def _continuation(
    task: Task,
    *,
    done: Sequence[Mapping[str, Any]],
    remaining: Sequence[Mapping[str, Any]] = (),
    pictures: _Pictures,
    max_steps: int,
) -> Conversation:
    first, marked, done_images, now = pictures
    values = {
        "instruction": task.instruction,
        "has_first": first is not None,
        "done": done,
        "remaining": remaining,
        "has_now": now is not None,
        "first": len(done) + 1,
    }
    return _planner(
        render("planner/continue", values), _existing(first, *marked, *done_images, now), max_steps
    )


def _done(step: DoneStep) -> Mapping[str, Any]:
    return {"name": "", "instruction": plain(step.instruction), "has_image": step.image is not None}


def _planned(step: StoryboardStep) -> Mapping[str, Any]:
    return {
        "name": plain(step.step.name),
        "instruction": plain(step.step.instruction),
        "has_image": step.goal_image is not None,
    }


def _existing(*pictures: Image | None) -> list[Image]:
    return [picture for picture in pictures if picture is not None]


def _planner(text: str, images: Sequence[Image], max_steps: int) -> Conversation:
    system = render("planner/system", {"max_steps": max_steps})
    return Message("system", (system,)), Message("user", interleave(text, images))


def task_images(task: Task) -> tuple[Image | None, tuple[Image, ...]]:
    """(the scene, or None where a mark or a done step has it; the pictures at the instruction's marks)."""
    if task.image is None:
        return None, task.images
    if not task.images and MARK in task.instruction:
        return None, (task.image,)
    places = (*task.images, *(step.image for step in task.done))
    return (None if task.image in places else task.image), task.images
