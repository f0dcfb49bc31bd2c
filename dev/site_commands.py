"""The page of commands: a heading, examples and a table of options for each, from the command line itself."""

import re
from collections.abc import Iterator
from typing import Any

import typer
import typer.main

from goalreel.cli.main import app

EXAMPLES = re.compile(r"^Examples?:\s+((?:-\s+)?`.*)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"`([^`]*)`,? ?((?:(?!\n\n|^- ).)*)", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"<(?:list\[)?(\w+)\]?(?: range)?>")
PAGE = re.compile(r"(?<![\w/])docs/([\w/-]+\.md)")  # not lab/docs/


def page() -> str:
    """Make the page, as Markdown."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="goalreel")
    text = "\n".join(["# Commands", "", *_describe(group, context)])
    return link_pages(text)


def link_pages(text: str) -> str:
    """Link the pages of docs/ that a text names by their paths."""
    return PAGE.sub(r"[docs/\1](../\1)", text)


def _describe(command: Any, context: typer.Context) -> Iterator[str]:
    """Yield the lines of a command and of those below it."""
    yield command.help or ""
    yield ""
    yield from ["```text", " ".join([context.command_path, *command.collect_usage_pieces(context)]), "```"]
    notes, examples = _split(command.epilog or "")
    if examples:
        yield from ["", "Examples:", "", "```sh", *examples, "```"]
    yield from _parameters(command, context)
    yield from ["", notes, ""]
    if not hasattr(command, "commands"):
        return
    members = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    below = [(name, member) for name, member in members if member is not None and not member.hidden]
    yield from ["| command | what it does |", "|---|---|"]
    for name, member in below:
        anchor = f"{context.command_path} {name}".replace(" ", "-")
        yield f"| [`{name}`](#{anchor}) | {_cell((member.help or '').partition('\n\n')[0])} |"
    for name, member in below:
        inner = typer.Context(member, info_name=name, parent=context)
        level = "#" * (inner.command_path.count(" ") + 1)
        yield from ["", f"{level} {inner.command_path}", ""]
        yield from _describe(member, inner)


def _parameters(command: Any, context: typer.Context) -> Iterator[str]:
    """Yield a table of arguments and options, without `--help`."""
    for parameter in command.params:
        vars(parameter)["hidden"] = False  # the page has those of --help-all too
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [record for record in records if record and record[0] != "--help"]
    if rows:
        yield from ["", "| option | what it does |", "|---|---|"]
    for name, what in rows:
        yield f"| `{TYPE.sub('<\\1>', name).replace('|', ' | ')}` | {_cell(what)} |"


def _cell(text: str) -> str:
    """Put a text into one cell of a table."""
    return " ".join(text.replace("|", "\\|").split()).replace("] [", "; ")


def _split(epilog: str) -> tuple[str, list[str]]:
    """Take the examples out of what is said below the options: lines of a shell, with comments."""
    match = EXAMPLES.search(epilog)
    if match is None:
        return epilog, []
    lines = []
    for command, remark in EXAMPLE.findall(match[1]):
        remark = " ".join(remark.replace("`", "").split())
        lines.append(f"{command}  # {remark}" if remark else command)
    return epilog[: match.start()].strip(), lines
