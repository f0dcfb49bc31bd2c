"""(frame, instruction) -> plan: the whole list of sub-goals, each with an order that leaves nothing open."""

from collections.abc import Iterable, Iterator, Sequence

from goalreel.types import Plan, Step
from goalreel_lab.lessons.composition import held_out
from goalreel_lab.lessons.grounding import in_order, place
from goalreel_lab.lessons.prompts import explicit, step_of
from goalreel_lab.lessons.rows import Origin, PlanRow
from goalreel_lab.lessons.steps import Done, completed, walk

_STREAM = 1


def plan_rows(seeds: Iterable[int], size: int = 128, variety: float = 0.0) -> Iterator[PlanRow]:
    """Make one row for each episode.

    A training seed with a held-out composition gives none. Neither does an episode that cannot be teleported
    to its end.

    An order says from where to where its block goes, on the table that the orders before it leave behind.
    """
    for episode, walked in completed(walk(seeds, size, _STREAM, variety, roomy=True)):
        plan = Plan(steps=tuple(map(explicit_step, walked)))
        origin = Origin(episode.seed, 0, held_out(episode.goals), walked[0].origin.view)
        yield PlanRow(walked[0].source, episode.instruction, plan, thinking(walked), episode.goals, origin)


def thinking(walked: Sequence[Done]) -> str:
    """Write what the Planner says first: where everything stands, and where each step's block goes.

    Such as `red block c3 r5; blue block c9 r4 in red bowl; red bowl c9 r4. 2 steps: blue block -> c9 r9; red
    block -> c9 r9 on blue block.` Without the places the orders contradict each other, or the table.
    """
    layout = walked[0].layout
    places = "; ".join(f"{name} {place(layout, name)}" for name in in_order(layout))
    steps = "1 step" if len(walked) == 1 else f"{len(walked)} steps"
    moves = "; ".join(f"{d.goal.object} -> {place(d.reached, d.goal.object)}" for d in walked)
    return f"{places}. {steps}: {moves}."


def explicit_step(done: Done) -> Step:
    """Make the step of a sub-goal as a Planner says it."""
    layout_before = {name: done.layout[name] for name in in_order(done.layout)}
    return step_of(done.goal, explicit(done.goal, layout_before, done.reached))
