"""The contact sheet of a storyboard under way: one picture that any image viewer shows, in any script."""

from typing import Final

from goalreel.annotator.report.grid import INK, MUTED, Cell, Line, Mark, lay_out
from goalreel.image import Image
from goalreel.streaming.board import Board, StepPanel

CELL: Final = 180
"""Width, in pixels, that a picture gets at least where the sheet allows it: several to a row on a screen."""
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
    "verified": "no picture: words only",
    "unverified": "no picture: words only",
    "failed": "no picture came about",
}


def compose(board: Board, width: int) -> Image:
    """The board as one RGB picture, `width` pixels wide, as high as it needs.

    The active step is framed, completed ones are ticked; captions are the plan's own words.

    Raises:
        ValueError: `width` is too small to read anything.
    """
    active = board.active
    about = [board.state.replace("empty", "no plan yet")]
    if active is not None:
        about.append(f"step {active.index + 1} of {len(board.steps)}")
    if board.revision:
        about.append(f"plan {board.revision + 1}")
    paragraphs = (
        Line(board.task.strip() or "no task", 24, INK, 3),
        Line(" · ".join(about), 15, MUTED, 1),
    )
    source = board.source
    start = () if source is None else (Cell(source.image, (Line("planned from", 17, INK, 1),)),)
    return lay_out(paragraphs, (*start, *map(_cell, board.steps)), width, CELL)


def _cell(panel: StepPanel) -> Cell:
    step, colour = panel.step, _COLOURS[panel.status]
    lines = [Line(f"{panel.index + 1}. {step.name}", 17, INK, 3)]
    if step.instruction.strip() != step.name.strip():
        lines.append(Line(step.instruction, 15, MUTED, 3))
    lines.append(Line(state(panel), 15, colour, 2))
    return Cell(
        panel.goal_image,
        tuple(lines),
        _MARKS.get(panel.status),
        ACTIVE if panel.status == "active" else None,
        _note(panel),
    )


def _note(panel: StepPanel) -> Line:
    """In place of a missing picture; of a step that was planned without one, its words."""
    words = panel.step.auxiliary_text
    if panel.step.prompt is None and words:
        return Line(words, 15, INK, 6)
    return Line(_NOTES[panel.image_status], 15, MUTED, 3)


def state(panel: StepPanel) -> str:
    """How a step stands, in words: its execution, its picture, and the attempts it took if more than one."""
    if panel.image_status == "none":
        return panel.status
    if panel.step.prompt is None:
        return f"{panel.status} · in words"
    tries = f" · {panel.attempts} of {panel.max_attempts} attempts" if panel.attempts > 1 else ""
    return f"{panel.status} · {panel.image_status}{tries}"
