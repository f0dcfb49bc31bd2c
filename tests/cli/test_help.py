"""Every command explains itself."""

from collections.abc import Iterator

import pytest
import typer.main
from support.cli import goalreel

from goalreel.cli.main import app


def commands(command: object, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every command and sub-command."""
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, *words, name)


@pytest.mark.parametrize("words", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_help(words):
    text = goalreel(*words, "--help")
    assert " ".join(("goalreel", *words)) in " ".join(text.split()) or words == ()
    assert "Usage" in text


def test_what_stands_in_angle_brackets_is_shown():
    """Rich takes a bare `<image>` for markup, and Typer does not list the values of a `type`."""
    assert "<image> mark" in " ".join(goalreel("plan", "--help").replace("│", " ").split())
    assert "plans|continuations" in goalreel("corpus", "make", "--help")


def test_the_commands_are_those_that_the_documentation_uses():
    text = goalreel("--help")
    for command in ("annotate", "plan", "show", "doctor", "tabletop", "corpus", "train", "eval", "serve"):
        assert f" {command} " in text
