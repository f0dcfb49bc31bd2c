"""Models of a third party: the tutorial of them as printed, and the names that its package adds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import blocks, commands

from goalreel import load_storyboard
from goalreel.models.names import ModelName

PAGE = "docs/tutorials/your-own-model.md"
PROJECT, MODULE = (block.code for block in blocks(PAGE, "toml", "python"))

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder that the package is installed in, beside a plugin that cannot be imported."""
    package, target = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    (package / "pyproject.toml").write_text(PROJECT)
    (package / "my_models.py").write_text(MODULE)
    command = ["uv", "pip", "install", "-q", "--offline", "--no-deps", "--no-build-isolation"]
    where = ["--python", sys.executable, "--target", str(target), str(package)]
    subprocess.run([sys.executable, "-m", *command, *where], check=True)
    broken = target / "broken-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[goalreel.editors]\nbroken = nowhere_at_all\n")
    return target


def child(installed: Path, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def goalreel(installed: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return child(installed, "from goalreel.cli.main import app; app()", *arguments)


def test_the_tutorial(installed, tmp_path, monkeypatch):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    monkeypatch.chdir(tmp_path)
    pip, *lines = commands(PAGE)
    assert pip == ["pip", "install", "./my-models"]
    for words in lines:
        done = goalreel(installed, *words[1:])
        assert done.returncode == 0, done.stderr
    board = load_storyboard(tmp_path / "planned")
    assert [step.step.name for step in board.steps] == ["push the red block", "close the drawer"]
    for step in board.steps:
        first, second = (attempt.verdict for attempt in step.attempts)
        assert (first.success, first.reasoning) == (False, "Only 256 pixels changed.")
        assert (second.success, second.reasoning) == (True, "1024 pixels changed.")
    assert (tmp_path / "planned/index.html").is_file()


def test_annotate_with_the_editor_of_a_package(installed, video_dataset, tmp_path):
    out = tmp_path / "out"
    models = ["--planner", "kinematic", "--editor", "mine:8?shade=250", "--critic", "difference"]
    done = goalreel(installed, "annotate", video_dataset, "--out", out, *models, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["annotated"], summary["failures"]) == (3, {})
    assert set(summary["steps"]) == {"unjudged"}, "nobody compared a predicted picture with the words"
    settings = json.loads((out / "meta/goalreel/settings.json").read_text())["settings"]
    assert settings["editor"] == ModelName.parse("mine:8?shade=250").identity()
    assert list((out / "meta/goalreel/images").rglob("*.png")), "a predicted picture is kept with the records"
    assert not (out / ".cache/huggingface/goalreel/answers").exists()


def test_doctors_list_has_it_and_says_what_is_broken(installed):
    code = "from goalreel.cli.doctor import _models; c = _models('editor'); print(c.status, c.found)"
    said = child(installed, code).stdout
    assert said.startswith("warning ")
    assert "mine:SIDE (my_models)" in said
    assert "the plugin nowhere_at_all for the editor broken: cannot be imported" in said


@pytest.mark.parametrize(
    ("editor", "said"),
    [
        ("mine:8?shade=dark", "goalreel: mine:8: shade is wrong: "),
        ("mine:", "goalreel: no editor called 'mine:': use diffusers:DIR, "),
        ("broken:1", "goalreel: the plugin nowhere_at_all for the editor broken: cannot be imported"),
    ],
)
def test_errors_are_one_line(installed, editor, said, tmp_path):
    done = goalreel(
        installed, "plan", "x", "--out", tmp_path / "p", "--critic", "difference", "--editor", editor
    )
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if line.startswith(said)], done.stderr
    assert "Traceback" not in done.stderr
