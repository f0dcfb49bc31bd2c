"""Every script in examples/ runs, as a reader would start it."""

import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from support.places import ROOT

from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.grammar import sample_episode

pytestmark = pytest.mark.process
EXAMPLES = ROOT / "examples"
SEED = 900301


def example(name: str, *arguments: object) -> str:
    """What a script prints."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def scene() -> np.ndarray:
    """The scene of the README, RGB."""
    with Tabletop(sample_episode(SEED).scene) as env:
        return env.render("front", 128).copy()


def test_all_of_them_are_run_here():
    files = (Path(__file__), ROOT / "tests" / "ros_pkg" / "test_example.py")
    tested = "".join(file.read_text() for file in files)
    for script in EXAMPLES.glob("*.py"):
        assert f'"{script.name}"' in tested
        assert f"({script.name})" in (EXAMPLES / "README.md").read_text()


def test_annotating_and_reading_back(video_dataset, tmp_path):
    said = example("annotate_dataset.py", video_dataset, tmp_path / "out")
    assert "3 episodes annotated" in said
    assert "goal picture (3, 48, 48)" in said
    assert "0 episodes annotated, 3 before" in example("annotate_dataset.py", video_dataset, tmp_path / "out")
    read = example("read_storyboards.py", tmp_path / "out")
    assert len(re.findall(r"^episode \d: put the red block", read, re.MULTILINE)) == 3
    assert re.search(r"^ +verified  .*\(frames 0-\d+, \d attempts\)$", read, re.MULTILINE)


def test_an_editor_of_ones_own(scene, tmp_path):
    cv2.imwrite(str(tmp_path / "scene.png"), scene[:, :, ::-1])
    said = example(
        "own_editor.py", tmp_path / "scene.png", sample_episode(SEED).instruction, tmp_path / "out"
    )
    assert (tmp_path / "out" / "index.html").is_file()
    assert "verified" in said
    drawn = cv2.imread(str(next((tmp_path / "out" / "images").glob("step_01_*"))))
    assert np.array_equal(drawn[:20], scene[:20, :, ::-1]), "outside the part, the source's own pixels"


def test_a_storyboard_from_a_camera(scene, tmp_path):
    film = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (128, 128))
    for _ in range(5):
        film.write(np.ascontiguousarray(scene[:, :, ::-1]))
    film.release()
    instruction = sample_episode(SEED).instruction
    said = example("plan_from_webcam.py", tmp_path / "film.avi", instruction, tmp_path / "out")
    assert (tmp_path / "out" / "index.html").is_file()
    assert "verified" in said
