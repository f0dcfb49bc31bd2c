"""Steps in words and back: the corpora's own words for the sub-goals of an episode."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import factorial, prod
from typing import get_args

import numpy as np

from goalreel.annotator.statistics import Measurement, share, with_interval
from goalreel.progress import OnProgress
from goalreel.tabletop.env import Tabletop, teleport
from goalreel.tabletop.grammar import TabletopEpisode, read_order, read_wanted
from goalreel.tabletop.scene import KINDS, GoalKind, SubGoal
from goalreel.types import Failure, Plan, Planner, Step
from goalreel_lab.bench.scenes import Walk, disturbed
from goalreel_lab.corpora import prompts
from goalreel_lab.corpora.composition import held_out
from goalreel_lab.corpora.prompts import zone, zones
from goalreel_lab.corpora.rows import Register
from goalreel_lab.statistics import share_with_interval

REGISTERS: tuple[Register, ...] = get_args(Register.__value__)
_STREAM = 11
"""Sets the bench's choice of terse wordings apart from the corpora's."""


def step_of(walk: Walk, index: int, register: Register = "explicit") -> Step:
    """Make sub-goal `index` as a Planner says it, always in the same words."""
    return prompts.step_of(walk.goals[index], prompt_of(walk, index, register))


def tersely(plan: Plan, walk: Walk) -> Plan:
    """Make the same steps with terse orders; one whose words name no sub-goal keeps its own."""
    step_goals = zip(plan.steps, read_plan(plan, walk.names), strict=True)
    return plan.model_copy(
        update={
            "steps": tuple(
                step
                if goal is None
                else step.model_copy(update={"prompt": prompts.terse(goal, _choice(walk, index))})
                for index, (step, goal) in enumerate(step_goals)
            )
        }
    )


def prompt_of(walk: Walk, index: int, register: Register) -> str:
    """Write the order to an editor for sub-goal `index`."""
    if register == "terse":
        return prompts.terse(walk.goals[index], _choice(walk, index))
    layout, next_layout = walk.moments[index].layout, walk.moments[index + 1].layout
    return prompts.explicit(walk.goals[index], layout, next_layout)


def _choice(walk: Walk, index: int) -> np.random.Generator:
    return np.random.default_rng([walk.seed, index, _STREAM])


def read_plan(plan: Plan, names: Sequence[str]) -> list[SubGoal | None]:
    """Read the sub-goal of every step; None where its words name none, or more than one."""
    return [read_step(step, names) for step in plan.steps]


def read_step(step: Step, names: Sequence[str]) -> SubGoal | None:
    """Read what a step wants, by the first of its texts that can be made out: state, prompt, name."""
    readers: list[tuple[Callable[[str, Sequence[str]], SubGoal | None], str | None]] = [
        (_one, step.instruction),
        (read_order, step.prompt),
        (_one, step.name),
    ]
    for read, text in readers:
        if text is None:
            continue
        try:
            goal = read(text, names)
        except ValueError:
            continue
        if goal is not None:
            return goal
    return None


def _one(text: str, names: Sequence[str]) -> SubGoal | None:
    goals = read_wanted(text, names)
    return goals[0] if len(goals) == 1 else None


BATCH = 16


def in_batches[Q, A](
    model: Callable[[Sequence[Q]], Sequence[A]], requests: Sequence[Q], stage: str, progress: OnProgress
) -> list[A]:
    """Ask for all answers, a batch at a time; answer i belongs to question i.

    Raises:
        ValueError: the model did not give one answer a question.
        goalreel.errors.BackendError: it cannot be called at all.
    """
    answers: list[A] = []
    for start in range(0, len(requests), BATCH):
        batch = requests[start : start + BATCH]
        replies = model(batch)
        if len(replies) != len(batch):
            raise ValueError(f"{stage}: {len(batch)} requests but {len(replies)} answers")
        answers += replies
        progress(stage, len(answers), len(requests))
    return answers


@dataclass(frozen=True)
class PlanScore:
    """Scores of one episode's plan. `pair`: (2 x sub-goals in both plans, sub-goals of both together)."""

    walk: Walk
    exact: bool
    reaches: bool
    pair: tuple[int, int]
    places: tuple[tuple[GoalKind, bool], ...]
    """Steps of an exact plan whose order says where the block goes: True where it is the true place.
    Out of a bowl that is any zone with room; what is then put beside or onto that block does not count."""


def score_plan(walk: Walk, answer: Plan | Failure) -> PlanScore:
    """Compare a plan with the episode's own sub-goals. A step that cannot be read counts as a wrong one."""
    goals: Sequence[SubGoal | None] = [] if isinstance(answer, Failure) else read_plan(answer, walk.names)
    exact = tuple(goals) == walk.goals
    readable_goals = [goal for goal in goals if goal is not None]
    common = (Counter(readable_goals) & Counter(walk.goals)).total()
    reaches = exact or (bool(goals) and len(readable_goals) == len(goals) and _reaches(walk, readable_goals))
    places = _places(walk, answer) if exact and isinstance(answer, Plan) else ()
    return PlanScore(walk, exact, reaches, (2 * common, len(goals) + len(walk.goals)), tuple(places))


def _places(walk: Walk, plan: Plan) -> Iterator[tuple[GoalKind, bool]]:
    moments, anywhere = pairwise(moment.layout for moment in walk.moments), set[str]()
    for step, goal, (layout, next_layout) in zip(plan.steps, walk.goals, moments, strict=True):
        if goal.kind == "out_of" or goal.target in anywhere:
            anywhere.add(goal.object)
        if step.prompt is not None and "It goes " in step.prompt and goal.target not in anywhere:
            room = zones(layout, goal) if goal.kind == "out_of" else ()
            true = (zone(next_layout[goal.object]), *room)
            yield goal.kind, any(f" the {name}." in step.prompt for name in true)


def _reaches(walk: Walk, goals: Sequence[SubGoal]) -> bool:
    """Tell whether these goals, in their order, make every sub-goal true and disturb nothing else."""
    with Tabletop(walk.episode.scene) as env:
        for goal in goals:
            try:
                teleport(env, goal)
            except ValueError:
                return False
        moved = {goal.object for goal in walk.goals}
        done = all(env.holds(goal) for goal in walk.goals)
        return done and not disturbed(env.layout(), walk.moments[0].layout, moved)


def chance_of_order(episode: TabletopEpisode) -> float:
    """Compute the chance to name the true order for a planner that knows all but the order.

    "Clear all the bowls" names none, and the picture shows none.
    """
    sizes = (len(m.goals) for m in episode.missions if not all(g.object in m.text for g in m.goals))
    return 1 / prod(map(factorial, sizes))


def measure_plans(walks: Sequence[Walk], planner: Planner, progress: OnProgress) -> dict[str, Measurement]:
    """Ask for all plans, and measure `exact`, `exact_most`, `reaches`, `f1` and `places`.

    `exact` is also by composition. `places`, also by kind, is the share of orders that say a true place.
    """
    answers = in_batches(planner.plan, [walk.task for walk in walks], "plan", progress)
    scores = [score_plan(walk, answer) for walk, answer in zip(walks, answers, strict=True)]
    new = [bool(held_out(s.walk.goals)) for s in scores]
    hits = [(s.walk.seed, s.exact) for s in scores]
    places = [(kind, (s.walk.seed, true)) for s in scores for kind, true in s.places]
    return {
        "exact": share_with_interval(hits),
        "exact_most": with_interval([(chance_of_order(walk.episode), 1) for walk in walks], share),
        "exact_held_out": share_with_interval(h for h, n in zip(hits, new, strict=True) if n),
        "exact_seen": share_with_interval(h for h, n in zip(hits, new, strict=True) if not n),
        "reaches": share_with_interval((s.walk.seed, s.reaches) for s in scores),
        "f1": with_interval([s.pair for s in scores], share),
        "places": share_with_interval(hit for _, hit in places),
        **{f"places_{k}": share_with_interval(hit for kind, hit in places if kind == k) for k in KINDS},
    }
