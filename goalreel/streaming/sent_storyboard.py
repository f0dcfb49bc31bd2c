"""A storyboard that was made elsewhere, sent to the engine: what it must be, and how it fits in."""

from dataclasses import replace

from goalreel.models.presets import Preset
from goalreel.streaming.board import Board, CodedText, ErrorCode
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.step_panel import StepPanel
from goalreel.streaming.task_end import end_from_failure


def refusal(board: Board, max_steps: int, settings: EngineSettings, preset: Preset) -> CodedText | None:
    """Say why the settings do not let the storyboard be executed; None where they do.

    A `max_steps` of -1 stands for the preset's. The settings refuse what they would refuse of a storyboard
    that the engine makes.
    """
    limit = preset.max_steps if max_steps < 0 else max_steps
    if not board.task.strip():
        return ErrorCode.INVALID_REQUEST, "the storyboard has no task"
    if not board.steps:
        return ErrorCode.INVALID_REQUEST, "the storyboard has no steps"
    if len(board.steps) > limit:
        text = f"the storyboard has {len(board.steps)} steps, {limit} are allowed (max_steps)"
        return ErrorCode.INVALID_REQUEST, text
    longest = max(len(board.task), *(_length(panel) for panel in board.steps))
    if longest > settings.max_instruction_length:
        limit = settings.max_instruction_length
        text = (
            f"a text of the storyboard has {longest} characters, {limit} are allowed (max_instruction_length)"
        )
        return ErrorCode.INVALID_REQUEST, text
    if settings.on_model_failure == "fail" and board.failures:
        end = end_from_failure(board.failures[0])
        return end.error, end.message
    if settings.on_unverified != "publish":
        for panel in board.steps:
            if panel.step.prompt is not None and panel.image_status != "verified":
                text = f"no critic accepted a picture of step {panel.index} (on_unverified)"
                return ErrorCode.ATTEMPTS_EXHAUSTED, text
    return None


def fit(board: Board, max_attempts: int, longest: int) -> Board:
    """Give the storyboard with the engine's number of attempts and size of camera frames, in pixels."""
    source = board.source
    if source is not None:
        source = replace(source, image=source.image.within(longest), full_size=source.size)
    steps = tuple(replace(panel, max_attempts=max_attempts) for panel in board.steps)
    return replace(board, source=source, steps=steps)


def _length(panel: StepPanel) -> int:
    step = panel.step
    return max(len(text or "") for text in (step.name, step.instruction, step.prompt, step.auxiliary_text))
