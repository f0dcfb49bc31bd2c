"""The Rerun commands of docs/ros_see.md run, in order, in one folder; those that wait for a node are read."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rerun", reason="needs rerun: pip install 'goalreel[rerun]'")

from support.cli import goalreel
from support.places import ROOT
from support.rrd import verify

from goalreel.image import Image
from goalreel.storyboard_io import save_storyboard
from goalreel.types import Attempt, Step, Storyboard, StoryboardStep, Task, Verdict

TEXT = (ROOT / "docs" / "ros_see.md").read_text(encoding="utf-8")
LINES = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]


def plan(folder: Path) -> None:
    picture = Image(np.zeros((24, 32, 3), np.uint8))
    tried = Attempt(prompt="p", seed=0, image=picture, verdict=Verdict(success=True))
    step = Step(name="pick", instruction="held", prompt="p")
    steps = (StoryboardStep(step=step, attempts=(tried,), status="verified", chosen=0),)
    save_storyboard(Storyboard(task=Task(id="t", instruction="x", image=picture), steps=steps), folder)


@pytest.mark.process
def test_the_commands_run(video_dataset, annotated, tmp_path, monkeypatch):
    assert [words[0] for words in LINES] == ["goalreel"] * 2 + ["rerun"] + ["goalreel_ros_rerun"] * 2
    monkeypatch.chdir(tmp_path)
    annotated(video_dataset, Path("annotated"), {0: {}, 1: {}})
    plan(Path("predicted"))
    for words in LINES[:2]:
        goalreel(*words[1:])
    [shown] = LINES[2][1:]
    found = sorted(Path().glob(shown))
    assert [p.name for p in found] == ["episode_000000.rrd", "episode_000001.rrd", "storyboard.rrd"]
    verify(*found)


@pytest.mark.process
def test_its_options_are_those_of_the_command():
    pytest.importorskip("rclpy")
    command = [sys.executable, "-m", "goalreel_ros.rrd", "--help"]
    there = set(re.findall(r"--[a-z]+", subprocess.run(command, capture_output=True, text=True).stdout))
    section = TEXT.partition("**A node that runs.**")[2].partition("**A bag**")[0]
    told = set(re.findall(r"--[a-z]+", section.replace("rerun --bind", "")))
    assert {"--out", "--connect", "--camera", "--node"} == told <= there
