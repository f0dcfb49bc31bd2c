"""One storyboard as one picture, for papers: first frame, then each step's goal image and its caption."""

from typing import Final

from goalreel.annotator.report.cards import span, told
from goalreel.annotator.report.claim_text import claim_lines
from goalreel.annotator.report.grid import INK, MUTED, Cell, Line, Mark, lay_out
from goalreel.annotator.report.model import EpisodeView
from goalreel.image import Image

CELL: Final = 300
"""Width, in pixels, that a picture gets at least where the sheet allows it."""
MARKS: Final = {
    "observed": Mark("dot", "#2b5d86"),
    "verified": Mark("tick", "#17603c"),
    "unverified": Mark("exclamation", "#8a5a00"),
    "failed": Mark("cross", "#9a2323"),
    "skipped": Mark("dash", "#535a62"),
    "text": Mark("lines", "#2b5d86"),
}


def _cells(view: EpisodeView) -> list[Cell]:
    board = view.storyboard
    start = Cell(board.task.image, (Line("first frame", 17, INK, 1),))
    cells = [start] if board.task.image is not None else []
    for number, (step, goal) in enumerate(zip(board.steps, board.goal_images(), strict=True), 1):
        when = "" if step.segment is None else f"{span(step.segment, view.fps)} · "
        mark = MARKS[step.status]
        lines = (
            Line(f"{number}. {step.step.name}", 17, INK, 3),
            Line(f"{when}{told(step)}", 15, mark.colour, 2),
            *(Line(line, 13, MUTED, 2) for line in claim_lines(step.claims)),
        )
        caption = step.step.auxiliary_text if step.status == "text" else None
        cells.append(Cell(goal, lines, mark, note=None if caption is None else Line(caption, 15, INK, 6)))
    return cells


def contact_sheet(view: EpisodeView, width: int = 1600) -> Image:
    """The episode's storyboard as one RGB picture, `width` pixels wide, as high as it needs.

    Raises:
        ValueError: `width` is too small to read anything.
    """
    about = " · ".join(filter(None, (view.title, view.seconds)))
    paragraphs = [Line(view.instruction, 24, INK, 3), Line(about, 15, MUTED, 1)]
    if view.message is not None:
        paragraphs.append(Line(view.message, 17, MARKS["failed"].colour, 4))
    return lay_out(paragraphs, _cells(view), width, CELL)
