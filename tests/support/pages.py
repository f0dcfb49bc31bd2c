"""The documentation's code: its blocks, and its commands as words."""

import re
import shlex
from typing import NamedTuple

from support.places import ROOT


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    code: str


def text_of(page: str) -> str:
    """The text of a page, by its path in the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[Block]:
    """The fenced blocks of a page, in order; of these languages only, if any are given."""
    matches = re.findall(r"```(\w+)\n(.*?)```", text_of(page), re.DOTALL)
    return [Block(*match) for match in matches if not languages or match[0] in languages]


def commands(page: str, language: str = "sh") -> list[list[str]]:
    """The lines of a page's shell blocks as words, comments dropped."""
    codes = (block.code.replace("\\\n", "") for block in blocks(page, language))
    lines = (line for code in codes for line in code.strip().splitlines())
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_python(code: str) -> None:
    """Run a block as a script."""
    exec(compile(code, "documentation", "exec"), {"__name__": "__main__"})
