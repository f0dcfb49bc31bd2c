"""Find the {...} in a text, before anything reads them as JSON."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_AFTER_STRING = re.compile(r"\s*(?:[,:}\]]|\Z)")


@dataclass(frozen=True)
class JsonBlock:
    """An outermost {...} of a text, which ends before `end`; one that is cut off is not `whole`."""

    text: str
    end: int
    whole: bool


def find_blocks(text: str) -> Iterator[JsonBlock]:
    """Every outermost {...}; the last may be cut off, unless `</answer>` shows that it is complete."""
    at = text.find("{")
    while at >= 0:
        end, _ = _close(text, at)
        if end is None:
            tag = text.find("</answer>", at)
            whole = tag >= 0 and not _close(text[:tag], at)[1]
            end = tag if whole else len(text)
            yield JsonBlock(text[at:end], end, whole)
            return
        yield JsonBlock(text[at:end], end, True)
        at = text.find("{", end)


def _close(text: str, start: int) -> tuple[int | None, bool]:
    """(the end of the bracket at `start`, or None; whether the text ends inside a string)."""
    depth, quote, previous, at = 0, "", "", start
    while at < len(text):
        c = text[at]
        if quote:
            if c == "\\":
                at += 1
            elif c == quote and _AFTER_STRING.match(text, at + 1):
                quote = ""
        elif c in "\"'" and previous in ("{", "[", ",", ":"):
            quote = c
        elif c in "{[":
            depth += 1
        elif c in "}]" and (depth > 1 or c == "}"):  # otherwise it belongs to a text with quotes
            depth -= 1
            if depth == 0:
                return at + 1, False
        previous = previous if c.isspace() else c
        at += 1
    return None, bool(quote)
