"""Every `goalreel` command on a page, or among the examples of help, has a name and options that exist."""

import re
import shlex
from collections.abc import Iterator

import pytest
import site_commands
import typer.main
from support.pages import text_of
from support.places import ROOT
from typer.core import TyperGroup

from goalreel.cli.main import app

HELP = "docs/reference/cli.md"
WRITTEN = [page for folder in ("docs", "lab") for page in sorted((ROOT / folder).rglob("*.md"))]
PAGES = ["README.md", HELP, *(page.relative_to(ROOT).as_posix() for page in WRITTEN)]
COMMANDS = typer.main.get_command(app)
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def printed_commands(page: str) -> Iterator[list[str]]:
    """The arguments of each `goalreel` command in the shell blocks of a page."""
    text = site_commands.page() if page == HELP else text_of(page)
    shell = (code for language, code in FENCE.findall(text) if language in ("", "sh", "bash"))
    for code in shell:
        for line in code.replace("\\\n", " ").replace("$(which goalreel)", "; goalreel").splitlines():
            tokens = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
            tokens.whitespace_split = True
            words: list[str] = []
            for word in (*tokens, ";"):
                if set(word) <= set("|&;<>()"):
                    if words[:1] == ["goalreel"]:
                        yield words[1:]
                    words = []
                elif words or not re.match(r"[A-Z_]+=", word):
                    words.append(word)


@pytest.mark.parametrize("page", PAGES)
def test_every_printed_command_has_options_that_exist(page):
    lines = list(printed_commands(page))
    assert len(lines) > {HELP: 50, "README.md": 2}.get(page, -1)
    for arguments in lines:
        command, rest = COMMANDS, list(arguments)
        context = typer.Context(command, info_name="goalreel")
        while isinstance(command, TyperGroup):
            _, command, rest = command.resolve_command(context, rest)
            context = typer.Context(command, context, info_name=command.name, **command.context_settings)
        command.make_parser(context).parse_args(rest)
