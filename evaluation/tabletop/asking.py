"""Asks a model for many answers, a batch at a time, and keeps them."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from goalreel import __version__
from goalreel.annotator.image import Image
from goalreel.annotator.journal import Journal
from goalreel.annotator.models import Trio, build_critic, build_editor, build_planner
from goalreel.annotator.presets import Preset
from goalreel.annotator.types import (
    Candidate,
    Edit,
    Failure,
    Plan,
    Task,
    Verdict,
)
from goalreel.checkpoints import located
from goalreel.evaluation.tabletop.scenes import Progress

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


def kept(trio: Trio, journal: Journal, names: "Names") -> Trio:
    """The same, asked only what the journal does not know."""
    return Trio(
        journal.planner(trio.planner, names.planner),
        journal.editor(trio.editor, names.editor),
        journal.critic(trio.critic, names.critic),
    )


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


@dataclass(frozen=True)
class Names:
    """What decides the answers of each model: its name, its weights, and how it is asked."""

    planner: str
    editor: str
    critic: str

    @classmethod
    def of(cls, preset: Preset) -> Self:
        how = f"{preset.critic_mode} {preset.critic_scores}"
        return cls(
            f"{preset.planner} {_weights(preset.planner)}",
            f"{preset.editor} {_weights(preset.editor)}",
            f"{preset.critic} {how} {_weights(preset.critic)}",
        )


def _weights(name: str) -> str:
    """A fingerprint of the folder that a name such as `hf:DIR?dtype=bfloat16` speaks of, and the version."""
    folder = Path(located(name.partition(":")[2].partition("?")[0] or name))
    if not folder.is_dir():
        return __version__
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    facts = [(str(p.relative_to(folder)), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return f"{__version__} {hashlib.sha256(repr(facts).encode()).hexdigest()}"


def in_batches[Q, A](
    model: Callable[[Sequence[Q]], Sequence[A]], asked: Sequence[Q], stage: str, progress: Progress
) -> list[A]:
    """Answer i belongs to question i.

    Raises:
        ValueError: the model did not give one answer a question.
        goalreel.annotator.batch.BackendError: it cannot be called at all.
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
