"""Every command explains itself."""

import pytest
from support.cli import commands, goalreel
from typer.testing import CliRunner

from goalreel.cli.main import app


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
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


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("goalreel ann", "annotate"),
        ("goalreel corpus from-", "from-storyboards"),
        ("goalreel plan --pre", "--preset"),
    ],
)
def test_a_shell_completes_commands_and_options(typed, completed):
    environment = {"_GOALREEL_COMPLETE": "complete_bash", "COMP_WORDS": typed}
    environment["COMP_CWORD"] = str(len(typed.split()) - 1)
    done = CliRunner().invoke(app, [], prog_name="goalreel", env=environment)
    assert done.stdout.split() == [completed]


def test_help_says_how_to_install_completion():
    text = goalreel("--help")
    assert "--install-completion" in text
    assert "--show-completion" in text
