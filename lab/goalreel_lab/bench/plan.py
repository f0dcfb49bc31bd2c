"""Plans against the true sub-goals: the same sequence, the same set, or another way to the same end."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import factorial, prod

from goalreel.annotator.statistics import Measurement, share, share_with_interval, with_interval
from goalreel.progress import OnProgress
from goalreel.tabletop.env import Tabletop, teleport
from goalreel.tabletop.grammar import TabletopEpisode
from goalreel.tabletop.scene import KINDS, GoalKind, SubGoal
from goalreel.types import Failure, Plan, Planner
from goalreel_lab.bench.asking import in_batches
from goalreel_lab.bench.scenes import Walk, disturbed
from goalreel_lab.bench.words import read_plan
from goalreel_lab.lessons.composition import held_out
from goalreel_lab.lessons.prompts import zone, zones


@dataclass(frozen=True)
class PlanScore:
    """How good one episode's plan is. `pair`: (2 x sub-goals in both plans, sub-goals of both together)."""

    walk: Walk
    exact: bool
    reaches: bool
    pair: tuple[int, int]
    places: tuple[tuple[GoalKind, bool], ...]
    """Of the steps of an exact plan whose order says where the block goes: whether it is the true place.
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
