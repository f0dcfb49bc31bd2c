"""What is wrong with a request, before anything is begun for it."""

import math
from collections.abc import Mapping
from uuid import UUID

from goalreel.models.presets import Preset
from goalreel.streaming.board import Board, CodedText, ErrorCode
from goalreel.streaming.request import TaskRequest, excerpt
from goalreel.streaming.sent_storyboard import refusal
from goalreel.streaming.settings import EngineSettings

LEAST = {"max_steps": 1, "max_attempts": 1, "max_replans": 0}
"""The least that a request can ask for."""


def problem_of(
    request: TaskRequest, settings: EngineSettings, preset: Preset, saved_boards: Mapping[UUID, Board]
) -> CodedText | None:
    """Say why a request cannot be carried out; None where it can. `saved_boards` have ids to name them by."""
    if not math.isfinite(request.timeout):
        return ErrorCode.INVALID_REQUEST, f"a timeout is a number of seconds, not {request.timeout}"
    for name, minimum in LEAST.items():
        number = getattr(request, name)
        if number < minimum and number != -1:
            text = f"{name} is {minimum} or more, or -1 for the parameter's value, not {number}"
            return ErrorCode.INVALID_REQUEST, text
    for name, text in (("task", request.task), ("auxiliary text", request.auxiliary_text)):
        if (problem := too_long(name, text, settings)) is not None:
            return problem
    board = request.storyboard
    if board is not None:
        if request.storyboard_id is not None:
            return ErrorCode.INVALID_REQUEST, "send a storyboard or the id of one, not both"
        if (problem := refusal(board, request.max_steps, settings, preset)) is not None:
            return problem
    elif request.storyboard_id is None:
        return None if request.task.strip() else (ErrorCode.INVALID_REQUEST, "the task is empty")
    else:
        board = saved_boards.get(request.storyboard_id)
        if board is None:
            return ErrorCode.INVALID_REQUEST, f"there is no storyboard {request.storyboard_id}"
    if request.task.strip() not in ("", board.task):
        return ErrorCode.INVALID_REQUEST, f"that storyboard is for another task: {excerpt(board.task)!r}"
    return None


def too_long(name: str, text: str, settings: EngineSettings) -> CodedText | None:
    """Say that a text is longer than is allowed; None where it is not."""
    limit = settings.max_instruction_length
    if len(text) <= limit:
        return None
    message = f"the {name} has {len(text)} characters, {limit} are allowed (max_instruction_length)"
    return ErrorCode.INVALID_REQUEST, message
