"""Runs the parts of the bench that were asked for, on the episodes of a split, resumably."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from goalreel.datasets.tabletop.lessons.verdicts import verdict_rows
from goalreel.datasets.tabletop.splits import Split, seeds
from goalreel.errors import InputError
from goalreel.evaluation.measured import Measured
from goalreel.evaluation.tabletop.closed import CourseFollower, measure_closed_loop
from goalreel.evaluation.tabletop.critic import judge_all, measure_critic, measure_rewriting
from goalreel.evaluation.tabletop.edit import edit_all, measure_edits
from goalreel.evaluation.tabletop.loop import measure_loops, run_loops
from goalreel.evaluation.tabletop.plan import measure_plans
from goalreel.evaluation.tabletop.report import BenchReport
from goalreel.evaluation.tabletop.scenes import SIZE, Walk, walks
from goalreel.files import exclusive
from goalreel.models.journal import Journal
from goalreel.models.load import load, reading
from goalreel.models.presets import Preset
from goalreel.models.recorded import Recorded
from goalreel.models.registry import ROLES, Role
from goalreel.models.trio import Names, Trio
from goalreel.progress import OnProgress

type BenchPart = Literal["plan", "edit", "critic", "loop", "closed_loop", "annotate"]
PARTS: tuple[BenchPart, ...] = get_args(BenchPart.__value__)
NEEDS: Mapping[BenchPart, tuple[Role, ...]] = {
    "plan": ("planner",),
    "edit": ("editor",),
    "critic": ("editor", "critic"),
    "loop": ("editor", "critic"),
    "closed_loop": ("planner", "editor", "critic"),
    "annotate": (),
}
"""The models that a part asks; `annotate` loads what it needs."""


@dataclass(frozen=True)
class BenchOrder:
    """What is to be measured. `preset` names the models; answers and recordings are kept in `out`."""

    preset: Preset
    split: Split
    episodes: int
    first: int
    parts: Sequence[BenchPart]
    out: Path


def evaluate(order: BenchOrder, progress: OnProgress) -> BenchReport:
    """Measure with the models that the order names.

    Raises:
        InputError: no such split or model, or a part asks a model that only reads recordings.
        DatasetError: another run works in the same folder.
        goalreel.errors.BackendError: a model cannot be called.
    """
    preset = order.preset
    parts: list[BenchPart] = [part for part in PARTS if part in order.parts]
    read = reading(preset)
    if parts != ["annotate"] and read:
        raise InputError(f"{read[0]} only reads recordings: it has --parts annotate")
    journal = Journal(order.out / "answers")
    with exclusive(journal.folder, order.out):
        # Those that the parts ask are loaded now, so that a wrong one shows before hours of work.
        trio = None if read else load(preset, roles={role for part in parts for role in NEEDS[part]})
        made = walks(seeds(order.split, order.episodes, order.first), progress)
        values: dict[str, Measured] = {}
        if trio is not None:
            values = Bench(made, trio.kept(journal), preset.max_attempts, journal, progress).run(parts)
        if "annotate" in parts:
            values |= _job(order, trio, made, progress)
    models = preset.model_dump()
    return BenchReport(
        models=models, split=order.split, first=made[0].seed, episodes=len(made), values=values
    )


def _job(
    order: BenchOrder, trio: Trio | None, made: Sequence[Walk], progress: OnProgress
) -> dict[str, Measured]:
    from goalreel.evaluation.tabletop.job import measure_job  # imports lerobot

    def models(recorded: Recorded) -> Trio:
        return trio or load(order.preset, recordings=recorded, roles=())

    names = Names.of(order.preset)
    facts = repr((names, [names.key(role) for role in ROLES], [w.seed for w in made]))
    folder = order.out / f"annotate-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
    found = measure_job(made, models, folder, progress)
    return {f"annotate.{key}": value for key, value in found.items()}


@dataclass(frozen=True)
class Bench:
    """Any models under test on some episodes. `journal` remembers how the follower fared."""

    walks: Sequence[Walk]
    trio: Trio
    attempts: int
    journal: Journal | None
    progress: OnProgress

    def run(self, parts: Sequence[BenchPart]) -> dict[str, Measured]:
        """PART.MEASURE -> value, for those of the parts that ask the models directly."""
        calls: Mapping[BenchPart, Callable[[], dict[str, Measured]]] = {
            "plan": lambda: measure_plans(self.walks, self.trio.planner, self.progress),
            "edit": self._edit,
            "critic": self._critic,
            "loop": self._loop,
            "closed_loop": self._closed_loop,
        }
        chosen = [(part, calls[part]) for part in parts if part in calls]
        return {f"{part}.{key}": value for part, call in chosen for key, value in call().items()}

    def _edit(self) -> dict[str, Measured]:
        return measure_edits(self.walks, edit_all(self.walks, self.trio.editor, self.progress))

    def _critic(self) -> dict[str, Measured]:
        edited = edit_all(self.walks, self.trio.editor, self.progress)
        made = list(verdict_rows([w.seed for w in self.walks], SIZE))
        judged = judge_all(made, edited, self.trio.critic, self.progress)
        return measure_critic(judged) | measure_rewriting(judged, self.trio.editor, self.progress)

    def _loop(self) -> dict[str, Measured]:
        hits = run_loops(self.walks, self.trio.editor, self.trio.critic, self.progress, self.trio.called.keep)
        return measure_loops(self.walks, hits)

    def _closed_loop(self) -> dict[str, Measured]:
        follower = CourseFollower(self.journal)
        return measure_closed_loop(self.walks, self.trio, self.attempts, follower, self.progress)
