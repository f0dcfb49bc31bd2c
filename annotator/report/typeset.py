"""Text on a contact sheet: whatever fonts the machine has, wrapped, in any script Pillow can lay out."""

import functools
import logging
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import PIL.ImageFont

log = logging.getLogger(__name__)

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
_EAST_ASIAN = {"Cjk": "Chinese", "Hiragana": "Japanese", "Katakana": "Japanese", "Hangul": "Korean"}
PACKAGES = ("fonts-noto-cjk", "fonts-symbola", "fonts-noto-core")
"""Debian's packages of fonts: for Chinese, Japanese and Korean, for symbols, and for all other scripts."""
SAMPLES = "中あ한🍎عשกकবதకⴰ"
"""A character of each of the scripts that `goalreel doctor` looks for."""
_LONGEST = 2000
"""Characters of one text looked at; far more than fits on any sheet."""


@dataclass(frozen=True, slots=True)
class Typeface:
    """The font that suits a text best, and fonts with the characters that it lacks."""

    font: Font
    others: tuple[Font, ...] = ()

    def runs(self, text: str) -> list[tuple[Font, str]]:
        """Cut `text` where the font changes."""
        if not self.others:
            return [(self.font, text)]
        runs: list[tuple[Font, str]] = []
        for c in text:
            # A mark stays with its letter: alone it is drawn on a dotted circle.
            font = runs[-1][0] if runs and _is_mark(c) else self._font(c)
            if runs and runs[-1][0] is font:
                runs[-1] = font, runs[-1][1] + c
            else:
                runs.append((font, c))
        return runs

    @property
    def ascent(self) -> int:
        """From the top of a line to the foot of its letters, in pixels."""
        return self.font.getmetrics()[0]

    def getlength(self, text: str) -> float:
        """The width of `text` in pixels."""
        return sum(font.getlength(run) for font, run in self.runs(text))

    def _font(self, character: str) -> Font:
        return next((f for f in (self.font, *self.others) if _draws(f, character)), self.font)


def typeface(text: str, size: int) -> Typeface:
    """The fonts of this machine for `text` at `size` pixels; what none of them can draw becomes boxes."""
    characters = _visible(text[:_LONGEST])
    fonts = _fonts(characters, size)
    best = max(fonts, key=lambda font: sum(_draws(font, c) for c in characters))
    lacking = [c for c in characters if not _draws(best, c)]
    return Typeface(best, tuple(font for font in fonts if any(_draws(font, c) for c in lacking)))


def drawable(text: str, size: int) -> str:
    """`text`, where no font can draw a part with its name in brackets: `[Chinese text]`, `[red apple]`.

    A warning names the missing scripts and their packages, once a process for the same ones.
    """
    text = text[:_LONGEST]
    scripts = without_font(_visible(text), size)
    if not scripts:
        return text
    _warn(tuple(scripts.items()))
    fonts = _fonts(_visible(text), size)

    def missing(character: str) -> str:
        if not _visible(character) or any(_draws(font, character) for font in fonts):
            return ""
        script = _script(character)
        if script == "Symbols":
            return f"[{unicodedata.name(character).lower()}]"
        if unicodedata.category(character).startswith("P"):
            return " "
        # Japanese is written with Chinese characters, too.
        script = "Hiragana" if script == "Cjk" and "Japanese" in scripts else script
        return f"[{_EAST_ASIAN.get(script, script)} text]"

    return "".join(name or "".join(run) for name, run in groupby(text, missing))


def without_font(characters: Collection[str], size: int = 20) -> dict[str, str]:
    """The scripts among `characters` that no font here can draw, each with the Debian package that can."""
    fonts = _fonts(characters, size)
    boxes = [c for c in characters if not any(_draws(font, c) for font in fonts)]
    scripts = {_script(c) for c in boxes if unicodedata.category(c)[0] in "LNS"} - {""}
    return {_EAST_ASIAN.get(script, script): _package(script) for script in sorted(scripts)}


@functools.cache
def _warn(scripts: tuple[tuple[str, str], ...]) -> None:
    if scripts:
        log.warning(
            "no font here can draw %s, so contact sheets name such text in brackets: "
            "install %s (Debian's name)",
            ", ".join(script for script, _ in scripts),
            " ".join(dict.fromkeys(package for _, package in scripts)),
        )


def _visible(text: str) -> list[str]:
    return [c for c in dict.fromkeys(text) if c.isprintable() and not c.isspace() and not _is_mark(c)]


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _script(character: str) -> str:
    """The script of a letter as its Unicode name and Noto's fonts call it."""
    word = unicodedata.name(character, "").partition(" ")[0]
    return "Symbols" if word and unicodedata.category(character).startswith("S") else word.title()


def _package(script: str) -> str:
    return PACKAGES[0 if script in _EAST_ASIAN else 1 if script == "Symbols" else 2]


def _fonts(characters: Collection[str], size: int) -> tuple[Font, ...]:
    """The general fonts of this machine, and those of the scripts that the general ones lack."""
    general = _general_fonts(size)
    scripts = {_script(c) for c in characters if not any(_draws(font, c) for font in general)}
    script_fonts = (_load(f"NotoSans{script}-Regular.ttf", size) for script in sorted(scripts))
    return (*general, *filter(None, script_fonts))


@functools.cache
def _general_fonts(size: int) -> tuple[Font, ...]:
    loaded = filter(None, (_load(family, size) for family in _FAMILIES))
    return (*loaded, cast(Font, PIL.ImageFont.load_default(size)))  # which always exists


@functools.cache
def _load(family: str, size: int) -> Font | None:
    try:
        return PIL.ImageFont.truetype(family, size)
    except OSError:
        return None


@functools.lru_cache(maxsize=65536)
def _draws(font: Font, character: str) -> bool:
    # Pillow does not expose the character map; a missing one is drawn as the font's empty box.
    return _mask(font, character) != _mask(font, "\U0010fffe")


def _mask(font: Font, character: str) -> bytes:
    return bytes(font.getmask(character))  # pyrefly: ignore[bad-argument-type]  (Pillow types no buffer)


def rtl(text: str) -> bool:
    """Whether the first strongly directed character runs right to left."""
    kinds = (unicodedata.bidirectional(c) for c in text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def wrap(text: str, font: Typeface, width: int, lines: int) -> list[str]:
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


def _lines(text_words: list[str], font: Typeface, width: int) -> Iterator[str]:
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


def _cut(word: str, font: Typeface, width: int) -> int:
    """The number of characters of a too long word that fit; at least one."""
    low, high = 1, len(word)
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if font.getlength(word[:middle]) <= width else (low, middle)
    return low
