"""Asks a model for many answers, a batch at a time, and keeps them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from goalreel import __version__
from goalreel.annotator.journal import Journal
from goalreel.annotator.models import build_critic, build_editor, build_planner
from goalreel.annotator.presets import Preset
from goalreel.annotator.types import Critic, Editor, Planner
from goalreel.evaluation.tabletop.scenes import Progress

BATCH = 16


@dataclass(frozen=True)
class Trio:
    """The models under test."""

    planner: Planner
    editor: Editor
    critic: Critic

    @classmethod
    def build(cls, preset: Preset) -> Self:
        """The preset's models."""
        critic = build_critic(preset.critic, mode=preset.critic_mode, scores=preset.critic_scores)
        return cls(build_planner(preset.planner), build_editor(preset.editor), critic)

    def kept(self, journal: Journal, names: "Names") -> "Trio":
        """The same, asked only what the journal does not know."""
        return Trio(
            journal.planner(self.planner, names.planner),
            journal.editor(self.editor, names.editor),
            journal.critic(self.critic, names.critic),
        )


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
    folder = Path(name.partition(":")[2].partition("?")[0] or name)
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
