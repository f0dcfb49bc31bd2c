"""What the data do not tell of the robot is asked with a picture: in one line, or at a terminal."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cli import fails, goalreel
from support.faults import DATA, column, info
from support.recordings import make_dataset, renamed

from goalreel.annotator.annotate import annotate
from goalreel.annotator.questions import find_question, with_picture
from goalreel.annotator.robot import goal_camera, read_robot
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.image import Image

RUN = "from goalreel.cli.main import app; app()"
BLUE, ORANGE = (0x1F, 0x66, 0xB0), (0xC2, 0x5B, 0x00)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def vague(video_dataset, tmp_path) -> Path:
    """A dataset of which nothing tells the closed end: 0 or 1, one episode of each rest."""
    root = shutil.copytree(video_dataset, tmp_path / "vague")
    info(lambda i: i.update(robot_type=None))(root)
    turned = [episode == 1 for episode, length in enumerate((12, 9, 15)) for _ in range(length)]
    for name in ("observation.state", "action"):
        column(DATA, name, lambda rows: [[*r[:3], abs(t - r[3])] for r, t in zip(rows, turned, strict=True)])(
            root
        )
    return root


def shows(line: str, *colours: tuple[int, int, int]) -> None:
    """The picture that a line names, which has a row of each colour."""
    (path,) = re.findall(r"look at (\S+\.png),", line)
    picture = Image.of(path)
    for colour in colours:
        assert (picture.pixels == colour).all(axis=2).sum() > 1000


def test_without_a_terminal_the_line_names_the_picture_and_the_options(vague, tmp_path):
    out = tmp_path / "out"
    line = fails("annotate", vague, "--out", out)
    assert "which end of the gripper is closed is not known (it goes from 0 to 1 in 3 episodes" in line
    choices = (
        "say --layout closed=low if it is closed in row A, or --layout closed=high if it is closed in row B"
    )
    assert line.endswith(choices)
    shows(line, BLUE, ORANGE)
    assert not out.exists()
    said = fails("annotate", vague, "--out", out, "--layout", "gripper=3")
    assert "--layout gripper=3,closed=low if" in said
    (issue,) = [i for i in json.loads(goalreel("check", vague, "--json"))["issues"] if i["kind"] == "robot"]
    assert issue["text"] == f"annotate asks: {line.removeprefix('goalreel: ')}"
    goalreel("annotate", vague, "--out", out, "--layout", "closed=low")
    summary = annotate(vague, tmp_path / "rows", planner="rows")  # which reads no motion
    assert summary.robot is not None
    assert summary.robot.unknown


def test_without_pictures_it_asks_in_words(vague, tmp_path):
    for path in vague.glob("videos/**/*.mp4"):
        path.write_bytes(b"")
    source = Source.open(vague)
    robot = read_robot(source)
    question = find_question(robot)
    assert question is not None
    assert with_picture(question, source, robot, goal_camera(robot, source)) == question
    assert str(question).endswith("say --layout closed=low or --layout closed=high")


def at_terminal(typed: bytes, *words: object, **environment: str) -> str:
    """What a command says at a terminal at which somebody types; it must succeed."""
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    command = [sys.executable, "-c", RUN, *map(str, words)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | environment
    ) as child:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 4096)
            except OSError:  # nobody has the terminal open any more
                break
    os.close(ours)
    assert child.returncode == 0, said.decode()
    return said.decode()


@pytest.mark.process
def test_at_a_terminal_a_letter_answers(vague, tmp_path):
    visitor, seen, out = tmp_path / "visitor", tmp_path / "seen", tmp_path / "out"
    visitor.write_text(f'#!/bin/sh\n[ -e {seen} ] && exit 1\necho "$1" > {seen}\n')
    visitor.chmod(0o755)
    alone = {"BROWSER": f"{visitor} %s", "PATH": str(tmp_path), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    said = at_terminal(b"x\nw\nw\na\n", "annotate", vague, "--out", out, **alone)
    assert "In which row is the gripper closed" in said
    assert Image.of(seen.read_text().strip().removeprefix("file://")), "the browser shows the picture"
    assert said.count("No browser opens here") == 1
    assert "Next time say --layout closed=low" in said
    assert Records(out / FOLDER, source="").settings()["layout"] == "closed=low"


def test_every_kind_of_question_has_its_picture(video_dataset, tmp_path):
    """Which features are the robot's, where the arm is, which camera; and the hand of one side."""
    other = renamed(video_dataset, tmp_path / "x", {"observation.state": "robot", "action": "told"})
    assert "--layout state=told if that of row B does" in fails("annotate", other, "--out", tmp_path / "out")
    steps = np.diff(np.sin(np.linspace(0, 9, 60))[:, None] * [1, 2, 3], axis=0)
    steps[20:35] = 0
    hand = (np.arange(59) // 15 % 2)[:, None]
    made = make_dataset(tmp_path / "y", states=[np.hstack([steps, hand])] * 2)
    source = Source.open(made)
    for field, answers in {
        "camera": ("front", "wrist"),
        "left closed": ("closed=low", "closed=high"),
        "gripper": ("gripper=2/3", "gripper=3", "gripper=none"),
    }.items():
        robot = read_robot(source)
        finding = robot.findings[0].model_copy(
            update={"field": field, "value": None, "confidence": "unknown", "answers": answers}
        )
        question = find_question(robot.model_copy(update={"findings": (finding,)}))
        assert question is not None
        line = str(with_picture(question, source, robot, source.camera(None)))
        assert f"{answers[0]} if " in line
        if field == "gripper":
            assert "gripper=2/3 if it opens and closes in rows 1 and 2, or" in line
            assert "gripper=3 if it opens and closes in row 2 alone, or" in line
            assert line.endswith("gripper=none if it opens and closes in no row")
        shows(line, *(BLUE, ORANGE)[: len(answers)])
