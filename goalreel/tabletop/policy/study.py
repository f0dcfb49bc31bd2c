"""Runs policies under arms on the same tasks, resumably, and compares them task by task."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from goalreel.annotator.circuit_breaker import CircuitBreaker, rule_roles
from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.errors import InputError
from goalreel.evaluation.statistics import (
    Measurement,
    json_line,
    points,
    share,
    share_with_interval,
    values_table,
    with_interval,
)
from goalreel.files import exclusive
from goalreel.models.journal import Journal
from goalreel.models.load import load, recording_readers
from goalreel.models.names import fingerprint_of
from goalreel.models.presets import Preset
from goalreel.progress import OnProgress
from goalreel.subgoal_camera import SubGoalForm
from goalreel.tabletop.bench.scenes import Walk, walk_through
from goalreel.tabletop.policy.acting import GoalCue, LeRobotActor
from goalreel.tabletop.policy.arms import PICTURED, PREDICTED, GoalArm, cues_of, pictures_of
from goalreel.tabletop.policy.films import film
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
}
"""What is compared, in points of success and, with `_reached`, of sub-goals reached."""

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
class PolicyOrder:
    """What is to be measured."""

    policies: Mapping[GoalArm, Path]
    """The checkpoint that acts in each arm."""
    arms: Sequence[GoalArm]
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
    """What was found. `values` maps ARM.MEASURE and the names of PAIRS to values, intervals over tasks."""

    model_config = ConfigDict(frozen=True)

    condition: str
    split: str
    first: int
    episodes: int
    words: bool
    form: str
    policies: dict[str, str]
    values: dict[str, Measurement]
    rolled: dict[str, list[Rolled]]
    """By arm, in the order of the tasks."""

    def as_json(self) -> str:
        """Write one line: what was measured, and every value as KEY, KEY_low and KEY_high."""
        return json_line(self.model_dump(exclude={"values", "rolled"}), self.values)

    def table(self) -> Table:
        """Make a table of all values."""
        title = f"{self.episodes} tasks ({self.condition}) of the {self.split} split, from seed {self.first}"
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
    """Run every arm on every task.

    Raises:
        InputError: a policy that does not fit, a model that cannot predict, or no other task for `placebo`.
        DatasetError: another run works in the same folder.
        UserError: a model cannot be called, or answers nobody any more.
    """
    if "placebo" in order.arms and order.episodes < 2:
        raise InputError("the arm placebo shows another task's goal images: it needs two tasks at least")
    journal = Journal(order.out / "answers")
    with exclusive(journal.folder, order.out):
        actors = _actors(order)
        trio = None
        if set(order.arms) & set(PREDICTED):
            if read := recording_readers(order.preset):
                raise InputError(f"{read[0]} only reads recordings: it can predict no goal image")
            models = load(order.preset, roles=("editor", "critic"))
            breaker = CircuitBreaker(rule_roles(models), strict=True)
            trio = models.with_middleware(breaker).with_journal(journal)
        walks = tasks(order.condition, order.split, order.episodes, order.first, progress)
        rolled: dict[str, list[Rolled]] = {}
        for arm in order.arms:
            pictures = pictures_of(arm, walks, trio, order.preset.max_attempts)
            cues = [cues_of(arm, w, p, order.words) for w, p in zip(walks, pictures, strict=True)]
            rolled[arm] = _one_arm(order, journal, arm, actors[arm], walks, cues, progress)
            if order.films is not None:
                _film(order, order.films, arm, actors[arm], walks, cues, rolled[arm])
    return PolicyReport(
        condition=order.condition,
        split=order.split,
        first=walks[0].seed,
        episodes=len(walks),
        words=order.words,
        form=order.form,
        policies={arm: order.policies[arm].name for arm in order.arms},
        values=compare(rolled),
        rolled=rolled,
    )


def _actors(order: PolicyOrder) -> dict[GoalArm, LeRobotActor]:
    loaded = {folder: LeRobotActor.load(folder, order.form) for folder in set(order.policies.values())}
    actors: dict[GoalArm, LeRobotActor] = {arm: loaded[order.policies[arm]] for arm in order.arms}
    for arm, actor in actors.items():
        if arm in PICTURED and not actor.sees_goals:
            raise InputError(f"{order.policies[arm]} has no camera {SUBGOAL}, which arm {arm} needs")
    return actors


def _one_arm(
    order: PolicyOrder,
    journal: Journal,
    arm: GoalArm,
    actor: LeRobotActor,
    walks: Sequence[Walk],
    cues_of_walks: Sequence[Sequence[GoalCue]],
    progress: OnProgress,
) -> list[Rolled]:
    """Carry out the tasks that the journal does not know."""
    name = f"policy {fingerprint_of(order.policies[arm])}"
    ended: list[Rolled] = []
    for walk, cues in zip(walks, cues_of_walks, strict=True):
        digest = hashlib.sha256()
        for cue in cues:
            digest.update(b"" if cue.picture is None else cue.picture.pixels.tobytes())
        trial = PolicyTrial(
            condition=order.condition,
            seed=walk.seed,
            arm=arm,
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
        progress(f"{order.condition}, {arm}", len(ended), len(walks))
    return ended


def _film(
    order: PolicyOrder,
    folder: Path,
    arm: GoalArm,
    actor: LeRobotActor,
    walks: Sequence[Walk],
    cues: Sequence[Sequence[GoalCue]],
    ended: Sequence[Rolled],
) -> None:
    for success, name in ((True, "success"), (False, "failure")):
        chosen = next((i for i, end in enumerate(ended) if end.success == success), None)
        if chosen is not None:
            film(walks[chosen], actor, cues[chosen], order.bounds, folder / f"{arm}-{name}.gif")


def compare(rolled: Mapping[str, Sequence[Rolled]]) -> dict[str, Measurement]:
    """Measure ARM.success, ARM.reached, ARM.length and ARM.first_right, and the differences of PAIRS.

    `reached` is the share of sub-goals, `length` their number a task. Differences are in points, over the
    same tasks.
    """
    values: dict[str, Measurement] = {}
    for arm, ends in rolled.items():
        values[f"{arm}.success"] = share_with_interval(enumerate(e.success for e in ends))
        values[f"{arm}.reached"] = with_interval([(e.reached, e.goals) for e in ends], share)
        values[f"{arm}.length"] = with_interval([(e.reached, 1) for e in ends], share)
        values[f"{arm}.first_right"] = share_with_interval(enumerate(e.first_right for e in ends))
    for name, (first, second) in PAIRS.items():
        if first in rolled and second in rolled:
            ends = list(zip(rolled[first], rolled[second], strict=True))
            values[name] = with_interval([(a.success, b.success, 1) for a, b in ends], points)
            values[f"{name}_reached"] = with_interval(
                [(a.reached, b.reached, a.goals) for a, b in ends], points
            )
    return values
