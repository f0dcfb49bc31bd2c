"""One storyboard as one picture, for papers: first frame, then each step's goal image and its caption."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import PIL.Image
import PIL.ImageDraw

from goalreel.annotator.image import Image
from goalreel.annotator.report.cards import span
from goalreel.annotator.report.model import EpisodeView
from goalreel.annotator.report.typeset import font_for, rtl, wrap

CELL: Final = 300
"""Width, in pixels, that a picture gets at least where the sheet allows it."""
_GAP, _MARGIN = 20, 28
_INK, _MUTED, _EMPTY = "#1f2327", "#5b636b", "#efede7"
_COLOURS = {"verified": "#17603c", "unverified": "#8a5a00", "failed": "#9a2323", "skipped": "#535a62"}


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    size: int
    colour: str
    most: int
    """Lines it may take when wrapped."""


@dataclass(frozen=True, slots=True)
class _Cell:
    image: Image | None
    status: str | None
    lines: tuple[_Line, ...]


def _cells(view: EpisodeView) -> list[_Cell]:
    board = view.storyboard
    start = _Cell(board.task.image, None, (_Line("first frame", 17, _INK, 1),))
    cells = [start] if board.task.image is not None else []
    for number, step in enumerate(board.steps, 1):
        when = "" if step.segment is None else f"{span(step.segment, view.fps)} · "
        lines = (
            _Line(f"{number}. {step.step.name}", 17, _INK, 3),
            _Line(f"{when}{step.status}", 15, _COLOURS[step.status], 2),
        )
        cells.append(_Cell(step.goal_image, step.status, lines))
    return cells


class _Sheet:
    """A white page that grows downwards."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.page = PIL.Image.new("RGB", (width, _MARGIN), "white")

    def grow(self, height: int) -> PIL.ImageDraw.ImageDraw:
        taller = PIL.Image.new("RGB", (self.width, self.page.height + height), "white")
        taller.paste(self.page)
        self.page = taller
        return PIL.ImageDraw.Draw(taller)

    def row(self, cells: list[_Cell], columns: int, shape: tuple[int, int]) -> None:
        """Pictures on one base line, captions under them; a missing picture has the shape (w, h)."""
        width = (self.width - 2 * _MARGIN - (columns - 1) * _GAP) // columns
        pictures = [_fit(cell.image, width, shape) for cell in cells]
        top, tallest = self.page.height, max(picture.height for picture in pictures)
        captions = max(sum(_height(line, width) for line in cell.lines) for cell in cells)
        draw = self.grow(tallest + 10 + captions + _GAP)
        for i, (cell, picture) in enumerate(zip(cells, pictures, strict=True)):
            left = _MARGIN + i * (width + _GAP)
            self.page.paste(picture, (left, top + tallest - picture.height))
            if cell.status is not None:
                _mark(draw, left + width - 20, top + tallest - picture.height + 20, cell.status)
            y = top + tallest + 10
            for line in cell.lines:
                y = _text(draw, line, left, y, width)

    def paragraph(self, line: _Line) -> None:
        width = self.width - 2 * _MARGIN
        top = self.page.height
        _text(self.grow(_height(line, width)), line, _MARGIN, top, width)


def _fit(image: Image | None, width: int, shape: tuple[int, int]) -> PIL.Image.Image:
    """The picture `width` pixels wide and at most twice as high; a grey field where there is none."""
    wide, high = shape if image is None else image.size
    scale = min(width / wide, 2 * width / high)
    size = max(1, round(wide * scale)), max(1, round(high * scale))
    if image is None:
        return PIL.Image.new("RGB", size, _EMPTY)
    return PIL.Image.fromarray(image.pixels).resize(size, PIL.Image.Resampling.LANCZOS)


def _height(line: _Line, width: int) -> int:
    wrapped = wrap(line.text, font_for(line.text, line.size), width, line.most)
    return len(wrapped) * round(line.size * 1.4) + 2


def _text(draw: PIL.ImageDraw.ImageDraw, line: _Line, left: int, top: int, width: int) -> int:
    """Draw wrapped text and return the y below it; right-to-left text keeps to the right."""
    font = font_for(line.text, line.size)
    for part in wrap(line.text, font, width, line.most):
        x = left + width - font.getlength(part) if rtl(line.text) else left
        draw.text((x, top), part, fill=line.colour, font=font)
        top += round(line.size * 1.4)
    return top + 2


def _mark(draw: PIL.ImageDraw.ImageDraw, x: int, y: int, status: str) -> None:
    """A status mark drawn as shapes, so that it needs no font: tick, exclamation mark, cross or dash."""
    draw.ellipse((x - 12, y - 12, x + 12, y + 12), fill=_COLOURS[status], outline="white", width=2)
    strokes = {
        "verified": [((x - 5, y), (x - 1, y + 4), (x + 6, y - 5))],
        "unverified": [((x, y - 6), (x, y + 2)), ((x, y + 5), (x, y + 7))],
        "failed": [((x - 4, y - 4), (x + 4, y + 4)), ((x - 4, y + 4), (x + 4, y - 4))],
        "skipped": [((x - 5, y), (x + 5, y))],
    }
    for stroke in strokes[status]:
        draw.line(stroke, fill="white", width=3, joint="curve")


def contact_sheet(view: EpisodeView, width: int = 1600) -> Image:
    """The episode's storyboard as one RGB picture, `width` pixels wide, as high as it needs.

    Raises:
        ValueError: `width` is too small to read anything.
    """
    if width < 160:
        raise ValueError(f"a contact sheet is at least 160 pixels wide, got {width}")
    sheet = _Sheet(width)
    sheet.paragraph(_Line(view.instruction, 24, _INK, 3))
    about = " · ".join(filter(None, (view.title, view.seconds)))
    sheet.paragraph(_Line(about, 15, _MUTED, 1))
    if view.message is not None:
        sheet.paragraph(_Line(view.message, 17, _COLOURS["failed"], 4))
    sheet.grow(_GAP // 2)
    cells = _cells(view)
    fitting = max(1, (width - 2 * _MARGIN + _GAP) // (CELL + _GAP))
    rows = math.ceil(len(cells) / fitting)
    columns = math.ceil(len(cells) / rows) if rows else 1
    # A storyboard of few steps does not blow its pictures up beyond a third of the sheet.
    columns = max(columns, min(fitting, 3))
    shape = next((cell.image.size for cell in cells if cell.image is not None), (4, 3))
    for i in range(0, len(cells), columns):
        sheet.row(cells[i : i + columns], columns, shape)
    sheet.grow(_MARGIN - _GAP)
    return Image(np.array(sheet.page))
