"""Pictures in rows with wrapped captions under them: the page that every contact sheet is laid out on."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import PIL.Image
import PIL.ImageDraw

from goalreel.annotator.report.typeset import Typeface, drawable, rtl, typeface, wrap
from goalreel.image import Image

INK: Final = "#1f2327"
MUTED: Final = "#5b636b"
_GAP, _MARGIN = 20, 28
_EMPTY = "#efede7"
_BORDER = 6


@dataclass(frozen=True, slots=True)
class Line:
    """A paragraph of one size (pixels) and colour."""

    text: str
    size: int
    colour: str
    most: int
    """Lines it may take when wrapped."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Drawn as shapes, so that it needs no font."""

    shape: Literal["tick", "dot", "exclamation", "cross", "dash", "lines"]
    colour: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One picture with its captions."""

    image: Image | None
    lines: tuple[Line, ...]
    mark: Mark | None = None
    """In the picture's upper right corner."""
    border: str | None = None
    """Colour of a frame around the picture."""
    note: Line | None = None
    """Written in the middle of a missing picture."""


def lay_out(paragraphs: Sequence[Line], cells: Sequence[Cell], width: int, cell: int) -> Image:
    """One RGB picture, `width` pixels wide and as high as it needs, on white.

    `cell` is the width in pixels that a picture gets at least where the sheet allows it.

    Raises:
        ValueError: `width` is too small to read anything.
    """
    if width < 160:
        raise ValueError(f"a contact sheet is at least 160 pixels wide, got {width}")
    strips = [_paragraph(line, width) for line in paragraphs]
    strips.append(_blank(width, _GAP // 2))
    fitting = max(1, (width - 2 * _MARGIN + _GAP) // (cell + _GAP))
    rows = math.ceil(len(cells) / fitting)
    columns = math.ceil(len(cells) / rows) if rows else 1
    # A storyboard of few steps does not blow its pictures up beyond a third of the sheet.
    columns = max(columns, min(fitting, 3))
    shape = next((c.image.size for c in cells if c.image is not None), (4, 3))
    strips += [_row(cells[i : i + columns], columns, shape, width) for i in range(0, len(cells), columns)]
    return _stack(strips, width)


def _stack(strips: Sequence[PIL.Image.Image], width: int) -> Image:
    page = _blank(width, 2 * _MARGIN - _GAP + sum(strip.height for strip in strips))
    top = _MARGIN
    for strip in strips:
        page.paste(strip, (0, top))
        top += strip.height
    return Image(np.array(page))


def _blank(width: int, height: int) -> PIL.Image.Image:
    return PIL.Image.new("RGB", (width, height), "white")


def _paragraph(line: Line, width: int) -> PIL.Image.Image:
    inner = width - 2 * _MARGIN
    strip = _blank(width, _height(line, inner))
    _text(PIL.ImageDraw.Draw(strip), line, _MARGIN, 0, inner)
    return strip


def _row(cells: Sequence[Cell], columns: int, shape: tuple[int, int], width: int) -> PIL.Image.Image:
    """Pictures on one base line, captions under them; a missing picture has the shape (w, h)."""
    inner = (width - 2 * _MARGIN - (columns - 1) * _GAP) // columns
    pictures = [_picture(cell, inner, shape) for cell in cells]
    head = _BORDER if any(cell.border for cell in cells) else 0
    tallest = head + max(picture.height for picture in pictures)
    captions = max(sum(_height(line, inner) for line in cell.lines) for cell in cells)
    strip = _blank(width, tallest + 10 + captions + _GAP)
    draw = PIL.ImageDraw.Draw(strip)
    for i, (cell, picture) in enumerate(zip(cells, pictures, strict=True)):
        x, top = _MARGIN + i * (inner + _GAP), tallest - picture.height
        strip.paste(picture, (x, top))
        if cell.border is not None:
            box = (x - _BORDER, top - _BORDER, x + picture.width + _BORDER - 1, tallest + _BORDER - 1)
            draw.rectangle(box, outline=cell.border, width=_BORDER)
        if cell.mark is not None:
            _mark(draw, x + inner - 20, top + 20, cell.mark)
        y = tallest + 10
        for line in cell.lines:
            y = _text(draw, line, x, y, inner)
    return strip


def _picture(cell: Cell, width: int, shape: tuple[int, int]) -> PIL.Image.Image:
    """The picture `width` pixels wide and at most twice as high; a grey field where there is none."""
    wide, high = shape if cell.image is None else cell.image.size
    scale = min(width / wide, 2 * width / high)
    size = max(1, round(wide * scale)), max(1, round(high * scale))
    if cell.image is not None:
        picture = PIL.Image.fromarray(cell.image.pixels)
        return picture.resize(size, PIL.Image.Resampling.LANCZOS, reducing_gap=1.5)
    field = PIL.Image.new("RGB", size, _EMPTY)
    if cell.note is not None:
        inner, draw = max(1, size[0] - 16), PIL.ImageDraw.Draw(field)
        font, parts = _laid(cell.note, inner)
        x = 8 + (inner - max(map(font.getlength, parts), default=0)) / 2
        _text(draw, cell.note, round(x), (size[1] - _height(cell.note, inner)) // 2, inner)
    return field


@functools.lru_cache(maxsize=1024)
def _laid(line: Line, width: int) -> tuple[Typeface, tuple[str, ...]]:
    """The fonts for a paragraph and its wrapped lines."""
    text = drawable(line.text, line.size)
    font = typeface(text, line.size)
    return font, tuple(wrap(text, font, width, line.most))


def _height(line: Line, width: int) -> int:
    return len(_laid(line, width)[1]) * round(line.size * 1.4) + 2


def _text(draw: PIL.ImageDraw.ImageDraw, line: Line, left: int, top: int, width: int) -> int:
    """Draw wrapped text and return the y below it; right-to-left text keeps to the right."""
    font, parts = _laid(line, width)
    for part in parts:
        x = left + width - font.getlength(part) if rtl("".join(parts)) else left
        for run_font, run in font.runs(part):
            draw.text((x, top + font.ascent), run, fill=line.colour, font=run_font, anchor="ls")
            x += run_font.getlength(run)
        top += round(line.size * 1.4)
    return top + 2


def _mark(draw: PIL.ImageDraw.ImageDraw, x: int, y: int, mark: Mark) -> None:
    draw.ellipse((x - 12, y - 12, x + 12, y + 12), fill=mark.colour, outline="white", width=2)
    strokes = {
        "tick": [((x - 5, y), (x - 1, y + 4), (x + 6, y - 5))],
        "dot": [((x - 2, y), (x + 2, y)), ((x, y - 2), (x, y + 2))],
        "exclamation": [((x, y - 6), (x, y + 2)), ((x, y + 5), (x, y + 7))],
        "cross": [((x - 4, y - 4), (x + 4, y + 4)), ((x - 4, y + 4), (x + 4, y - 4))],
        "dash": [((x - 5, y), (x + 5, y))],
        "lines": [((x - 5, y + at), (x + 5, y + at)) for at in (-5, 0, 5)],
    }
    for stroke in strokes[mark.shape]:
        draw.line(stroke, fill="white", width=3, joint="curve")
