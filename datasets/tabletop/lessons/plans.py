"""(frame, instruction) -> plan: the whole list of sub-goals, each with an order that leaves nothing open."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from goalreel.datasets.tabletop.grammar import sample_episode
from goalreel.datasets.tabletop.lessons.composition import held_out
from goalreel.datasets.tabletop.lessons.prompts import explicit, step_of
from goalreel.datasets.tabletop.lessons.rows import Origin, PlanRow
from goalreel.datasets.tabletop.lessons.steps import Done, walk
from goalreel.types import Plan, Step

_STREAM = 1


def plan_rows(seeds: Iterable[int], size: int = 128, variety: float = 0.0) -> Iterator[PlanRow]:
    """One row an episode; none for a training seed with a held-out composition, nor for an episode that
    cannot be teleported to its end.

    An order says from where to where its block goes, on the table that the orders before it leave behind.
    """
    for seed, group in groupby(walk(seeds, size, _STREAM, variety), key=lambda done: done.origin.seed):
        walked, episode = list(group), sample_episode(seed)
        if len(walked) == len(episode.goals):
            plan = Plan(steps=tuple(map(explicit_step, walked)))
            origin = Origin(seed, 0, held_out(episode.goals), walked[0].origin.view)
            yield PlanRow(walked[0].source, episode.instruction, plan, episode.goals, origin)


def explicit_step(done: Done) -> Step:
    """The step of a sub-goal as a Planner says it."""
    return step_of(done.goal, explicit(done.goal, done.layout, done.reached))
