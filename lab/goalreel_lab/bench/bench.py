"""Results of a run of the bench, as a table or as one line of JSON."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel
from rich.table import Table

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.annotator.statistics import Measurement
from goalreel.errors import InputError
from goalreel.files import exclusive
from goalreel.models.journal import Journal
from goalreel.models.load import kinds_of, load
from goalreel.models.model_set import Lazy, ModelSet, Provenance
from goalreel.models.presets import Preset
from goalreel.models.registry import RecordingContext
from goalreel.progress import OnProgress
from goalreel.tabletop.splits import Split, seeds
from goalreel.types import ROLES, Role
from goalreel_lab.bench import live
from goalreel_lab.bench.closed import measure_closed_loop
from goalreel_lab.bench.edit import edit_all, judge_all, measure_critic, measure_edits, measure_rewriting
from goalreel_lab.bench.loop import measure_loops, run_loops
from goalreel_lab.bench.plan import measure_plans
from goalreel_lab.bench.scenes import SIZE, Walk, walks
from goalreel_lab.corpora.rows import Register
from goalreel_lab.corpora.verdicts import verdict_rows
from goalreel_lab.statistics import json_line, values_table
from goalreel_lab.variety import PLAIN, View

HEADLINES = (
    "plan.exact",
    "edit.score",
    "critic.balanced_accuracy",
    "loop.boards_5",
    "loop_terse.gap_closed",
    "closed_loop.gap",
)
"""The numbers that matter most; the table shows them in bold."""


class BenchReport(BaseModel, frozen=True):
    """Report on models, measured on episodes.

    `values` maps PART.MEASURE to a value with its interval over episodes; `first` is the first seed, `look`
    and `camera` say how the scenes were seen (`variety.View`).
    """

    models: dict[str, Any]
    split: str
    first: int
    episodes: int
    look: str = "plain"
    camera: str = "front"
    values: dict[str, Measurement]

    def as_json(self) -> str:
        """Write one line: models, split, first, episodes, look, camera, and every measure as KEY, KEY_low and
        KEY_high."""
        return json_line(self.model_dump(exclude={"values"}), self.values)

    def table(self) -> Table:
        """Make a table of every measure that has a value."""
        view = (
            "" if (self.look, self.camera) == ("plain", "front") else f", {self.look}, {self.camera} camera"
        )
        title = f"{self.episodes} episodes of the {self.split} split, from seed {self.first}{view}"
        return values_table(title, self.values, HEADLINES)


type BenchPart = Literal["plan", "edit", "critic", "loop", "closed_loop", "live", "annotate"]
PARTS: tuple[BenchPart, ...] = get_args(BenchPart.__value__)
NEEDS: Mapping[BenchPart, tuple[Role, ...]] = {
    "plan": ("planner",),
    "edit": ("editor",),
    "critic": ("editor", "critic"),
    "loop": ("editor", "critic"),
    "closed_loop": ("planner", "editor", "critic"),
    "live": ("critic",),
    "annotate": (),
}
"""The models that a part asks; `annotate` loads what it needs."""
WITH_ORDERS: tuple[BenchPart, ...] = ("loop", "closed_loop")
"""The parts that run once for each register of the orders."""
ORDERS: tuple[Register, ...] = ("explicit", "terse")


@dataclass(frozen=True)
class BenchConfig:
    """Settings of a measurement. `preset` names the models; answers and recordings are kept in `out`."""

    preset: Preset
    split: Split
    episodes: int
    first: int
    parts: Sequence[BenchPart]
    out: Path
    asks: live.Asks
    """Frames at which the ROS node would ask about a live view, for the part `live`."""
    orders: Sequence[Register] = ORDERS
    """Registers of the steps' first orders in the parts WITH_ORDERS."""
    view: View = PLAIN
    """View of all scenes."""
    num_draws: int = 1
    """Storyboards that `closed_loop` draws, at most, until an end is confirmed."""


def evaluate(order: BenchConfig, progress: OnProgress) -> BenchReport:
    """Measure with the models that the order names.

    Raises:
        InputError: no such split, look or model; a part asks a model that only reads recordings; or
            `annotate` under a view in which nothing is recorded.
        DatasetError: another run works in the same folder.
        UserError: a model cannot be called, or answers nobody any more; what it has answered is kept.
    """
    preset = order.preset
    parts: list[BenchPart] = [part for part in PARTS if part in order.parts]
    read = [getattr(preset, role) for role, kind in kinds_of(preset).items() if kind.needs_recording]
    if parts != ["annotate"] and read:
        raise InputError(f"{read[0]} only reads recordings: it has --parts annotate")
    if "annotate" in parts and order.view != PLAIN:
        raise InputError("annotate records plain scenes from the front: leave it out of --parts")
    journal = Journal(order.out / "answers")
    with exclusive(journal.folder, order.out):
        # Those that the parts ask are loaded now, so that a wrong one shows before hours of work.
        model_set = None if read else load(preset, roles={role for part in parts for role in NEEDS[part]})
        if model_set is not None and "live" in parts and isinstance(model_set.live_critic, Lazy):
            _ = model_set.live_critic.model
        chosen = seeds(order.split, order.episodes, order.first)
        scenes = walks(chosen, progress, order.view)
        values: dict[str, Measurement] = {}
        if model_set is not None:
            breaker = CircuitBreaker(rule_roles(model_set), strict=True)
            asked = model_set.with_middleware(breaker).with_journal(journal)
            asks = order.asks, order.orders, order.num_draws
            bench = Bench(scenes, asked, preset.max_attempts, journal, progress, *asks)
            values = bench.run(parts)
        if "annotate" in parts:
            values |= _job(order, model_set, scenes, progress)
    models = preset.model_dump()
    return BenchReport(
        models=models,
        split=order.split,
        first=chosen[0],
        episodes=len(scenes),
        look=order.view.look,
        camera=order.view.camera,
        values=values,
    )


def _job(
    order: BenchConfig, model_set: ModelSet | None, scenes: Sequence[Walk], progress: OnProgress
) -> dict[str, Measurement]:
    from goalreel_lab.bench.job import measure_job

    def models(recorded: RecordingContext) -> ModelSet:
        return model_set or load(order.preset, recordings=recorded, roles=())

    provenance = Provenance(order.preset)
    facts = repr((provenance, [provenance.key(role) for role in ROLES], [w.seed for w in scenes]))
    folder = order.out / f"annotate-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"
    measurements = measure_job(scenes, models, folder, progress)
    return {f"annotate.{key}": value for key, value in measurements.items()}


@dataclass(frozen=True)
class Bench:
    """Any models under test on some episodes. `journal` remembers how the follower fared."""

    walks: Sequence[Walk]
    model_set: ModelSet
    attempts: int
    journal: Journal
    progress: OnProgress
    asks: live.Asks
    orders: Sequence[Register] = ORDERS
    num_draws: int = 1

    def run(self, parts: Sequence[BenchPart]) -> dict[str, Measurement]:
        """Measure the parts that ask the models directly: PART.MEASURE -> value.

        Where the orders are terse, the name is PART_terse.MEASURE.
        """
        calls: Mapping[str, Callable[[], dict[str, Measurement]]] = {
            "plan": lambda: measure_plans(self.walks, self.model_set.planner, self.progress),
            "edit": lambda: measure_edits(
                self.walks, edit_all(self.walks, self.model_set.editor, self.progress)
            ),
            "critic": self._critic,
            "loop": partial(self._loop, "explicit"),
            "loop_terse": partial(self._loop, "terse"),
            "closed_loop": partial(self._closed_loop, "explicit"),
            "closed_loop_terse": partial(self._closed_loop, "terse"),
            "live": self._live,
        }
        chosen = [(name, calls[name]) for part in parts for name in self._conditions(part) if name in calls]
        return {f"{name}.{key}": value for name, call in chosen for key, value in call().items()}

    def _conditions(self, part: BenchPart) -> list[str]:
        if part not in WITH_ORDERS:
            return [part]
        return [part if register == "explicit" else f"{part}_{register}" for register in self.orders]

    def _critic(self) -> dict[str, Measurement]:
        edited = edit_all(self.walks, self.model_set.editor, self.progress)
        rows = list(verdict_rows([w.seed for w in self.walks], SIZE, self.walks[0].view))
        judged = judge_all(rows, edited, self.model_set.critic, self.progress)
        return measure_critic(judged) | measure_rewriting(judged, self.model_set.editor, self.progress)

    def _loop(self, register: Register) -> dict[str, Measurement]:
        model_set = self.model_set
        hits = run_loops(
            self.walks,
            model_set.editor,
            model_set.critic,
            self.progress,
            model_set.provenance.preset.keep,
            register,
        )
        return measure_loops(self.walks, hits)

    def _closed_loop(self, register: Register) -> dict[str, Measurement]:
        asked = self.walks, self.model_set, self.attempts, self.journal, self.progress, register
        return measure_closed_loop(*asked, self.num_draws)

    def _live(self) -> dict[str, Measurement]:
        critic = self.model_set.live_critic or self.model_set.critic
        seeds, view = [w.seed for w in self.walks], self.walks[0].view
        frames = live.judge_frames(seeds, critic, self.progress, view)
        courses = live.live_courses(seeds, self.asks, self.progress, view)
        answers = live.judge_courses(courses, critic, self.progress)
        wholes = live.judge_wholes(seeds, critic, self.progress, view)
        measurements = (
            live.measure_frames(frames) | live.measure_kinds(frames) | live.measure_courses(courses, answers)
        )
        return measurements | live.measure_frames(wholes, "whole_")
