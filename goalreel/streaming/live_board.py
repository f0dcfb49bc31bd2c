"""The board of the task under way: one place that changes it, and tells whoever listens."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict, Unpack

from goalreel.streaming.board import Board, BoardState, Frame, Goal, Phase, PhaseName, StepPanel
from goalreel.streaming.request import BoardListener


class BoardChanges(TypedDict, total=False):
    """The fields of a Board that change while it is under way."""

    state: BoardState
    revision: int
    source: Frame
    steps: tuple[StepPanel, ...]


class LiveBoard:
    """Used from the event loop; `board` may be read from anywhere, it is frozen."""

    def __init__(
        self,
        board: Board,
        listener: BoardListener,
        now: Callable[[], int],
        on_phase: Callable[[Phase], None] | None,
        wake: Callable[[], None],
    ) -> None:
        self.board = board
        self.now = now
        self._listener = listener
        self._on_phase = on_phase
        self._wake = wake

    def update(self, **changes: Unpack[BoardChanges]) -> None:
        """Replace fields of the board, and tell the listener."""
        self.board = replace(self.board, stamp=self.now(), **changes)
        self._listener.board(self.board)
        self._wake()

    def put(self, panel: StepPanel) -> None:
        """Replace one panel of the board, and tell the listener."""
        self.update(steps=self.board.with_panel(panel).steps)

    def goal(self, panel: StepPanel | None, *, active: bool) -> None:
        """Tell the policy."""
        self._listener.goal(Goal(self.board, panel, active, self.now()))

    def phase(self, stage: PhaseName, panel: StepPanel | None = None) -> None:
        """Tell who asked for the storyboard how it goes."""
        if self._on_phase is None:
            return
        steps = self.board.steps
        share = sum(p.rendered for p in steps) / len(steps) if steps else 0.0
        index, attempt = (panel.index, max(0, panel.attempts - 1)) if panel else (0, 0)
        self._on_phase(Phase(stage, index, len(steps), attempt, share, panel))
