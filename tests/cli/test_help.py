"""Every command explains itself."""

import re

import pytest
import typer.main
from support.cli import commands, goalreel
from typer.testing import CliRunner

from goalreel.cli.main import COMMANDS, app


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help(words):
    text = goalreel(*words, "--help")
    assert " ".join(("goalreel", *words)) in " ".join(text.split()) or words == ()
    assert "Usage" in text


def test_help_has_the_first_options_and_help_all_the_rest(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    shown, whole = goalreel("annotate", "--help"), goalreel("annotate", "--help-all")
    first = {option for options in panels(shown).values() for option in options if option != "--help"}
    assert len(first) <= 12
    assert len(shown.splitlines()) <= 60, "one screen"
    everything = {option for options in panels(whole).values() for option in options}
    assert first < everything
    assert {"--batch-size", "--subgoal-form", "--shard", "--state-topic", "--critic-mode"} <= everything


def test_what_stands_in_angle_brackets_is_shown():
    """Rich takes a bare `<image>` for markup, and Typer does not list the values of a `type`."""
    assert "with <image>" in " ".join(goalreel("plan", "--help").replace("│", " ").split())
    assert "plans|continuations" in goalreel("corpus", "make", "--help")
    assert "`" not in goalreel("tabletop", "record", "--help")


def test_the_list_of_commands_says_what_each_says_itself():
    places = {name: place.help for panel in COMMANDS.values() for name, place in panel.items()}
    group = typer.main.get_command(app)
    assert {name: group.get_command(None, name).help.splitlines()[0] for name in places} == places


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("goalreel ann", "annotate"),
        ("goalreel corpus from-", "from-storyboards"),
        ("goalreel plan --pre", "--preset"),
        ("goalreel plan --preset klein-v", "klein-vllm"),
        ("goalreel annotate --planner kin", "kinematic"),
        ("goalreel annotate DATASET --camera observation.images.f", "observation.images.front"),
    ],
)
def test_a_shell_completes_commands_options_and_values(typed, completed, video_dataset):
    typed = typed.replace("DATASET", str(video_dataset))
    environment = {"_GOALREEL_COMPLETE": "complete_bash", "COMP_WORDS": typed}
    environment["COMP_CWORD"] = str(len(typed.split()) - 1)
    done = CliRunner().invoke(app, [], prog_name="goalreel", env=environment)
    assert done.stdout.split() == [completed]


def panels(text: str) -> dict[str, list[str]]:
    """The options, or the commands, that each panel of a help shows."""
    members: dict[str, list[str]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("╭─"):
            title = line.strip("╭─╮ ")
            members[title] = []
        elif match := re.match(r"│ (?:\*  |   )?(--[a-z-]+|[a-z0-9]+) ", line):
            members[title].append(match[1])
    return members


def test_commands_come_in_the_order_in_which_people_need_them():
    commands = panels(goalreel("--help"))
    assert {"--install-completion", "--show-completion"} <= set(commands["Options"])
    names = [name for title, members in commands.items() if title != "Options" for name in members]
    assert names[:9] == ["doctor", "plan", "studio", "check", "annotate", "show", "review", "build", "export"]
    assert names[9:13] == ["bag2lerobot", "serve", "node", "rollout"]
    assert names[-4:] == ["corpus", "train", "eval", "tabletop"]


@pytest.mark.parametrize(
    ("words", "command"), [pair for pair in commands().items() if not hasattr(pair[1], "list_commands")]
)
def test_every_command_has_an_example(words, command):
    assert f"`goalreel {' '.join(words)}" in command.epilog
