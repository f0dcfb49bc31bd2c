"""Every script in examples/ runs: one as a reader would start it, the others in this process."""

import io
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import cv2
import numpy as np
import pytest
from support.chat_server import ChatServer
from support.places import ROOT
from support.published import agents

EXAMPLES = ROOT / "examples"


def example(name: str, *arguments: object) -> str:
    """What a script prints, run in this process: lerobot and torch take seconds to load."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return printed.getvalue()


@pytest.fixture
def preset(tmp_path) -> Iterator[Path]:
    """A preset whose Planner has two steps, whose editor inverts, and whose Critic accepts."""
    from support.serving_models import TintEditor, serving

    from goalreel.serving.settings import Models

    path = tmp_path / "mine.yaml"
    with ChatServer(agents) as chat, serving(Models(editor=TintEditor())) as editor:
        model = f"openai:agent@{chat.url}"
        path.write_text(f"planner: {model}\neditor: server:{editor}\ncritic: {model}\nmax_attempts: 1\n")
        yield path


@pytest.fixture
def scene() -> np.ndarray:
    """A grey slope, 64 x 64."""
    rows = np.linspace(0, 250, 64).astype(np.uint8)
    return np.repeat(np.repeat(rows[:, None, None], 64, 1), 3, 2)


def test_all_of_them_are_run_here():
    files = (Path(__file__), ROOT / "tests" / "ros_pkg" / "test_policies.py")
    tested = "".join(file.read_text() for file in files)
    for script in EXAMPLES.glob("*.py"):
        assert f'"{script.name}"' in tested
        assert f"({script.name})" in (EXAMPLES / "README.md").read_text()


@pytest.mark.process
def test_annotating_and_reading_back(video_dataset, tmp_path):
    said = example("annotate_dataset.py", video_dataset, tmp_path / "out")
    assert "3 episodes annotated" in said
    assert "goal picture (3, 48, 48)" in said
    assert "0 episodes annotated, 3 before" in example("annotate_dataset.py", video_dataset, tmp_path / "out")
    command = [sys.executable, str(EXAMPLES / "read_storyboards.py"), str(tmp_path / "out")]
    read = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"^episode \d: put the red block", read, re.MULTILINE)) == 3
    assert re.search(r"^ +observed  .*\(frames 0-\d+, \d attempts\)$", read, re.MULTILINE)


def test_an_editor_of_ones_own(scene, preset, tmp_path):
    cv2.imwrite(str(tmp_path / "scene.png"), scene)
    words = (tmp_path / "scene.png", "tidy up", tmp_path / "out", "--preset", preset)
    printed = example("own_editor.py", *words)
    assert (tmp_path / "out" / "index.html").is_file()
    assert printed.count("accepted") == 2
    drawn = cv2.imread(str(next((tmp_path / "out" / "images").glob("step_01_*"))))
    assert np.array_equal(drawn[:12], scene[:12]), "outside the part, the source's own pixels"
    assert np.array_equal(drawn[13:, 4:60], 255 - scene[13:, 4:60])


def test_a_storyboard_from_a_camera(scene, preset, tmp_path):
    film = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 64))
    for _ in range(5):
        film.write(scene)
    film.release()
    printed = example(
        "plan_from_webcam.py", tmp_path / "film.avi", "tidy up", tmp_path / "out", "--preset", preset
    )
    assert (tmp_path / "out" / "index.html").is_file()
    assert printed.count("accepted") == 2
