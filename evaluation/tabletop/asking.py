"""Asks a model for many answers, a batch at a time."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, Literal

from goalreel.image import Image
from goalreel.models.load import Trio, build_critic, build_editor, build_planner
from goalreel.models.presets import Preset
from goalreel.progress import OnProgress
from goalreel.types import (
    Candidate,
    Edit,
    Failure,
    Plan,
    Task,
    Verdict,
)

BATCH = 16

type Role = Literal["planner", "editor", "critic"]


def lazily(preset: Preset, needed: Collection[Role]) -> Trio:
    """The preset's models; those that are not needed now are loaded when they are."""
    how = {"mode": preset.critic_mode, "scores": preset.critic_scores}
    later: dict[Role, _Later] = {
        "planner": _Later(lambda: build_planner(preset.planner)),
        "editor": _Later(lambda: build_editor(preset.editor)),
        "critic": _Later(lambda: build_critic(preset.critic, **how)),
    }
    for role in (role for role in later if role in needed):
        later[role].load()
    return Trio(**later)


class _Later:
    """A model of any role that is built when it is first asked, or loaded."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    @cached_property
    def _model(self) -> Any:
        return self._build()

    def load(self) -> None:
        """Build it now, so that a wrong name shows before hours of work."""
        _ = self._model

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        return self._model.plan(tasks)

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        return self._model.edit(edits)

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        return self._model.judge(candidates)


def in_batches[Q, A](
    model: Callable[[Sequence[Q]], Sequence[A]], asked: Sequence[Q], stage: str, progress: OnProgress
) -> list[A]:
    """Answer i belongs to question i.

    Raises:
        ValueError: the model did not give one answer a question.
        goalreel.errors.BackendError: it cannot be called at all.
    """
    answers: list[A] = []
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        got = model(batch)
        if len(got) != len(batch):
            raise ValueError(f"{stage}: {len(batch)} requests but {len(got)} answers")
        answers += got
        progress(stage, len(answers), len(asked))
    return answers
