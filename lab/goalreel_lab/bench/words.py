"""Steps in words and back: the corpora's own words for the sub-goals of an episode."""

from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np

from goalreel.tabletop.grammar import read_order, read_wanted
from goalreel.tabletop.scene import SubGoal
from goalreel.types import Plan, Step
from goalreel_lab.bench.scenes import Walk
from goalreel_lab.lessons import prompts
from goalreel_lab.lessons.rows import Register

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
