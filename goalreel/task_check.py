"""The question to the Critic at the end of a task: whether all of it is done."""

from collections.abc import Sequence

from goalreel.types import Candidate, StoryboardStep, Task

JOINT, TASK = "; ", ". In all: "


def whole_state(task: str, states: Sequence[str]) -> str:
    """The final state of a task: the state of each sub-goal, and the task in its own words.

    A planner may misread the task, and the task may omit something: the Critic reads both.
    """
    return f"{JOINT.join(state.strip().rstrip('.') for state in states)}{TASK}{task.strip()}"


def states_in(whole: str) -> str:
    """The part of a `whole_state` that lists the states."""
    return whole.rpartition(TASK)[0] or whole


def end_question(task: Task, steps: Sequence[StoryboardStep]) -> Candidate | None:
    """Ask whether the last goal image shows the whole task; None where a step has not come off.

    It comes after the steps: `Candidate.step` is their number.
    """
    goals = [step.goal_image for step in steps if step.goal_image is not None]
    if not goals or not all(step.usable for step in steps):
        return None
    states = [done.instruction for done in task.done] + [step.step.instruction for step in steps]
    return Candidate(
        task_id=task.id,
        step=len(steps),
        source=task.image,
        image=goals[-1],
        instruction=whole_state(task.instruction, states),
        prompt=task.instruction,
    )
