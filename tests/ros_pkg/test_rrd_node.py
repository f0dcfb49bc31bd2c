"""Check what a real node streams, recorded for Rerun by a process of its own and read with Rerun's reader."""

import signal
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rerun", reason="needs rerun: pip install 'goalreel[rerun]'")

import rerun as rr
from support.ros import Other, other
from support.ros_bench import BLUE, LATCHED, RED, Robot, rgb, seen
from support.rrd import entities, so_far, values, verify
from support.wait import until

from goalreel.image import Image
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import CriticVerdict, Storyboard, StoryboardStep, SubGoal
from goalreel_ros import rrd
from goalreel_ros.rrd import Listener, main

pytestmark = pytest.mark.process

COLOURS = (RED, BLUE)
COMMAND = ("-m", "goalreel_ros.rrd", "--out")
CAMERA = ("camera/live", "EncodedImage:blob", "time")
VERDICTS = ("log/critic", "TextLog:text", "time")
STATE = ("lanes/state", "StateChange:state", "time")


def said(process: Other, words: str) -> bool:
    return any(words in line for line in process.lines)


def newest(path: Path, what: tuple[str, str, str]) -> Any:
    """Give what the file, which is being written, has of that; None as long as it has nothing."""
    found = so_far(path, *what)
    return found[-1][1] if found else None


def shows(blob: list[int] | None, colour: str) -> bool:
    return blob is not None and bool(
        np.abs(seen(Image.decode(bytes(blob)).pixels).astype(int) - rgb(colour)).max() < 40
    )


@pytest.fixture(scope="module")
def recorded(node, tmp_path_factory):
    """One task from its first frame to its end; the scene obeys each sub-goal."""
    path = tmp_path_factory.mktemp("rrd") / "run.rrd"
    recorder = Other(*COMMAND, str(path))
    robot = Robot()
    robot.film()
    until(lambda: said(recorder, "listening to /goalreel and /image") and said(recorder, "the node is there"))
    until(lambda: newest(path, CAMERA))  # DDS may take longer to find it than the task lasts
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    handle = robot.send(ExecuteTask, "execute_task", task=" ".join(COLOURS))
    for wanted in COLOURS:
        until(lambda: goals and goals[-1].active and goals[-1].instruction == wanted)  # noqa: B023
        until(lambda: said(recorder, f"sub-goal: {wanted}"))  # noqa: B023
        until(lambda: newest(path, STATE) == "executing")
        robot.colour = wanted
    robot.result(handle)
    until(lambda: [line for line in recorder.lines if "sub-goal: " in line][-1].endswith("sub-goal: none"))
    until(lambda: all(said(recorder, f"{c}, attempt 1: accepted") for c in COLOURS))
    until(lambda: newest(path, STATE) == "succeeded")
    until(lambda: shows(newest(path, CAMERA), COLOURS[-1]))  # the camera goes on
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
        assert shows(blob, wanted)
    words = [text for _, text in values(recorded, "subgoal/words", "TextDocument:text", "time")]
    shown = f"1. {RED}\n\n{RED}\n\nverified\n\nWords: by server, not checked\n"
    assert any(text.startswith(shown) for text in words)


def test_the_camera_the_verdicts_and_the_progress_are_there(recorded):
    assert shows(values(recorded, *CAMERA)[-1][1], BLUE)
    told = values(recorded, *VERDICTS)
    assert {text.splitlines()[0] for _, text in told} == {
        f"{i}. {c}, attempt 1: accepted" for i, c in enumerate(COLOURS, start=1)
    }
    assert all("I looked." in text for _, text in told)
    assert "executing" in [state for _, state in values(recorded, *STATE)]
    done = [v for _, v in values(recorded, "curves/task_completion", "Scalars:scalars", "time")]
    assert 0 <= min(done) < max(done) <= 1


def test_a_picture_that_is_drawn_anew_is_judged_anew(tmp_path):
    path, robot = tmp_path / "run.rrd", Robot()
    stream = rr.RecordingStream("drawn anew")
    stream.save(path)
    board = robot.node.create_publisher(Storyboard, "redrawn/storyboard", LATCHED)
    rejected, accepted, none = CriticVerdict.REJECTED, CriticVerdict.ACCEPTED, CriticVerdict.NOT_EVALUATED
    told = ((1, rejected), (2, none), (2, accepted), (2, accepted), (0, none), (1, accepted))
    for attempts, verdict in told:
        critic = CriticVerdict(verdict=verdict)
        step = StoryboardStep(index=0, name="lift it", attempts=attempts, critic=critic)
        board.publish(Storyboard(steps=[step]))
    robot.beside.run(lambda: Listener(robot.node, stream, "redrawn", "image"))
    until(lambda: len(so_far(path, *VERDICTS)) == 3)
    robot.close()
    stream.disconnect()
    lines = [text.splitlines()[0] for _, text in values(path, *VERDICTS)]
    assert lines == [
        f"1. lift it, attempt {tried}" for tried in ("1: rejected", "2: accepted", "1: accepted")
    ]


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
        until(lambda: newest(path, CAMERA))
        assert it.stop(signal.SIGTERM) == 0
    viewer.stop(signal.SIGINT)
    assert "camera/live" in entities(path)


def test_a_file_that_is_there_is_kept(tmp_path):
    (tmp_path / "run.rrd").write_text("mine")
    for path in (tmp_path / "run.rrd", tmp_path / "none" / "run.rrd"):
        with pytest.raises(SystemExit) as end:
            main(["--out", str(path)])
        line = str(end.value.code)
        assert str(path) in line
        assert "\n" not in line
    assert (tmp_path / "run.rrd").read_text() == "mine"


@pytest.fixture
def own_signals():
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def test_a_full_disk_ends_it_with_one_line_and_status_1(tmp_path, monkeypatch, own_signals):
    """The kernel's own error, from a file that is always full: the layout alone does not fit."""
    real = rrd.RrdFile
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(rrd, "RrdFile", lambda _: real(full))
    with pytest.raises(SystemExit) as end:
        main(["--out", str(tmp_path / "run.rrd")])
    line = str(end.value.code)
    assert "run.rrd: No space left on device" in line
    assert "\n" not in line
