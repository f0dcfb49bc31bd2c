"""Film and strip of a closed loop, and the demonstration that makes them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs ROS 2: pip install 'goalreel[ros]'")


from goalreel.image import Image
from goalreel_ros.tabletop.demo import WIDTH, Film, FilmFrame

MAKEFILE = Path(__file__).parents[2] / "Makefile"
RED, GREEN, BLUE = (200, 30, 30), (30, 180, 60), (30, 60, 200)


def plain(colour) -> Image:
    return Image(np.full((64, 64, 3), colour, np.uint8))


def share(pixels, colour) -> float:
    return float((np.abs(pixels.astype(int) - colour).max(2) < 25).mean())


@pytest.fixture
def film() -> Film:
    live = [FilmFrame(plain(RED))] * 3 + [
        FilmFrame(plain(RED), 1, "a goal whose words need a second line", plain(GREEN))
    ]
    return Film("do it", 10, [*live, FilmFrame(plain(BLUE), 1, "a goal", plain(GREEN))])


def test_every_scene_becomes_a_frame_with_camera_and_goal(film, tmp_path):
    film.write(tmp_path / "film.mp4")
    with av.open(str(tmp_path / "film.mp4")) as file:
        frames = [f.to_ndarray(format="rgb24") for f in file.decode(video=0)]
    assert len(frames) == len(film.frames)
    assert {f.shape[1] for f in frames} == {WIDTH}
    seen = [[share(f, colour) > 0.15 for colour in (RED, GREEN, BLUE)] for f in frames]
    assert seen == [[True, False, False]] * 3 + [[True, True, False], [False, True, True]]


def test_the_strip_shows_each_goal_beside_the_last_camera_frame_of_its_turn(film):
    pixels = film.strip().pixels
    assert share(pixels, GREEN) > 0.05
    assert share(pixels, BLUE) > 0.05
    assert share(pixels, RED) == 0


def test_only_a_completed_step_is_called_reached(film):
    before = film.strip().pixels
    film.reached = frozenset([1])
    changed = np.nonzero((film.strip().pixels != before).any(axis=2))
    assert 0 < len(changed[0]) < 2000, "one word goes"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("goals", "told"),
    [
        pytest.param(2, "--seed 950000 --rate 5", id="models that ask the simulator"),
        pytest.param(5, *re.findall(r"tabletop\.demo (.*) --out", MAKEFILE.read_text()), id="make ros-demo"),
    ],
)
def test_the_demonstration_ends_with_every_sub_goal_true(goals, told, tmp_path):
    command = ("-m", "goalreel_ros.tabletop.demo", "--out", str(tmp_path), *told.split())
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=600, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("holds: ") == goals
    assert {f.name for f in tmp_path.iterdir()} == {"film.mp4", "strip.png"}
