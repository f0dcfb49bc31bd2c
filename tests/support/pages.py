"""The documentation's code: its blocks, and its commands as words."""

import io
import re
import shlex
from contextlib import redirect_stdout
from typing import NamedTuple

from support.places import ROOT


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    code: str

    @property
    def commands(self) -> list[list[str]]:
        """The lines of a shell block as words, comments dropped; a line that ends in \\ goes on."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def text_of(page: str) -> str:
    """The text of a page, by its path in the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[Block]:
    """The fenced blocks of a page, in order; of these languages only, if any are given."""
    matches = re.findall(r"```(\w+)\n(.*?)```", text_of(page), re.DOTALL)
    return [Block(*match) for match in matches if not languages or match[0] in languages]


def commands(page: str, language: str = "sh") -> list[list[str]]:
    """The commands of a page's shell blocks as words."""
    return [words for block in blocks(page, language) for words in block.commands]


def run_python(code: str) -> str:
    """Run a block as a script, and return what it prints."""
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "documentation", "exec"), {"__name__": "__main__"})
    return printed.getvalue()
