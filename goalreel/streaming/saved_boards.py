"""The storyboards that a task can begin with instead of a plan."""

from collections import OrderedDict
from dataclasses import replace
from uuid import UUID

from goalreel.models.presets import Preset
from goalreel.streaming.board import Board
from goalreel.streaming.preset_settings import attempts_of
from goalreel.streaming.request import TaskRequest
from goalreel.streaming.sent_storyboard import fit
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.step_panel import ModelNames

MAX_SAVED_BOARDS = 8
"""Storyboards that can still be executed by their id."""


class SavedBoards(OrderedDict[UUID, Board]):
    """The last storyboards that were generated, by the ids of their requests."""

    def save(self, id: UUID, board: Board) -> None:
        """Save a storyboard; the oldest goes where there are too many."""
        self[id] = board
        while len(self) > MAX_SAVED_BOARDS:
            self.popitem(last=False)

    def first_board(
        self, request: TaskRequest, id: UUID, models: ModelNames, settings: EngineSettings, preset: Preset
    ) -> Board:
        """The board that a request begins with: a saved one, the one that was sent, or an empty one."""
        if request.storyboard_id is not None:
            return self[request.storyboard_id]
        if request.storyboard is None:
            return Board(id=id, task=request.task, models=models)
        board = replace(request.storyboard, models=models)
        return fit(board, attempts_of(request.max_attempts, preset), settings.max_image_side)
