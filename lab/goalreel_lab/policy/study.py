"""Runs policies under arms on the same tasks, resumably, and compares them task by task."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from pydantic import BaseModel
from rich.table import Table

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.annotator.statistics import Measurement
from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.errors import InputError
from goalreel.files import exclusive
from goalreel.middleware import AskAdapter, ask_model
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.models.names import fingerprint_of
from goalreel.models.presets import Preset
from goalreel.progress import OnProgress
from goalreel.subgoal_camera import SubGoalForm
from goalreel.tabletop.splits import SEEDS, Split
from goalreel.types import ROLES, Failure, Role
from goalreel_lab.bench.scenes import Walk, walk_through
from goalreel_lab.policy.arm_tasks import ArmEnd, ArmModels, ArmTask, arm_tasks
from goalreel_lab.policy.arms import GATES, PICTURED, PREDICTED, GoalArm
from goalreel_lab.policy.intervals import HEADLINES, compare
from goalreel_lab.policy.policy_tasks import Condition, sample_task
from goalreel_lab.policy.rollout import Bounds, LeRobotActor, film, no_film
from goalreel_lab.statistics import json_line, values_table


class PolicyTrial(BaseModel, frozen=True):
    """One task under one arm, as the journal asks for it."""

    condition: str
    seed: int
    arm: str
    words: bool
    form: str
    tries: int
    steps: int
    shown: str
    """`ArmTask.shown`."""


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
class PolicyConfig:
    """Settings of a measurement."""

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
    """True if arms with a picture are told the sub-task in words too."""
    bounds: Bounds
    out: Path
    films: Path | None = None
    """Folder for films of one success and one failure of every arm."""


class PolicyReport(BaseModel, frozen=True):
    """Report of a study. `values`: NAME.MEASURE and differences, with intervals over tasks and seeds."""

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
    rolled: dict[str, list[list[ArmEnd]]]
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


def measure(order: PolicyConfig, progress: OnProgress) -> PolicyReport:
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
        models = _models(order, arms, journal)
        walks = tasks(order.condition, order.split, order.episodes, order.first, progress)
        rolled: dict[str, list[list[ArmEnd]]] = {}
        for entry in order.entries:
            entry_tasks = arm_tasks(entry.arm, walks, models, order.words, order.bounds)
            rolled[entry.name] = [
                _one_policy(order, journal, entry, folder, actors[folder], entry_tasks, progress)
                for folder in entry.folders
            ]
            if order.films is not None:
                actor, ended = actors[entry.folders[0]], rolled[entry.name][0]
                _film(order.films, entry.name, actor, entry_tasks, ended)
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


def _models(order: PolicyConfig, arms: Collection[GoalArm], journal: Journal) -> ArmModels | None:
    """Load the models that the arms need; None where they need none."""
    if not set(arms) & set(PREDICTED):
        return None
    roles: Sequence[Role] = ROLES if set(arms) & set(GATES) else ("editor", "critic")
    models = load(order.preset, roles=roles)
    breaker = CircuitBreaker(rule_roles(models), strict=True)
    looks = breaker(partial(ask_model, models.live_critic or models.critic))
    model_set = models.with_middleware(breaker).with_journal(journal)
    return ArmModels(model_set, models.planner, AskAdapter(looks))


def _seeds(order: PolicyConfig) -> int:
    """Count the training seeds, which all entries have alike."""
    counts = {entry.name: len(entry.folders) for entry in order.entries}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"arms are compared seed by seed: give all as many checkpoints ({numbers})")
    return next(iter(counts.values()))


def _actors(order: PolicyConfig) -> dict[Path, LeRobotActor]:
    folders = dict.fromkeys(folder for entry in order.entries for folder in entry.folders)
    actors = {folder: LeRobotActor.load(folder, order.form) for folder in folders}
    for entry in order.entries:
        for folder in entry.folders:
            if entry.arm in PICTURED and not actors[folder].sees_goals:
                raise InputError(f"{folder} has no camera {SUBGOAL}, which arm {entry.arm} needs")
    return actors


def _one_policy(
    order: PolicyConfig,
    journal: Journal,
    entry: PolicyEntry,
    folder: Path,
    actor: LeRobotActor,
    entry_tasks: Sequence[ArmTask],
    progress: OnProgress,
) -> list[ArmEnd]:
    """Carry out the tasks that the journal does not know."""
    name = f"policy {fingerprint_of(folder)}"
    ended: list[ArmEnd] = []
    for task in entry_tasks:
        trial = PolicyTrial(
            condition=order.condition,
            seed=task.seed,
            arm=entry.arm,
            words=order.words,
            form=order.form,
            tries=order.bounds.tries,
            steps=order.bounds.steps,
            shown=task.shown,
        )
        (answer,) = journal.ask(
            name, task.end_type, lambda _, task=task: [task.carry_out(actor, no_film)], [trial]
        )
        assert not isinstance(answer, Failure)
        ended.append(answer)
        progress(f"{order.condition}, {entry.name}", len(ended), len(entry_tasks))
    return ended


def _film(
    folder: Path, name: str, actor: LeRobotActor, entry_tasks: Sequence[ArmTask], ended: Sequence[ArmEnd]
) -> None:
    for success, end_name in ((True, "success"), (False, "failure")):
        chosen = next((i for i, end in enumerate(ended) if end.success == success), None)
        if chosen is not None:
            film(partial(entry_tasks[chosen].carry_out, actor), folder / f"{name}-{end_name}.gif")
