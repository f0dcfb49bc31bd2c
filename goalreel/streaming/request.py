"""Requests to the engine: what is wrong with one, the board it begins with, and how it ends."""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Literal, Protocol, Self
from uuid import UUID, uuid4

from goalreel.claims import UNKNOWN, makers
from goalreel.critics.examiner import Examiner, quota
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.settings import is_read_only
from goalreel.streaming.board import Board, CodedText, ErrorCode, Goal, ModelNames
from goalreel.streaming.settings import EngineSettings
from goalreel.types import ROLE_OF_STAGE, Failure, StoryboardStep, Verdict
from goalreel.wording import reader_text

EXCERPT_LENGTH = 200
"""Characters of a long text that logs and messages show."""


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task. Numbers of -1 stand for the engine's settings."""

    task: str
    kind: Literal["generate", "execute"] = "execute"
    image: Image | None = None
    """Plan from this picture instead of a camera frame ("generate" only)."""
    storyboard_id: UUID | None = None
    """Execute this storyboard from an earlier request instead of planning ("execute" only)."""
    storyboard: Board | None = None
    """Execute this storyboard, made elsewhere, instead of planning ("execute" only)."""
    auxiliary_text: str = ""
    max_steps: int = -1
    max_attempts: int = -1
    max_replans: int = -1
    timeout: float = 0.0
    """Seconds; 0 stands for the engine's `task_timeout`, and less for no limit."""
    text_only: bool = False


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The end of a task. Times in seconds."""

    board: Board
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    """The reason why it failed; of a task that succeeded, that nobody checked its end, where nobody did."""
    replans: int = 0
    planning_time: float = 0.0
    elapsed: float = 0.0
    verdict: Verdict | None = None
    """The critic's verdict on the task as a whole, if there is one."""


def excerpt(text: str) -> str:
    """Give the text in one line; a long one is cut to EXCERPT_LENGTH characters, followed by its length."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT_LENGTH else f"{line[:EXCERPT_LENGTH]}... ({len(text)} characters)"


class BoardListener(Protocol):
    """Notified of every change, in order, on the engine's thread. Its methods must not block."""

    def on_board(self, board: Board) -> None:
        """Hear of the board whenever it has changed."""

    def on_goal(self, goal: Goal) -> None:
        """Hear which sub-goal is to be reached now, or that there is none."""


class TaskEnded(Exception):
    """The task is over; `error` and `message` (one line) say why. `verdict` is as in TaskOutcome."""

    def __init__(self, error: ErrorCode, message: str, verdict: Verdict | None = None) -> None:
        super().__init__(message)
        self.error, self.message, self.verdict = error, message, verdict


def end_from_failure(failure: Failure) -> TaskEnded:
    """Give the exception with which a model's Failure ends a task."""
    message = failure.line
    if failure.reply is not None:
        message = f"{message}; the model said {shorten(failure.reply, 120, placeholder=' ...')!r}"
    is_memory = "out of memory" in message.lower()
    code = "OUT_OF_MEMORY" if is_memory else f"{ROLE_OF_STAGE[failure.stage].upper()}_FAILED"
    return TaskEnded(ErrorCode[code], message)


def end_from_step(result: StoryboardStep, settings: EngineSettings) -> TaskEnded | None:
    """Give the exception with which a rendered step ends the task under these settings, or None."""
    if result.usable:
        return None
    attempt = result.attempts[-1]
    if attempt.failure is not None:
        return end_from_failure(attempt.failure) if settings.on_model_failure == "fail" else None
    if settings.on_rejected == "publish":
        return None
    reason = reader_text(attempt.verdict.reasoning) if attempt.verdict is not None else ""
    text = f"the critic rejected all {len(result.attempts)} pictures of {result.step.name!r}. {reason}"
    return TaskEnded(ErrorCode.ATTEMPTS_EXHAUSTED, text.strip().splitlines()[0])


def preset_of(settings: EngineSettings) -> Preset:
    """Read the preset of the settings, with their own models. InputError: none such, or no predictive one."""
    preset = settings.models.on_robot().load()
    if not preset.predictive:
        raise InputError(f"preset {settings.models.preset!r} only reads recordings: choose another")
    return preset


def preset_of_task(settings: EngineSettings, preset: Preset) -> Preset:
    """Give the preset of the next task: `preset` with what may change while the models are loaded."""
    overrides, fields = settings.models.overrides, Preset.model_fields
    return preset.model_copy(update={k: v for k, v in overrides.items() if not is_read_only(fields[k])})


def attempts_of(number: int, preset: Preset) -> int:
    """Give the pictures a step; a `number` of -1 stands for the preset's."""
    return preset.max_attempts if number < 0 else number


def names_of(preset: Preset) -> ModelNames:
    """Give the names to publish: without the credentials that an address may carry."""
    names = (preset.planner, preset.editor, preset.critic)
    return ModelNames(*(ModelName.parse(name).public() for name in names))


def examiner_of(settings: EngineSettings, preset: Preset) -> Examiner:
    """Make the examiner of the critic, which reads the answers that there are."""
    critic = makers({"critic": preset.model_name("critic").identity()}.get).get("critic", UNKNOWN)
    return Examiner(
        critic,
        Path(settings.examination).expanduser() if settings.examination else None,
        writer=f"node_{uuid4().hex[:8]}",
        control_count=lambda judged: round(settings.controls * quota(judged)),
    )


def check_request(
    request: TaskRequest, settings: EngineSettings, preset: Preset, saved_boards: Mapping[UUID, Board]
) -> None:
    """Check that a request can be carried out; a TaskEnded says that it cannot."""
    _require(math.isfinite(request.timeout), f"a timeout is a number of seconds, not {request.timeout}")
    for name, minimum in (("max_steps", 1), ("max_attempts", 1), ("max_replans", 0)):
        number = getattr(request, name)
        _require(
            number >= minimum or number == -1,
            f"{name} is {minimum} or more, or -1 for the parameter's value, not {number}",
        )
    check_length("task", request.task, settings)
    check_length("auxiliary text", request.auxiliary_text, settings)
    if (board := request.storyboard) is not None:
        _require(request.storyboard_id is None, "send a storyboard or the id of one, not both")
        _check_storyboard(board, request.max_steps, settings, preset)
    elif request.storyboard_id is not None:
        board = saved_boards.get(request.storyboard_id)
        _require(board is not None, f"there is no storyboard {request.storyboard_id}")
    task = request.task.strip()
    if board is None:
        _require(bool(task), "the task is empty")
    else:
        _require(task in ("", board.task), f"that storyboard is for another task: {excerpt(board.task)!r}")


def check_length(name: str, text: str, settings: EngineSettings) -> None:
    """Check that a text is not longer than is allowed. A TaskEnded says that it is."""
    limit = settings.max_instruction_length
    _require(
        len(text) <= limit,
        f"the {name} has {len(text)} characters, {limit} are allowed (max_instruction_length)",
    )


def _check_storyboard(board: Board, max_steps: int, settings: EngineSettings, preset: Preset) -> None:
    """Refuse of a storyboard made elsewhere what would be refused of one that the engine makes."""
    limit = preset.max_steps if max_steps < 0 else max_steps
    _require(bool(board.task.strip() and board.steps), "the storyboard has no task, or no steps")
    _require(
        len(board.steps) <= limit,
        f"the storyboard has {len(board.steps)} steps, {limit} are allowed (max_steps)",
    )
    steps = [panel.step for panel in board.steps]
    texts = [t or "" for s in steps for t in (s.name, s.instruction, s.prompt, s.auxiliary_text)]
    check_length("storyboard's longest text", max((board.task, *texts), key=len), settings)
    if settings.on_model_failure == "fail" and board.failures:
        raise end_from_failure(board.failures[0])
    for panel in board.steps if settings.on_rejected != "publish" else ():
        if panel.step.prompt is not None and panel.image_status != "accepted":
            raise TaskEnded(
                ErrorCode.ATTEMPTS_EXHAUSTED,
                f"no critic accepted a picture of step {panel.index} (on_rejected)",
            )


def _require(is_valid: bool, text: str) -> None:
    if not is_valid:
        raise TaskEnded(ErrorCode.INVALID_REQUEST, text)


def first_board(
    request: TaskRequest,
    id: UUID,
    saved_boards: Mapping[UUID, Board],
    models: ModelNames,
    settings: EngineSettings,
    preset: Preset,
) -> Board:
    """Give the board that a request begins with: a saved one, the one that was sent, or an empty one."""
    if request.storyboard_id is not None:
        return saved_boards[request.storyboard_id]
    if (board := request.storyboard) is None:
        return Board(id=id, task=request.task, models=models)
    source, attempts = board.source, attempts_of(request.max_attempts, preset)
    if source is not None:
        small = source.image.within(settings.max_image_side)
        source = replace(source, image=small, full_size=source.size, frame_id="")  # of no camera here
    steps = tuple(replace(panel, max_attempts=attempts) for panel in board.steps)
    return replace(board, models=models, source=source, steps=steps)


class Ticket:
    """A submitted request. `id` is that of the storyboard that it makes or executes.

    `outcome` never holds an exception: errors of models and cameras are in the TaskOutcome.
    """

    def __init__(self, storyboard_id: UUID, cancel: Callable[["Ticket", ErrorCode, str], None]) -> None:
        self.id = storyboard_id
        self.outcome: Future[TaskOutcome] = Future()
        self._cancel = cancel

    @property
    def done(self) -> bool:
        """True once the request has ended, well or not."""
        return self.outcome.done()

    def refuse(self, request: TaskRequest, reason: CodedText) -> Self:
        """End the request before anything is begun for it."""
        board = Board(id=self.id, task=request.task[:EXCERPT_LENGTH], state="failed")
        self.outcome.set_result(TaskOutcome(board, *reason))
        return self

    def cancel(self, reason: str = "cancelled", error: ErrorCode = ErrorCode.CANCELED) -> None:
        """End the request, as CANCELED or another error, at once; a model call under way runs to its end."""
        self._cancel(self, error, reason)
