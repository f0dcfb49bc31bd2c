"""The recorders, of bags and for Rerun, against a real node and a real publisher in other processes."""

import json
import signal
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy

pytest.importorskip("rerun", reason="needs rerun: pip install 'goalreel[rerun]'")

import rerun as rr
from rclpy.executors import SingleThreadedExecutor
from rosbags.interfaces import QosDurability, QosReliability
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from std_msgs.msg import String
from support.bags import typestore
from support.places import SUPPORT
from support.ros import Other, other
from support.ros_bench import BLUE, GREEN, LATCHED, RED, Robot, rgb, seen
from support.rrd import entities, so_far, values, verify
from support.wait import until
from typer.testing import CliRunner

from goalreel.cli.main import app
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.image import Image
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import CriticVerdict, Storyboard, StoryboardStep, SubGoal
from goalreel_ros import record, rrd
from goalreel_ros.record import Recorder, drain
from goalreel_ros.rrd import Listener

pytestmark = pytest.mark.process

COLOURS = (RED, GREEN, BLUE)
TASK = " ".join(COLOURS)
NODE_TOPICS = (
    "/image",
    "/goalreel/subgoal",
    "/goalreel/storyboard",
    "/goalreel/progress",
    "/goalreel/markers",
    "/goalreel/subgoal/image/compressed",
    "/diagnostics",
)
CAMERA = ("camera/live", "EncodedImage:blob", "time")
VERDICTS = ("log/critic", "TextLog:text", "time")
STATE = ("lanes/state", "StateChange:state", "time")


def said(process: Other, words: str) -> int:
    return sum(words in line for line in process.lines)


def newest(path: Path, what: tuple[str, str, str]) -> Any:
    """Give what the file, which is being written, has of that; None as long as it has nothing."""
    found = so_far(path, *what)
    return found[-1][1] if found else None


def shows(blob: list[int] | None, colour: str) -> bool:
    return blob is not None and bool(
        np.abs(seen(Image.decode(bytes(blob)).pixels).astype(int) - rgb(colour)).max() < 40
    )


@pytest.fixture(scope="module")
def recorded(node, tmp_path_factory) -> tuple[Path, Path]:
    """One task from its first frame to its end, as a bag and for Rerun; the scene obeys each sub-goal."""
    bag, path = (tmp_path_factory.mktemp("node") / name for name in ("bag", "run.rrd"))
    bagger = Other("-m", "goalreel_ros.record", "--out", str(bag), *NODE_TOPICS)
    shower = Other("-m", "goalreel_ros.rrd", "--out", str(path))
    robot = Robot()
    robot.film()
    until(lambda: said(bagger, "recording /") == len(NODE_TOPICS) and said(shower, "the node is there"))
    until(lambda: robot.watchers() == 3)  # the node and both recorders
    until(lambda: newest(path, CAMERA))  # DDS may take longer to find it than the task lasts
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    handle = robot.send(ExecuteTask, "execute_task", task=TASK)
    for wanted in COLOURS:
        until(lambda: goals and goals[-1].active and goals[-1].instruction == wanted)  # noqa: B023
        until(lambda: said(shower, f"sub-goal: {wanted}"))  # noqa: B023
        until(lambda: newest(path, STATE) == "executing")
        time.sleep(0.4)
        robot.colour = wanted
    robot.result(handle)
    until(lambda: [line for line in shower.lines if "sub-goal: " in line][-1].endswith("sub-goal: none"))
    until(lambda: all(said(shower, f"{c}, attempt 1: accepted") for c in COLOURS))
    until(lambda: newest(path, STATE) == "succeeded")
    until(lambda: shows(newest(path, CAMERA), COLOURS[-1]))  # the camera goes on
    for process in (bagger, shower):
        assert process.stop(signal.SIGINT) == 0, process.lines
        assert not said(process, "Traceback")
    robot.close()
    return bag, path


def test_the_task_is_an_episode_with_every_sub_goal_at_its_frames(recorded, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["bag2lerobot", str(recorded[0]), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["steps"] == {"accepted": 3}
    source = Source.open(out)
    assert source.indices == (0,)
    episode = source.episode(0)
    assert episode.instruction == TASK
    assert source.cameras == ("observation.images.camera", "observation.images.subgoal")
    board = Records(out / FOLDER, "").outline(0)
    assert [s.step.instruction for s in board.steps] == list(COLOURS)
    assert [s.step.prompt for s in board.steps] == [f"paint {c}" for c in COLOURS]
    assert all(s.attempts[0].verdict.reasoning == "I looked." for s in board.steps)
    ends = [s.segment.end for s in board.steps]
    assert [s.segment.start for s in board.steps] == [0, *ends[:-1]]
    assert ends[-1] == len(episode)
    for step, wanted in zip(board.steps, COLOURS, strict=True):
        frames = [step.segment.start, step.segment.end - 1]
        for goal in episode.frames("observation.images.subgoal", frames):
            assert np.abs(seen(goal.pixels).astype(int) - rgb(wanted)).max() < 40
        (last,) = episode.frames("observation.images.camera", frames[1:])
        assert np.abs(seen(last.pixels).astype(int) - rgb(wanted)).max() < 40
    made = json.loads((out / "meta" / "bag.json").read_text())["episodes"][0]
    assert [m.startswith("server:") for m in made["models"][0]] == [True] * 3


def test_the_file_for_rerun_has_sub_goals_camera_verdicts_and_progress(recorded):
    _, recorded = recorded
    verify(recorded)
    steps = values(recorded, "lanes/step", "StateChange:state", "time")
    assert [name for _, name in steps if name] == [f"{i}. {c}" for i, c in enumerate(COLOURS, start=1)]
    assert steps[-1][1] == ""
    goals = values(recorded, "subgoal/goal", "EncodedImage:blob", "time")
    assert len(goals) == len(COLOURS)
    for (_, blob), wanted in zip(goals, COLOURS, strict=True):
        assert shows(blob, wanted)
    words = [text for _, text in values(recorded, "subgoal/words", "TextDocument:text", "time")]
    shown = f"1. {RED}\n\n{RED}\n\naccepted\n\nWords: by server, not checked\n"
    assert any(text.startswith(shown) for text in words)
    assert shows(values(recorded, *CAMERA)[-1][1], COLOURS[-1])
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


def test_a_file_that_is_there_is_kept(tmp_path, published):
    (tmp_path / "run.rrd").write_text("mine")
    for path in (tmp_path / "run.rrd", tmp_path / "none" / "run.rrd"):
        with pytest.raises(SystemExit) as end:
            rrd.main(["--out", str(path)])
        line = str(end.value.code)
        assert str(path) in line
        assert "\n" not in line
    assert (tmp_path / "run.rrd").read_text() == "mine"
    with pytest.raises(SystemExit) as end:
        record.main(["--out", str(published), "/image"])
    assert "exists already" in str(end.value.code)
    assert "\n" not in str(end.value.code)


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
        rrd.main(["--out", str(tmp_path / "run.rrd")])
    line = str(end.value.code)
    assert "run.rrd: No space left on device" in line
    assert "\n" not in line


# -- the bag's recorder, beside a publisher that counts

FRAMES = 16
APART = ("--ros-args", "-r", "__ns:=/bag", "-r", "/image:=/bag/image")
"""From the node's topics."""
TOPICS = {
    "/bag/goalreel/subgoal": "goalreel_interfaces/msg/SubGoal",
    "/bag/image": "sensor_msgs/msg/Image",
    "/joint_states": "sensor_msgs/msg/JointState",
    "/target": "std_msgs/msg/Float64MultiArray",
}


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> Path:
    """Recorded from the second process by the third; `/late` is never published."""
    bag = tmp_path_factory.mktemp("recorded") / "bag"
    with other(str(SUPPORT / "bag_publisher.py"), str(FRAMES), *APART) as publisher:
        recorder = Other("-m", "goalreel_ros.record", "--out", str(bag), *TOPICS, "/late")
        until(lambda: sum("recording /" in line for line in recorder.lines) == len(TOPICS))
        publisher.say("go")
        until(lambda: "DONE" in publisher.lines)
        assert recorder.stop(signal.SIGINT) == 0, recorder.lines
        assert recorder.lines[-1] == f"{3 * FRAMES + 3} messages"
        assert not [line for line in recorder.lines if "Traceback" in line]
    return bag


def test_the_bag_has_every_message_its_definition_and_the_offered_qos(published):
    with Reader(published) as reader:
        assert {c.topic: c.msgtype for c in reader.connections} == TOPICS
        assert {c.topic: c.msgcount for c in reader.connections} == {
            "/bag/goalreel/subgoal": 3,
            "/bag/image": FRAMES,
            "/joint_states": FRAMES,
            "/target": FRAMES,
        }
        for connection in reader.connections:
            assert connection.digest == typestore().hash_rihs01(connection.msgtype)
        qos = {c.topic: c.ext.offered_qos_profiles[0] for c in reader.connections}
        told = [(c.topic, t) for c, t, _ in reader.messages()]
    assert qos["/bag/goalreel/subgoal"].durability is QosDurability.TRANSIENT_LOCAL
    assert qos["/bag/image"].reliability is QosReliability.BEST_EFFORT
    assert qos["/target"].reliability is QosReliability.RELIABLE
    assert told[0][0] == "/bag/goalreel/subgoal", "what was latched before comes first"
    assert [t for _, t in told] == sorted(t for _, t in told)
    seconds = (told[-1][1] - told[1][1]) / 1e9
    assert 0.05 * FRAMES < seconds < 60


def test_what_waits_when_it_ends_is_recorded_too(tmp_path):
    with (
        rclpy.init(args=[]),
        Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer,
    ):
        node, executor = rclpy.create_node("recorder"), SingleThreadedExecutor()
        executor.add_node(node)
        publishers = [node.create_publisher(String, topic, 50) for topic in ("/a", "/b")]
        Recorder(node, writer, ["/a", "/b"])
        until(lambda: executor.spin_once(0.1) or all(p.get_subscription_count() for p in publishers))
        for i in range(20):
            for publisher in publishers:
                publisher.publish(String(data=str(i)))
        time.sleep(1)
        drain(executor, writer)
        assert sum(writer.counts.values()) == 40


def test_before_anything_was_published_it_ends_cleanly(tmp_path):
    with other("-m", "goalreel_ros.record", "--out", str(tmp_path / "bag"), "/nobody", ready="waiting") as it:
        assert it.stop(signal.SIGTERM) == 0
        assert it.lines[-1] == "0 messages"
    assert (tmp_path / "bag" / "metadata.yaml").is_file()


def test_a_full_disk_is_one_line_and_status_1(tmp_path, monkeypatch):
    """The kernel's own error, from a file that is always full."""

    def fill(writer: Writer, topics: list[str], command: list[str]) -> None:
        writer.storage.bio = Path("/dev/full").open("wb")  # noqa: SIM115
        connection = writer.add_connection("/text", "std_msgs/msg/String", typestore=typestore())
        for at in range(4):
            writer.write(connection, at, bytes(2**20))

    monkeypatch.setattr("goalreel_ros.record._record", fill)
    with pytest.raises(SystemExit) as end:
        record.main(["--out", str(tmp_path / "bag"), "/text"])
    line = str(end.value.code)
    assert "No space left on device: the bag ends early" in line
    assert "\n" not in line
