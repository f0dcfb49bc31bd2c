"""The goal that the policy is to follow now."""

from collections.abc import Callable

from goalreel.image import Image
from goalreel.streaming.board import Board, Goal


class PresentGoal:
    """A BoardListener that keeps the newest goal, for any thread to read, and says in a line what is new."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.newest: Goal | None = None
        self._say = say

    def board(self, board: Board) -> None:
        """The policy is told of goals alone."""

    def goal(self, goal: Goal) -> None:
        """Take the goal."""
        self.newest = goal
        if goal.panel is not None:
            what = goal.panel.step.name if goal.active else "hold still"
            self._say(f"{goal.panel.index + 1}/{len(goal.board.steps)}: {what}")

    @property
    def picture(self) -> Image | None:
        """What to reach, if there is a picture of it and it is to be followed now."""
        goal = self.newest
        return goal.panel.goal_image if goal is not None and goal.active and goal.panel is not None else None
