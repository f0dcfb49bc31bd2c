"""Every command of the README runs, in order, in one empty folder (ROS 2: `ros/test_readme_ros.py`)."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import PIL.Image
from support.places import ROOT

from goalreel.datasets.tabletop.grammar import sample_episode

BIN = Path(sys.executable).parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"```(sh|python)\n(.*?)```", TEXT, re.DOTALL)


def commands() -> list[list[str]]:
    """The shell lines that start with our command or with Python code, in order; comments dropped."""
    found = []
    for language, body in blocks():
        if language == "python":
            found.append([str(BIN / "python"), "-c", body])
            continue
        for line in body.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["goalreel"]:
                found.append([str(BIN / "goalreel"), *words[1:]])
            else:
                assert words[0] == "make", f"a README command nothing runs: {line}"
    return found


def test_every_command_runs(tmp_path):
    for command in commands():
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        # doctor's exit status tells about the machine, not about the command
        assert done.returncode == 0 or "doctor" in command, f"{command}\n{done.stderr[-2000:]}"
    for page in ("annotated-report/index.html", "predicted/index.html", "predicted/storyboard.json"):
        assert (tmp_path / page).is_file()


def test_the_scene_it_plans_is_that_of_the_picture_and_of_the_demo():
    """Where it fails, put the seed and instruction that `make picture` found into README and Makefile."""
    [(seed, instruction)] = re.findall(r'scene --seed (\d+) .*\ngoalreel plan \S+ "(.*?)"', TEXT)
    assert instruction == sample_episode(int(seed)).instruction
    assert f"SCENE := {seed}\n" in (ROOT / "Makefile").read_text()
    with PIL.Image.open(ROOT / "docs/images/storyboard.png") as picture:
        assert picture.info.get("seed") == seed


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make ([\w-]+)", TEXT, re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_linked_files_exist():
    for target in re.findall(r"\]\((?!http)([^)#]+)", TEXT):
        assert (ROOT / target).is_file(), target
