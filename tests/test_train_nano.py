"""The script that makes the shipped checkpoints: its stages, in order, each done once."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from typer.main import get_command
from typer.testing import CliRunner

from goalreel.annotator.cli import app

ROOT = Path(__file__).parents[1]


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("train_nano", ROOT / "scripts" / "train_nano.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def calls(script, monkeypatch):
    """The commands that the script would run; each leaves what shows that it is done."""
    made = []

    def pretend(*words):
        words = [str(w) for w in words]
        made.append(words)
        folder = Path(words[words.index("--out") + 1])
        folder = folder / "editor" if words[1] == "editor" else folder
        folder.mkdir(parents=True)
        (folder / script.DONE).write_text("done")
        (folder / "training.yaml").write_text("for resuming")

    monkeypatch.setattr(script, "_goalreel", pretend)
    return made


def test_every_stage_runs_once_and_with_options_that_exist(script, calls, tmp_path):
    script.main(tmp_path)
    assert [c[:2] for c in calls] == [
        *[["corpus", "make"]] * 3,
        ["train", "planner"],
        ["train", "editor"],
        ["corpus", "make"],
        ["train", "critic"],
        ["train", "critic"],
    ]
    for words in calls:
        command = get_command(app)
        context = command.make_context("goalreel", words[:1])
        for name in words[:2]:
            command = command.get_command(context, name)
        command.make_context(words[1], words[2:])  # raises what the shell would be told
    script.main(tmp_path)
    assert len(calls) == 8


def test_a_stage_that_was_killed_is_resumed(script, calls, tmp_path):
    (tmp_path / "runs/planner/checkpoints/checkpoint-200").mkdir(parents=True)
    (tmp_path / "runs/editor/junk").mkdir(parents=True)
    script._goalreel = lambda *words: calls.append([str(w) for w in words])
    script._train("planner", "nano-planner", tmp_path / "runs/planner")
    assert calls[-1][-1] == "--resume"
    script._train("editor", "nano-editor", tmp_path / "runs/editor", done="editor")
    assert "--resume" not in calls[-1]
    assert not (tmp_path / "runs/editor").exists()


def test_install_leaves_out_what_only_resuming_needs(script, calls, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "NANO", tmp_path / "nano")
    script.main(tmp_path / "out", install=True)
    for role in ("planner", "editor", "critic"):
        assert [f.name for f in (tmp_path / "nano" / role).iterdir()] == [script.DONE]


def test_the_script_says_how_it_is_used(script):
    import typer

    one = typer.Typer()
    one.command()(script.main)
    assert "--install" in CliRunner().invoke(one, ["--help"]).output
