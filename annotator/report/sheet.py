"""One storyboard as one picture, for papers: first frame, then each step's goal image and its caption."""

import functools
import math
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched, islice
from typing import Final, Literal, NamedTuple, cast

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from goalreel.annotator.report.cards import EpisodeView, claim_lines, span, told
from goalreel.critics.examination import word
from goalreel.image import Image

type Font = PIL.ImageFont.FreeTypeFont

_FAMILIES = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "Arial Unicode.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoEmoji-Regular.ttf",
    "Symbola.ttf",
    "Symbola_hint.ttf",
    "segoeui.ttf",
    "Arial.ttf",
)
SAMPLES = "中あ한🍎عשกകবதކⴰ"
"""A character of each of the scripts that `goalreel doctor` looks for."""
_EAST_ASIAN = {"Cjk": "Chinese", "Hiragana": "Japanese", "Katakana": "Japanese", "Hangul": "Korean"}
_LONGEST = 2000
"""Characters of one text looked at; far more than fits on any sheet."""

INK: Final = "#1f2327"
MUTED: Final = "#5b636b"
_EMPTY = "#efede7"
_GAP, _MARGIN, _BORDER = 20, 28, 6
CELL: Final = 300
"""Width, in pixels, that a picture gets at least where the sheet allows it."""


@dataclass(frozen=True, slots=True)
class Typeface:
    """The font that draws most of a text, and fonts with the characters that it lacks."""

    font: Font
    others: tuple[Font, ...] = ()

    @classmethod
    def of(cls, text: str, size: int) -> "Typeface":
        """Choose fonts of this machine for `text`, at `size` pixels."""
        shown = dict.fromkeys(text[:_LONGEST])
        characters = [c for c in shown if c.isprintable() and not c.isspace() and not _is_mark(c)]
        fonts = _fonts(characters, size)
        best = max(fonts, key=lambda font: sum(_draws(font, c) for c in characters))
        return cls(best, tuple(fonts))

    def runs(self, text: str) -> list[tuple[Font, str]]:
        """Cut `text` where the font changes; a mark, which needs its letter, stays with it."""
        runs: list[tuple[Font, str]] = []
        for character in text:
            font = runs[-1][0] if runs and _is_mark(character) else self._font(character)
            if runs and runs[-1][0] == font:
                runs[-1] = font, runs[-1][1] + character
            else:
                runs.append((font, character))
        return runs

    def getlength(self, text: str) -> float:
        """Measure the width of `text` in pixels."""
        return sum(font.getlength(run) for font, run in self.runs(text))

    def _font(self, character: str) -> Font:
        return next((f for f in (self.font, *self.others) if _draws(f, character)), self.font)


def without_font(characters: Collection[str], size: int = 20) -> list[str]:
    """List the scripts among `characters` that no font here can draw."""
    fonts = _fonts(characters, size)
    return sorted({_script(c) for c in characters if not any(_draws(font, c) for font in fonts)})


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _script(character: str) -> str:
    """Name the script of a letter as its Unicode name and Noto's fonts do."""
    word = unicodedata.name(character, "").partition(" ")[0]
    if word and unicodedata.category(character).startswith("S"):
        return "Symbols"
    return _EAST_ASIAN.get(word.title(), word.title())


@functools.lru_cache(maxsize=256)
def _loaded(family: str, size: int) -> Font | None:
    try:
        return PIL.ImageFont.truetype(family, size)
    except OSError:
        return None


def _fonts(characters: Collection[str], size: int) -> list[Font]:
    """The general fonts of this machine, those of the scripts of `characters`, and Pillow's own."""
    names = [*_FAMILIES, *sorted({f"NotoSans{_script(c)}-Regular.ttf" for c in characters})]
    own = cast(Font, PIL.ImageFont.load_default(size))
    return [*filter(None, (_loaded(name, size) for name in names)), own]


@functools.lru_cache(maxsize=65536)
def _draws(font: Font, character: str) -> bool:
    # Pillow does not expose the character map; a missing one is drawn as the font's empty box.
    return _mask(font, character) != _mask(font, "\U0010fffe")


def _mask(font: Font, character: str) -> bytes:
    return bytes(font.getmask(character))  # pyrefly: ignore[bad-argument-type]  (Pillow types no buffer)


def rtl(text: str) -> bool:
    """Tell if the first strongly directed character runs right to left."""
    kinds = (unicodedata.bidirectional(c) for c in text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def wrap(text: str, font: Typeface, width: int, lines: int) -> list[str]:
    """Break `text` into at most `lines` lines of at most `width` pixels; `…` marks what was cut."""
    printable = "".join(c if c.isprintable() else " " for c in text[:_LONGEST])
    broken = _lines(printable.split(), font, width)
    visible = list(islice(broken, lines))
    if next(broken, None) is not None or len(text) > _LONGEST:
        last = visible[-1]
        while last and font.getlength(last + "…") > width:
            last = last[:-1]
        visible[-1] = last + "…"
    return visible


def _lines(words: list[str], font: Typeface, width: int) -> Iterator[str]:
    line = ""
    for part in words:
        joined = f"{line} {part}" if line else part
        if font.getlength(joined) <= width:
            line = joined
            continue
        if line:
            yield line
        line = part
        while font.getlength(line) > width:
            fitting = bisect_right(range(1, len(line)), width, key=lambda n: font.getlength(line[:n]))
            cut = max(1, fitting)
            yield line[:cut]
            line = line[cut:]
    if line:
        yield line


class Line(NamedTuple):
    """A paragraph of one size (pixels) and colour."""

    text: str
    size: int
    colour: str
    most: int
    """Lines it may take when wrapped."""


class Mark(NamedTuple):
    """Drawn as shapes, so that it needs no font."""

    shape: Literal["tick", "dot", "exclamation", "cross", "dash", "lines"]
    colour: str


class Cell(NamedTuple):
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
    """
    inner = width - 2 * _MARGIN
    fitting = max(1, (inner + _GAP) // (cell + _GAP))
    rows = math.ceil(len(cells) / fitting)
    columns = math.ceil(len(cells) / rows) if rows else 1
    # A storyboard of few steps does not blow its pictures up beyond a third of the sheet.
    columns = max(columns, min(fitting, 3))
    shape = next((c.image.size for c in cells if c.image is not None), (4, 3))
    strips = [_row(row, columns, shape, width) for row in batched(cells, columns)]
    head = sum(_height(line, inner) for line in paragraphs) + _GAP // 2
    height = 2 * _MARGIN - _GAP + head + sum(strip.height for strip in strips)
    page = PIL.Image.new("RGB", (width, height), "white")
    top = _MARGIN
    for line in paragraphs:
        top = _text(PIL.ImageDraw.Draw(page), line, _MARGIN, top, inner)
    top += _GAP // 2
    for strip in strips:
        page.paste(strip, (0, top))
        top += strip.height
    return Image(np.array(page))


def _row(cells: Sequence[Cell], columns: int, shape: tuple[int, int], width: int) -> PIL.Image.Image:
    """Pictures on one base line, captions under them; a missing picture has the shape (w, h)."""
    inner = (width - 2 * _MARGIN - (columns - 1) * _GAP) // columns
    pictures = [_picture(cell, inner, shape) for cell in cells]
    head = _BORDER if any(cell.border for cell in cells) else 0
    tallest = head + max(picture.height for picture in pictures)
    captions = max(sum(_height(line, inner) for line in cell.lines) for cell in cells)
    strip = PIL.Image.new("RGB", (width, tallest + 10 + captions + _GAP), "white")
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
    font = Typeface.of(line.text, line.size)
    return font, tuple(wrap(line.text, font, width, line.most))


def _height(line: Line, width: int) -> int:
    return len(_laid(line, width)[1]) * round(line.size * 1.4) + 2


def _text(draw: PIL.ImageDraw.ImageDraw, line: Line, left: int, top: int, width: int) -> int:
    """Draw wrapped text and return the y below it; right-to-left text keeps to the right."""
    font, parts = _laid(line, width)
    for part in parts:
        x = left + width - font.getlength(part) if rtl("".join(parts)) else left
        for run_font, run in font.runs(part):
            foot = top + font.font.getmetrics()[0]
            draw.text((x, foot), run, fill=line.colour, font=run_font, anchor="ls")
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


MARKS: Final = {
    "observed": Mark("dot", "#2b5d86"),
    "accepted": Mark("tick", "#2b5d86"),
    "verified": Mark("tick", "#17603c"),
    "in doubt": Mark("exclamation", "#8a5a00"),
    "unjudged": Mark("exclamation", "#8a5a00"),
    "rejected": Mark("cross", "#9a2323"),
    "failed": Mark("cross", "#9a2323"),
    "skipped": Mark("dash", "#535a62"),
    "text": Mark("lines", "#2b5d86"),
}


def contact_sheet(view: EpisodeView) -> Image:
    """The episode's storyboard as one RGB picture, 1600 pixels wide, as high as it needs."""
    board = view.storyboard
    start = Cell(board.task.image, (Line("first frame", 17, INK, 1),))
    cells = [start] if board.task.image is not None else []
    for number, (step, goal) in enumerate(zip(board.steps, board.goal_images(), strict=True), 1):
        when = "" if step.segment is None else f"{span(step.segment, view.fps)} · "
        mark = MARKS[word(step, view.examination)]
        lines = (
            Line(f"{number}. {step.step.name}", 17, INK, 3),
            Line(f"{when}{told(step, view.examination)}", 15, mark.colour, 2),
            *(Line(line, 13, MUTED, 2) for line in claim_lines(step.claims)),
        )
        caption = step.step.auxiliary_text if step.status == "text" else None
        cells.append(Cell(goal, lines, mark, note=None if caption is None else Line(caption, 15, INK, 6)))
    about = " · ".join(filter(None, (view.title, view.seconds)))
    paragraphs = [Line(view.instruction, 24, INK, 3), Line(about, 15, MUTED, 1)]
    if view.examination is not None:
        paragraphs.append(Line(view.examination.line, 13, MUTED, 2))
    if view.message is not None:
        paragraphs.append(Line(view.message, 17, MARKS["failed"].colour, 4))
    return lay_out(paragraphs, cells, 1600, CELL)
