"""What a real node streams, recorded for Rerun by a process of its own and read with Rerun's reader."""

import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rerun", reason="needs rerun: pip install 'goalreel[rerun]'")

from support.ros import Other, other
from support.ros_bench import BLUE, RED, Robot, rgb, seen
from support.rrd import entities, values, verify
from support.wait import until

from goalreel.image import Image
from goalreel_interfaces.action import AnnotateTask
from goalreel_interfaces.msg import SubGoal

pytestmark = pytest.mark.process

COLOURS = (RED, BLUE)
COMMAND = ("-m", "goalreel_ros.rrd", "--out")


def said(process: Other, words: str) -> bool:
    return any(words in line for line in process.lines)


@pytest.fixture(scope="module")
def recorded(node, tmp_path_factory):
    """One task from its first frame to its end; the scene obeys each sub-goal."""
    path = tmp_path_factory.mktemp("rrd") / "run.rrd"
    recorder = Other(*COMMAND, str(path))
    robot = Robot()
    robot.film()
    until(lambda: said(recorder, "listening to /goalreel and /image") and said(recorder, "the node is there"))
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    handle = robot.send(AnnotateTask, "annotate_task", task=" ".join(COLOURS))
    for wanted in COLOURS:
        until(lambda: goals and goals[-1].active and goals[-1].instruction == wanted)  # noqa: B023
        until(lambda: said(recorder, f"sub-goal: {wanted}"))  # noqa: B023
        robot.colour = wanted
    robot.result(handle)
    until(lambda: [line for line in recorder.lines if "sub-goal: " in line][-1].endswith("sub-goal: none"))
    until(lambda: all(said(recorder, f"{c}, attempt 1: accepted") for c in COLOURS))
    shown = path.stat().st_size
    until(lambda: path.stat().st_size > shown)  # the camera goes on: its last frame is of the end
    assert recorder.stop(signal.SIGINT) == 0, recorder.lines
    assert not [line for line in recorder.lines if "Traceback" in line]
    robot.close()
    return path


def test_the_file_has_the_sub_goals_with_their_pictures(recorded):
    verify(recorded)
    steps = values(recorded, "lanes/step", "StateChange:state", "time")
    assert [name for _, name in steps if name] == [f"{i}. {c}" for i, c in enumerate(COLOURS, start=1)]
    assert steps[-1][1] == ""
    goals = values(recorded, "subgoal/goal", "EncodedImage:blob", "time")
    assert len(goals) == len(COLOURS)
    for (_, blob), wanted in zip(goals, COLOURS, strict=True):
        assert np.abs(seen(Image.decode(bytes(blob)).pixels).astype(int) - rgb(wanted)).max() < 40
    words = [text for _, text in values(recorded, "subgoal/words", "TextDocument:text", "time")]
    assert f"1. {RED}\n\n{RED}\n\nverified" in words


def test_the_camera_the_verdicts_and_the_progress_are_there(recorded):
    frames = values(recorded, "camera/live", "EncodedImage:blob", "time")
    assert np.abs(seen(Image.decode(bytes(frames[-1][1])).pixels).astype(int) - rgb(BLUE)).max() < 40
    told = values(recorded, "log/critic", "TextLog:text", "time")
    assert {text.splitlines()[0] for _, text in told} == {
        f"{i}. {c}, attempt 1: accepted" for i, c in enumerate(COLOURS, start=1)
    }
    assert all("I looked." in text for _, text in told)
    states = [state for _, state in values(recorded, "lanes/state", "StateChange:state", "time")]
    assert "executing" in states
    done = [v for _, v in values(recorded, "curves/task_completion", "Scalars:scalars", "time")]
    assert 0 <= min(done) < max(done) <= 1


def test_it_is_shown_live_in_a_viewer_that_runs(node, filming, tmp_path):
    """The viewer's own process, which writes what it is sent."""
    path = tmp_path / "live.rrd"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    viewer = Other("-m", "rerun_cli", "--save", str(path), "--bind", "127.0.0.1", "--port", port)
    until(lambda: any("Listening" in line for line in viewer.lines))
    with other(
        "-m", "goalreel_ros.rrd", "--connect", f"rerun+http://127.0.0.1:{port}/proxy", ready="listening to"
    ) as it:
        until(lambda: path.is_file() and path.stat().st_size > 200_000)  # the layout alone is 20,000
        assert it.stop(signal.SIGTERM) == 0
    viewer.stop(signal.SIGINT)
    assert "camera/live" in entities(path)


def test_a_file_that_is_there_is_kept(tmp_path):
    (tmp_path / "run.rrd").write_text("mine")
    for path in (tmp_path / "run.rrd", tmp_path / "none" / "run.rrd"):
        done = subprocess.run([sys.executable, *COMMAND, str(path)], capture_output=True, text=True)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert str(path) in line
    assert (tmp_path / "run.rrd").read_text() == "mine"
