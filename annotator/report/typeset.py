"""Text on a contact sheet: whatever fonts the machine has, wrapped, in any script Pillow can lay out."""

import functools
import unicodedata
from collections.abc import Iterator

import PIL.ImageFont

type Font = PIL.ImageFont.FreeTypeFont | PIL.ImageFont.ImageFont

_FAMILIES = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "Arial Unicode.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansArabic-Regular.ttf",
    "NotoSansHebrew-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "NotoEmoji-Regular.ttf",
    "Symbola.ttf",
    "segoeui.ttf",
    "Arial.ttf",
)
_LONGEST = 2000
"""Characters of one text looked at; far more than fits on any sheet."""


@functools.cache
def fonts(size: int) -> tuple[Font, ...]:
    """The fonts of this machine at `size` pixels; Pillow's own, which always exists, is the last."""
    loaded: list[Font] = []
    for family in _FAMILIES:
        try:
            loaded.append(PIL.ImageFont.truetype(family, size))
        except OSError:
            continue
    return (*loaded, PIL.ImageFont.load_default(size))


def font_for(text: str, size: int) -> Font:
    """The font with a shape for most of the characters of `text`; the first of equals."""
    characters = {c for c in text[:_LONGEST] if c.isprintable() and not c.isspace()}
    return max(fonts(size), key=lambda font: sum(_draws(font, c) for c in characters))


@functools.lru_cache(maxsize=65536)
def _draws(font: Font, character: str) -> bool:
    # Pillow does not expose the character map; a missing one is drawn as the font's empty box.
    return _mask(font, character) != _mask(font, "\U0010fffe")


def _mask(font: Font, character: str) -> bytes:
    return bytes(font.getmask(character))  # pyright: ignore[reportArgumentType]  (Pillow types no buffer)


def rtl(text: str) -> bool:
    """Whether the first strongly directed character runs right to left."""
    kinds = (unicodedata.bidirectional(c) for c in text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def wrap(text: str, font: Font, width: int, lines: int) -> list[str]:
    """Break `text` into at most `lines` lines of at most `width` pixels; `…` marks what was cut."""
    printable = "".join(c if c.isprintable() else " " for c in text[:_LONGEST])
    broken = _lines(printable.split(), font, width)
    visible = [line for _, line in zip(range(lines), broken, strict=False)]
    if next(broken, None) is not None or len(text) > _LONGEST:
        last = visible[-1]
        while last and font.getlength(last + "…") > width:
            last = last[:-1]
        visible[-1] = last + "…"
    return visible


def _lines(text_words: list[str], font: Font, width: int) -> Iterator[str]:
    line = ""
    for word in text_words:
        joined = f"{line} {word}" if line else word
        if font.getlength(joined) <= width:
            line = joined
            continue
        if line:
            yield line
        line = word
        while font.getlength(line) > width:
            cut = _cut(line, font, width)
            yield line[:cut]
            line = line[cut:]
    if line:
        yield line


def _cut(word: str, font: Font, width: int) -> int:
    """The number of characters of a too long word that fit; at least one."""
    low, high = 1, len(word)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if font.getlength(word[:middle]) <= width else (low, middle)
    return low
