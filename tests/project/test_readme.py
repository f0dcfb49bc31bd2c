"""Every command of the README runs, in order, in one empty folder (ROS 2: `ros_pkg/test_readme_ros.py`)."""

import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import PIL.Image
import pytest
from support.cli import goalreel
from support.places import ROOT

from goalreel.extras import EXTRAS
from goalreel.tabletop.sim.grammar import sample_episode

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text()


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"```(sh|python)\n(.*?)```", TEXT, re.DOTALL)


def commands() -> list[list[str]]:
    """The lines that start with our command, as words, and the Python code, in order; comments dropped."""
    found = []
    for language, body in blocks():
        if language == "python":
            found.append(["python", body])
            continue
        for line in body.splitlines():
            words = shlex.split(line, comments=True)
            if words[0] == "make":  # tests/ would run itself
                assert f"\n{words[1]}: " in MAKEFILE, line
                continue
            assert words[0] == "goalreel", f"a README command nothing runs: {line}"
            found.append(words)
    return found


def page_of(*words: str) -> None:
    """Serve a page, on a free port, until it has answered."""
    command = [Path(sys.executable).with_name("goalreel"), *words, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        try:
            address = next(line.split()[2] for line in serving.stderr if line.startswith("Look at "))
            assert urllib.request.urlopen(address, timeout=60).status == 200
        finally:
            serving.terminate()


@pytest.mark.long
@pytest.mark.process
def test_every_command_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, *words in commands():
        if name == "python":
            exec(words[0], {"__name__": "__main__"})
        elif words[0] == "review":
            page_of(*words)
        elif words != ["doctor", "--json"]:  # tests/cli/test_doctor.py runs it
            goalreel(*words)
    for page in ("annotated-report/index.html", "predicted/index.html", "predicted/storyboard.json"):
        assert (tmp_path / page).is_file()


def test_the_scene_it_plans_is_that_of_the_picture_and_of_the_demo():
    """Where it fails, put the seed and instruction that `make picture` found into README and Makefile."""
    [(seed, instruction)] = re.findall(r'scene --seed (\d+) .*\ngoalreel plan \S+ "(.*?)"', TEXT)
    assert instruction == sample_episode(int(seed)).instruction
    assert f"SCENE := {seed}\n" in MAKEFILE
    with PIL.Image.open(ROOT / "docs/images/storyboard.png") as picture:
        assert picture.info.get("seed") == seed


def test_the_demo_may_replace_the_rows_that_the_simulator_wrote():
    """`annotate` refuses without, and nothing else runs the demo."""
    demo = [line for line in MAKEFILE.splitlines() if "annotate $(DEMO)/recorded " in line]
    assert len(demo) == 2
    assert all("--replace-rows" in line for line in demo)


def test_linked_files_exist():
    for target in re.findall(r"\]\((?!http)([^)#]+)", TEXT):
        assert (ROOT / target).is_file(), target


@pytest.mark.process
@pytest.mark.parametrize("command", re.findall(r"`(pip install .*?)`", TEXT))
def test_what_it_installs_can_be_installed(command, tmp_path):
    """Resolved, not installed; the built interfaces and the whole of CI show the rest."""
    _, _, *what = shlex.split(command)
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(tmp_path / "venv")], check=True)
    where = ["--python", str(tmp_path / "venv/bin/python"), "-c", "constraints.txt"]
    done = subprocess.run(
        [*uv, "pip", "install", "--dry-run", *where, *what], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    extras = re.search(r"\[(.*?)\]", what[0])
    assert extras is not None
    assert set(extras[1].split(",")) <= {*EXTRAS, "ros"}
