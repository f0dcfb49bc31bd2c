"""Every command explains itself, prints its results with --json, and says where it comes from.

`--json` prints one JSON object on stdout, and nothing else there.
"""

import json
import re
import subprocess
import sys

import av
import pytest
import typer.main
from support.cli import commands, goalreel, results
from typer.testing import CliRunner

from goalreel.cli import extension
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


WITHOUT_RESULTS = {
    ("node",): "runs until it is stopped",
    ("review",): "serves a page until it is stopped",
    ("serve",): "runs until it is stopped",
    ("studio",): "serves a page until it is stopped",
}
"""Command -> why it has no --json. The list is exact."""


def test_every_command_that_prints_results_has_it():
    ends = {words: command for words, command in commands().items() if not hasattr(command, "commands")}
    contexts = {words: c.make_context(words[-1], [], resilient_parsing=True) for words, c in ends.items()}
    options = {w: [o for p in c.get_params(contexts[w]) for o in p.opts] for w, c in ends.items()}
    assert {words for words in ends if "--json" not in options[words]} == WITHOUT_RESULTS.keys()


def test_an_annotated_dataset(video_dataset, tmp_path):
    out = tmp_path / "out"
    assert results("annotate", video_dataset, "--out", out)["annotated"] == 3
    assert results("build", out) == {"out": str(out), "missing": [], "corrections": {}}
    index = tmp_path / "report/index.html"
    assert results("show", out, "--out", index.parent) == {"report": str(index)}
    [film] = results("show", out, "--movie", tmp_path / "films", "--episodes", "0")["films"]
    with av.open(film) as file:
        [video] = file.streams.video
        assert (video.frames, video.width) == (12, 1280), "one for each frame of the episode"
    table = tmp_path / "steps.csv"
    assert results("export", out, "--out", table)["rows"] > 0


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        ("show absent", 1, "absent: no such folder"),
        ("show", 2, "Missing argument 'dataset'."),
        ("eval review x --bins", 2, "No such option: --bins"),
        ("annot x", 2, "No such command 'annot'. Did you mean 'annotate'?"),
        ("--shout show", 2, "No such option: --shout"),
    ],
)
def test_an_error_of_use_is_json_too(words, status, error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*words.split(), "--json"])
    assert done.exit_code == status
    assert json.loads(done.stdout)["error"] == error
    assert error.split()[0] in done.stderr


@pytest.mark.lab
def test_the_tabletop(tmp_path):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    scene = tmp_path / "scene.png"
    assert results("tabletop", "scene", "--seed", 900301, "--out", scene)["instruction"].startswith("first")
    corpus = tmp_path / "plans"
    made = results("corpus", "make", "--kind", "plans", "--episodes", 3, "--out", corpus)
    assert (made["out"], made["episodes"]) == (str(corpus), 3)
    assert 1 <= made["rows"] <= 3
    recorded = tmp_path / "recorded"
    size = ("--size", 64, "--cameras", "front")
    made = results("tabletop", "record", "--episodes", 1, *size, "--out", recorded)
    assert (made["out"], made["episodes"]) == (str(recorded), 1)
    assert results("eval", "segmentation", recorded)["episodes"] == 1


LABORATORY = [
    (group, command) for group, commands in extension.LABORATORY.items() for command in sorted(commands)
]


@pytest.fixture
def no_laboratory(monkeypatch):
    monkeypatch.setattr(extension.metadata, "entry_points", lambda **_: ())


@pytest.mark.parametrize(("group", "command"), LABORATORY)
def test_without_the_laboratory_its_commands_say_how_to_get_it(group, command, no_laboratory):
    result = CliRunner().invoke(app, [group, command, "--json"])
    (line,) = result.output.splitlines()
    assert (result.exit_code, line.partition(": ")[0]) == (1, "goalreel")
    assert f"{group} {command}` comes with goalreel-lab: " in line
    assert "pip install" in line


def test_without_the_laboratory_other_commands_are_listed(no_laboratory):
    page = CliRunner().invoke(app, ["eval", "--help"]).output
    assert " review " in page
    assert " metaworld " not in page


@pytest.mark.process
def test_no_help_but_a_groups_imports_the_laboratory():
    code = (
        "import sys; from goalreel.cli.main import app\n"
        "try: app({0!r})\nexcept SystemExit: print('goalreel_lab' in sys.modules)"
    )
    for arguments, imported in (
        (["--help"], "False"),
        (["tabletop", "--help"], "False"),
        (["eval", "--help"], "True"),
    ):
        command = [sys.executable, "-c", code.format(arguments)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert printed.splitlines()[-1] == imported, arguments
