"""The goal that the policy follows now."""

from collections.abc import Callable

from goalreel.image import Image
from goalreel.streaming.board import Board, Goal


class NewestGoal:
    """A BoardListener that holds the newest goal, for any thread to read, and reports each in a line."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.newest: Goal | None = None
        self._report = report

    def on_board(self, board: Board) -> None:
        """Ignore boards: the policy gets goals only."""

    def on_goal(self, goal: Goal) -> None:
        """Store the goal and report it."""
        self.newest = goal
        if goal.panel is not None:
            what = f"{goal.panel.step.name} ({goal.panel.image_status})" if goal.active else "hold still"
            self._report(f"{goal.panel.index + 1}/{len(goal.board.steps)}: {what}")

    @property
    def picture(self) -> Image | None:
        """The goal image, if the goal is active and has one."""
        goal = self.newest
        return goal.panel.goal_image if goal is not None and goal.active and goal.panel is not None else None
