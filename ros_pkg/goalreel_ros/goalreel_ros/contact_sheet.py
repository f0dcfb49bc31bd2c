"""The contact sheet of a storyboard under way: one picture for any image viewer, in any script."""

from typing import Final

from goalreel.annotator.report.claim_text import claim_lines
from goalreel.annotator.report.grid import INK, MUTED, Cell, Line, Mark, lay_out
from goalreel.image import Image
from goalreel.streaming.board import Board
from goalreel.streaming.step_panel import ModelNames, StepPanel

CELL: Final = 180
"""Preferred width of a picture in pixels, so that a screen holds several in a row."""
ACTIVE: Final = "#2b5d86"
_COLOURS = {
    "pending": MUTED,
    "active": ACTIVE,
    "completed": "#17603c",
    "skipped": "#535a62",
    "failed": "#9a2323",
}
_MARKS = {
    "completed": Mark("tick", _COLOURS["completed"]),
    "skipped": Mark("dash", _COLOURS["skipped"]),
    "failed": Mark("cross", _COLOURS["failed"]),
}
_NOTES = {
    "none": "not rendered yet",
    "generating": "rendering …",
    "validating": "being checked …",
    "text": "no picture: words only",
    "verified": "no picture",
    "unverified": "no picture: words only",
    "failed": "no picture came about",
}


def compose(board: Board, width: int) -> Image:
    """Draw the board as one RGB picture, `width` pixels wide and as high as needed.

    The active step is framed and completed ones are ticked. A plan that lost a model says so. The captions
    are the plan's own texts.

    Raises:
        ValueError: `width` is too small for readable text.
    """
    active = board.active
    facts: list[str] = [board.state.replace("empty", "no plan yet")]
    if active is not None:
        facts.append(f"step {active.index + 1} of {len(board.steps)}")
    if board.revision:
        facts.append(f"plan {board.revision + 1}")
    paragraphs = [Line(board.task.strip() or "no task", 24, INK, 3), Line(" · ".join(facts), 15, MUTED, 1)]
    if board.degraded:
        paragraphs.append(Line(board.degraded, 17, _COLOURS["failed"], 3))
    source = board.source
    start = () if source is None else (Cell(source.image, (Line("planned from", 17, INK, 1),)),)
    cells = (_cell(panel, board.models) for panel in board.steps)
    return lay_out(paragraphs, (*start, *cells), width, CELL)


def _cell(panel: StepPanel, models: ModelNames) -> Cell:
    step, colour = panel.step, _COLOURS[panel.status]
    lines = [Line(f"{panel.index + 1}. {step.name}", 17, INK, 3)]
    if step.instruction.strip() != step.name.strip():
        lines.append(Line(step.instruction, 15, MUTED, 3))
    lines.append(Line(state(panel), 15, colour, 2))
    lines += (Line(line, 13, MUTED, 2) for line in claim_lines(panel.claims(models)))
    return Cell(
        panel.goal_image,
        tuple(lines),
        _MARKS.get(panel.status),
        ACTIVE if panel.status == "active" else None,
        _note(panel),
    )


def _note(panel: StepPanel) -> Line:
    """The text in place of a missing picture: the auxiliary text of a step planned without one."""
    caption = panel.step.auxiliary_text
    if panel.step.prompt is None and caption:
        return Line(caption, 15, INK, 6)
    return Line(_NOTES[panel.image_status], 15, MUTED, 3)


def state(panel: StepPanel) -> str:
    """Describe a step's state: its execution, its picture, and its attempts if there were several."""
    if panel.image_status == "none":
        return panel.status
    if panel.step.prompt is None:
        return f"{panel.status} · in words"
    tries = f" · {panel.attempts} of {panel.max_attempts} attempts" if panel.attempts > 1 else ""
    return f"{panel.status} · {panel.image_status}{tries}"
