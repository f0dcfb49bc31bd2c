"""What the Critic is asked at the end of a task: whether all of it is done."""

from collections.abc import Sequence

JOINT, TASK = "; ", ". In all: "


def whole_state(task: str, states: Sequence[str]) -> str:
    """The state that a task should leave: that of each sub-goal, and the task in its own words.

    A planner may have misread the task, and the task may not say all: the Critic is told both.
    """
    return f"{JOINT.join(state.strip().rstrip('.') for state in states)}{TASK}{task.strip()}"


def states_in(whole: str) -> str:
    """The states alone."""
    return whole.rpartition(TASK)[0] or whole
