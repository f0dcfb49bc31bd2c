"""Runs policies under arms on the same tasks, resumably, and compares them task by task."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from goalreel.annotator.circuit_breaker import CircuitBreaker, rule_roles
from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.errors import InputError
from goalreel.evaluation.statistics import Measurement, json_line, values_table
from goalreel.files import exclusive
from goalreel.models.journal import Journal
from goalreel.models.load import load, recording_readers
from goalreel.models.names import fingerprint_of
from goalreel.models.presets import Preset
from goalreel.progress import OnProgress
from goalreel.subgoal_camera import SubGoalForm
from goalreel.tabletop.bench.scenes import Walk, walk_through
from goalreel.tabletop.policy.acting import GoalCue, LeRobotActor
from goalreel.tabletop.policy.arms import ARMS, PICTURED, PREDICTED, GoalArm, cues_of, pictures_of
from goalreel.tabletop.policy.films import film
from goalreel.tabletop.policy.intervals import SeedEnds, difference_of_seeds, measure_seeds
from goalreel.tabletop.policy.rollout import Bounds, Rolled, roll
from goalreel.tabletop.sim.policy_tasks import Condition, sample_task
from goalreel.tabletop.sim.splits import SEEDS, Split
from goalreel.types import Failure

PAIRS: Mapping[str, tuple[GoalArm, GoalArm]] = {
    "true_minus_text": ("true", "text"),
    "true_minus_instruction": ("true", "instruction"),
    "text_minus_instruction": ("text", "instruction"),
    "predicted_minus_true": ("predicted", "true"),
    "predicted_minus_once": ("predicted", "predicted_once"),
    "predicted_minus_text": ("predicted", "text"),
    "placebo_minus_text": ("placebo", "text"),
    "black_minus_text": ("black", "text"),
    "true_minus_spot": ("true", "spot"),
    "spot_minus_text": ("spot", "text"),
}
"""What is compared, in points of success and, with `_reached` and `_exact`, of sub-goals."""

HEADLINES = ("true_minus_text", "predicted_minus_true", "placebo_minus_text")


class PolicyTrial(BaseModel):
    """One task under one arm, as the journal asks for it."""

    model_config = ConfigDict(frozen=True)

    condition: str
    seed: int
    arm: str
    words: bool
    form: str
    tries: int
    steps: int
    shown: str
    """Digest of the goal images."""


@dataclass(frozen=True)
class PolicyEntry:
    """An arm, and who acts in it: a checkpoint for each training seed."""

    arm: GoalArm
    folders: tuple[Path, ...]
    label: str = ""
    """Its own name, where one arm is measured with differently trained policies."""

    @property
    def name(self) -> str:
        """Name the entry in reports: the label, or else the arm."""
        return self.label or self.arm


@dataclass(frozen=True)
class PolicyOrder:
    """What is to be measured."""

    entries: Sequence[PolicyEntry]
    """Their names are unique, and all have as many training seeds."""
    condition: Condition
    split: Split
    episodes: int
    first: int
    preset: Preset
    """Its editor and Critic predict."""
    form: SubGoalForm
    words: bool
    """Whether arms with a picture are told the sub-task in words too."""
    bounds: Bounds
    out: Path
    films: Path | None = None
    """Where one success and one failure of every arm are filmed."""


class PolicyReport(BaseModel):
    """What was found. `values`: NAME.MEASURE and differences, with intervals over tasks and seeds."""

    model_config = ConfigDict(frozen=True)

    condition: str
    split: str
    first: int
    episodes: int
    words: bool
    form: str
    policies: dict[str, str]
    values: dict[str, Measurement]
    seeds: int
    """Checkpoints of each entry."""
    rolled: dict[str, list[list[Rolled]]]
    """By entry, then by training seed, in the order of the tasks."""

    def as_json(self) -> str:
        """Write one line: what was measured, and every value as KEY, KEY_low and KEY_high."""
        return json_line(self.model_dump(exclude={"values", "rolled"}), self.values)

    def table(self) -> Table:
        """Make a table of all values."""
        title = (
            f"{self.episodes} tasks ({self.condition}) of the {self.split} split, from seed {self.first}; "
            f"training seeds: {self.seeds}"
        )
        return values_table(title, self.values, HEADLINES)


def tasks(condition: Condition, split: Split, episodes: int, first: int, progress: OnProgress) -> list[Walk]:
    """Make the tasks of a split; a seed whose sub-goals cannot all be shown by teleporting is passed over.

    Raises:
        InputError: the split has too few.
    """
    walks: list[Walk] = []
    for walk in (_walk(condition, seed) for seed in SEEDS[split][first:]):
        if walk is not None:
            walks.append(walk)
            progress(f"tasks, {condition}", len(walks), episodes)
        if len(walks) == episodes:
            return walks
    raise InputError(f"split {split} has only {len(walks)} tasks from {first} on, asked for {episodes}")


@lru_cache(maxsize=1024)
def _walk(condition: Condition, seed: int) -> Walk | None:
    """Make the task of a seed, or None; the arms and the policies of a study come to the same ones again."""
    try:
        return walk_through(sample_task(condition, seed))
    except ValueError:
        return None


def measure(order: PolicyOrder, progress: OnProgress) -> PolicyReport:
    """Run every entry on every task.

    Raises:
        InputError: a policy that does not fit, a model that cannot predict, entries with different numbers
            of training seeds, or no other task for `placebo`.
        DatasetError: another run works in the same folder.
        UserError: a model cannot be called, or answers nobody any more.
    """
    arms = [entry.arm for entry in order.entries]
    if "placebo" in arms and order.episodes < 2:
        raise InputError("the arm placebo shows another task's goal images: it needs two tasks at least")
    seeds = _seeds(order)
    journal = Journal(order.out / "answers")
    with exclusive(journal.folder, order.out):
        actors = _actors(order)
        trio = None
        if set(arms) & set(PREDICTED):
            if read := recording_readers(order.preset):
                raise InputError(f"{read[0]} only reads recordings: it can predict no goal image")
            models = load(order.preset, roles=("editor", "critic"))
            breaker = CircuitBreaker(rule_roles(models), strict=True)
            trio = models.with_middleware(breaker).with_journal(journal)
        walks = tasks(order.condition, order.split, order.episodes, order.first, progress)
        rolled: dict[str, list[list[Rolled]]] = {}
        for entry in order.entries:
            pictures = pictures_of(entry.arm, walks, trio, order.preset.max_attempts)
            cues = [cues_of(entry.arm, w, p, order.words) for w, p in zip(walks, pictures, strict=True)]
            rolled[entry.name] = [
                _one_policy(order, journal, entry, folder, actors[folder], walks, cues, progress)
                for folder in entry.folders
            ]
            if order.films is not None:
                actor, ended = actors[entry.folders[0]], rolled[entry.name][0]
                _film(order, order.films, entry.name, actor, walks, cues, ended)
    return PolicyReport(
        condition=order.condition,
        split=order.split,
        first=walks[0].seed,
        episodes=len(walks),
        words=order.words,
        form=order.form,
        policies={entry.name: ", ".join(f.name for f in entry.folders) for entry in order.entries},
        values=compare(rolled),
        seeds=seeds,
        rolled=rolled,
    )


def _seeds(order: PolicyOrder) -> int:
    """Count the training seeds, which all entries have alike."""
    counts = {entry.name: len(entry.folders) for entry in order.entries}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"arms are compared seed by seed: give all as many checkpoints ({numbers})")
    return next(iter(counts.values()))


def _actors(order: PolicyOrder) -> dict[Path, LeRobotActor]:
    folders = dict.fromkeys(folder for entry in order.entries for folder in entry.folders)
    actors = {folder: LeRobotActor.load(folder, order.form) for folder in folders}
    for entry in order.entries:
        for folder in entry.folders:
            if entry.arm in PICTURED and not actors[folder].sees_goals:
                raise InputError(f"{folder} has no camera {SUBGOAL}, which arm {entry.arm} needs")
    return actors


def _one_policy(
    order: PolicyOrder,
    journal: Journal,
    entry: PolicyEntry,
    folder: Path,
    actor: LeRobotActor,
    walks: Sequence[Walk],
    cues_of_walks: Sequence[Sequence[GoalCue]],
    progress: OnProgress,
) -> list[Rolled]:
    """Carry out the tasks that the journal does not know."""
    name = f"policy {fingerprint_of(folder)}"
    ended: list[Rolled] = []
    for walk, cues in zip(walks, cues_of_walks, strict=True):
        digest = hashlib.sha256()
        for cue in cues:
            digest.update(b"" if cue.picture is None else cue.picture.pixels.tobytes())
        trial = PolicyTrial(
            condition=order.condition,
            seed=walk.seed,
            arm=entry.arm,
            words=order.words,
            form=order.form,
            tries=order.bounds.tries,
            steps=order.bounds.steps,
            shown=digest.hexdigest()[:16],
        )
        go = partial(roll, walk, actor, cues, order.bounds)
        (answer,) = journal.ask(name, Rolled, lambda _, go=go: [go()], [trial])
        assert not isinstance(answer, Failure)
        ended.append(answer)
        progress(f"{order.condition}, {entry.name}", len(ended), len(walks))
    return ended


def _film(
    order: PolicyOrder,
    folder: Path,
    name: str,
    actor: LeRobotActor,
    walks: Sequence[Walk],
    cues: Sequence[Sequence[GoalCue]],
    ended: Sequence[Rolled],
) -> None:
    for success, end_name in ((True, "success"), (False, "failure")):
        chosen = next((i for i, end in enumerate(ended) if end.success == success), None)
        if chosen is not None:
            film(walks[chosen], actor, cues[chosen], order.bounds, folder / f"{name}-{end_name}.gif")


def compare(rolled: Mapping[str, SeedEnds]) -> dict[str, Measurement]:
    """Measure NAME.success, reached, exact, length and first_right, and differences.

    `reached` is the share of sub-goals, `exact` that reached within 1.5 cm, `length` their number a
    task. Differences are in points, over the same tasks and seeds: PAIRS, and FIRST_minus_SECOND for each
    pair of which one has a name of its own.
    """
    values: dict[str, Measurement] = {}
    for name, ends in rolled.items():
        for measure_name in ("success", "reached", "exact", "length", "first_right"):
            values[f"{name}.{measure_name}"] = measure_seeds(ends, measure_name)
    pairs: dict[str, tuple[str, str]] = {key: pair for key, pair in PAIRS.items() if rolled.keys() >= {*pair}}
    for first, second in itertools.combinations(rolled, 2):
        if first not in ARMS or second not in ARMS:
            pairs[f"{first}_minus_{second}"] = first, second
    for key, (first, second) in pairs.items():
        values[key] = difference_of_seeds(rolled[first], rolled[second], "success")
        for measure_name in ("reached", "exact"):
            values[f"{key}_{measure_name}"] = difference_of_seeds(rolled[first], rolled[second], measure_name)
    return values
