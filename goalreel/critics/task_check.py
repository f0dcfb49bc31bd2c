"""The question to the Critic at the end of a task: whether all of it is done."""

from collections.abc import Sequence

JOINT, TASK = "; ", ". In all: "


def whole_state(task: str, states: Sequence[str]) -> str:
    """The final state of a task: the state of each sub-goal, and the task in its own words.

    A planner may misread the task, and the task may omit something: the Critic reads both.
    """
    return f"{JOINT.join(state.strip().rstrip('.') for state in states)}{TASK}{task.strip()}"


def states_in(whole: str) -> str:
    """The part of a `whole_state` that lists the states."""
    return whole.rpartition(TASK)[0] or whole
