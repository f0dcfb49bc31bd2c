"""Bags that cannot be used: one line each, that says what to do; and no half of a dataset is left."""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from support import bags as b
from support.cli import fails

from goalreel.datasets.bags import TopicRequest
from goalreel.datasets.bags.convert import read_bags
from goalreel.errors import DatasetError

MS = 1_000_000
TASK = ("--task", "t")


def refused(tmp_path: Path, sent: list[b.Sent], *arguments: str, topics: dict[str, str] | None = None) -> str:
    b.write_bag(tmp_path / "bag", sent, topics=topics)
    line = fails("bag2lerobot", tmp_path / "bag", "--out", tmp_path / "out", *arguments)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left in (["bag"], [".out.unfinished", "bag"])
    return line


@pytest.fixture(scope="module")
def robot() -> list[b.Sent]:
    return list(b.robot(12))


STATES = ("--state-topic", "/joint_states")
TOPICS: dict[str, tuple[tuple[str, ...], str]] = {
    "none": ((*TASK, "--state-topic", "/joints"), "no topic /joints; it has /image (sensor_msgs/msg/Image)"),
    "numbers": ((*TASK, "--image-topic", "/target"), "does not hold images; it has /image (sensor_msgs/msg"),
    "a name": ((*TASK, "--image-topic", "a b=/image"), "'a b' cannot be the camera's name"),
    "twice": ((*TASK, "--image-topic", "a=/image", "--image-topic", "b=/image"), "/image is given twice"),
    "no task": ((), "the instruction is not known: pass --task TEXT or --instruction-topic"),
    "an empty task": (("--task", " "), "--task is empty"),
    "two tasks": ((*TASK, "--instruction-topic", "/target"), "not both"),
    "no text": (("--instruction-topic", "/target"), "does not hold text"),
    "silent": ((*TASK, "--state-topic", "/silent"), "/silent (std_msgs/msg/Float32) has no message"),
}


@pytest.mark.parametrize("name", TOPICS)
def test_topics_that_are_not_there_or_not_right(name, tmp_path, robot):
    arguments, says = TOPICS[name]
    assert says in refused(tmp_path, robot, *arguments, topics={"/silent": "std_msgs/msg/Float32"})


def pictures(pixels: np.ndarray, encoding: str = "rgb8") -> Callable[[list[b.Sent]], list[b.Sent]]:
    """Another kind of pictures from the seventh on."""

    def change(robot: list[b.Sent]) -> list[b.Sent]:
        late = [b.image(s.at, pixels, encoding=encoding) if s.topic == "/image" else s for s in robot[18:]]
        return [*robot[:18], *late]

    return change


def camera(robot: list[b.Sent], taken: Callable[[b.Sent], int]) -> list[b.Sent]:
    """The camera alone, each picture taken when its own clock says so."""
    return [b.image(s.at, b.moving(0), taken=taken(s)) for s in robot if s.topic == "/image"]


def damaged(robot: list[b.Sent]) -> list[b.Sent]:
    sent = [b.compressed(i * 100 * MS, b.moving(i)) for i in range(3)]
    sent[1].fields["data"] = sent[1].fields["data"][:100]
    return sent


def booted(robot: list[b.Sent]) -> list[b.Sent]:
    """A camera whose clock began with it."""
    others = [s for s in robot if s.topic == "/target"]
    return camera(robot, lambda s: s.at - b.START + b.SECOND) + others


def adds(*sent: b.Sent) -> Callable[[list[b.Sent]], list[b.Sent]]:
    return lambda robot: [*robot, *sent]


def jumped(robot: list[b.Sent]) -> list[b.Sent]:
    """After the jump of the recorder's clock the messages of two passes lie between one another."""
    return [b.image((i if i < 20 else i - 15) * 100 * MS, b.moving(i), taken=i * 100 * MS) for i in range(30)]


HEADER = (*TASK, "--clock", "header")
NUMBERS = (*TASK, *STATES, "--action-topic", "/target")
ARMS = ("a", "b", "gripper")
type Change = Callable[[list[b.Sent]], list[b.Sent]]
BAGS: dict[str, tuple[Change, tuple[str, ...], str]] = {
    "no images": (
        lambda robot: [s for s in robot if s.topic != "/image"], TASK, "no images in it; it has /joint_states"
    ),
    "two cameras": (
        adds(b.image(0, b.moving(0), topic="/wrist/image")),
        TASK,
        "pass --image-topic; it has /image (sensor_msgs/msg/Image), /wrist/image",
    ),
    "a depth map": (pictures(np.zeros((48, 48), np.uint16), "16UC1"), TASK, "image encoding '16UC1'"),
    "another size": (pictures(np.zeros((48, 40, 3), np.uint8)), TASK, "pictures of 48x48 and of 40x48"),
    "odd pictures": (
        lambda _: [b.image(i * 100 * MS, np.zeros((47, 48, 3), np.uint8)) for i in range(3)],
        TASK,
        "pictures of 48x47: the video encoder wants even sides",
    ),
    "pictures of one time": (
        lambda _: [b.image(0, b.moving(i)) for i in range(3)], TASK, "fewer than two pictures in time"
    ),
    "damaged pictures": (damaged, TASK, "message 1: not a readable image"),
    "NaN": (adds(b.joints(500 * MS, ARMS, (1, np.nan, 2))), NUMBERS, "/joint_states: message 6 holds NaN"),
    "a missing joint": (adds(b.joints(500 * MS, ARMS, (1, 2))), NUMBERS, "3 joint names but 2 positions"),
    "more numbers": (adds(b.array(500 * MS, (1, 2, 3))), NUMBERS, "/target: message 5 has 3 values"),
    "efforts alone": (
        lambda robot: [*robot, *(b.joints(s.at, ("a", "b"), (), topic="/efforts") for s in robot)],
        (*TASK, "--state-topic", "/efforts"),
        "/efforts: there are no positions in its messages",
    ),
    "a clock that jumps back": (
        jumped, TASK, "/image: header stamps go to and fro at message 9: did the clock jump? use --clock"
    ),
    "a time that is none": (
        adds(b.image(2**62 - b.START, b.moving(0), taken=0)),
        TASK,
        "/image: message 12: its time, 4611686018427387904 ns, is none",
    ),
    "a header clock that jumps": (
        lambda robot: camera(robot, lambda s: s.at % (500 * MS)),
        HEADER,
        "/image: header stamps go backwards at message 5: use --clock received",
    ),
    "stamps of zero": (lambda robot: camera(robot, lambda s: -b.START), HEADER, "stamp is zero"),
    "clocks that differ": (
        booted,
        (*HEADER, "--state-topic", "/target"),
        "the stamps of /image are 1699999999.0 s older than those of /target",
    ),
    "an empty instruction": (
        adds(b.text(0, " ")),
        ("--instruction-topic", "/instruction"),
        "/instruction: an empty instruction: pass --task TEXT",
    ),
    "one picture": (lambda robot: robot[:3], TASK, "fewer than two pictures in time"),
    "topics apart": (
        lambda robot: [*camera(robot, lambda s: s.at), b.joints(5000 * MS, ("a",), (1,))],
        (*TASK, *STATES),
        "no two frames in a row have all topics",
    ),
    "nothing": (lambda _: [], TASK, "no images in it; it has no topics at all"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAGS)
def test_a_bag_that_cannot_be_used_is_one_line(name, tmp_path, robot):
    change, arguments, says = BAGS[name]
    assert says in refused(tmp_path, change(robot), *arguments)


def test_bags_that_do_not_go_together(tmp_path):
    b.write_bag(tmp_path / "bags" / "a", b.robot(12))
    b.write_bag(tmp_path / "bags" / "b", b.robot(12, fps=20))
    line = fails("bag2lerobot", tmp_path / "bags", "--out", tmp_path / "out", *TASK)
    assert "bags/b: fps 20, but 10 in" in line


def test_no_bag(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    for path in (tmp_path, tmp_path / "notes.txt", tmp_path / "absent", tmp_path / "absent.mcap"):
        assert "no bag there" in fails("bag2lerobot", path, "--out", tmp_path / "out", *TASK)
    assert "is no ROS 2 bag, so topics" in fails("annotate", tmp_path, "--out", tmp_path / "out", *TASK)
    assert "not a LeRobot dataset" in fails("annotate", tmp_path, "--out", tmp_path / "out")


def test_a_goal_image_that_cannot_be_read(tmp_path, robot):
    broken = b.subgoal(0, 0, "pick", picture=b.moving(25))
    broken.fields["goal_image"]["data"] = broken.fields["goal_image"]["data"][:50]
    b.write_bag(tmp_path / "bag", [*robot, broken])
    line = fails("bag2lerobot", tmp_path / "bag", "--out", tmp_path / "out")
    assert "a goal image of episode 0: not a readable image" in line


def test_an_out_that_is_somebody_elses(tmp_path, robot):
    b.write_bag(tmp_path / "bag", robot)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    line = fails("bag2lerobot", tmp_path / "bag", "--out", tmp_path / "out", *TASK)
    assert "holds files that goalreel did not write" in line


EMPTIED = {
    # As before ROS 2 Iron: the standard types are known, ours are not.
    "message_definitions": "goalreel_interfaces/msg/SubGoal, which the bag does not define: record it to",
    "messages": "/image: none of its 12 messages is there: truncated?",
}


@pytest.mark.parametrize(("table", "says"), EMPTIED.items())
def test_an_empty_table_of_a_bag(table, says, tmp_path, robot):
    sent = [*robot, b.subgoal(0, 0, "pick", picture=b.moving(25))]
    b.write_bag(tmp_path / "bag", sent, "sqlite3")
    (file,) = (tmp_path / "bag").glob("*.db3")
    with sqlite3.connect(file) as connection:
        connection.execute(f"DELETE FROM {table}")
    assert says in fails("bag2lerobot", tmp_path / "bag", "--task", "t", "--out", tmp_path / "out")


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_damaged_files_are_refused_or_read_but_never_end_in_a_traceback(tmp_path, robot, storage):
    """Truncations and flipped bits, in the file that holds the messages and in metadata.yaml."""
    truncations = 6
    small = [s for s in robot if s.topic != "/image"]
    small += [b.image(i * 100 * MS, np.full((16, 16, 3), 9, np.uint8)) for i in range(12)]
    bag = b.write_bag(tmp_path / "bag", small, storage)
    request = TopicRequest(task="t", state_topic=["/joint_states"])
    chance = random.Random(0)
    refusals, read = [], 0
    for file in sorted(bag.iterdir()):
        whole = file.read_bytes()
        damaged = [whole[: chance.randrange(len(whole))] for _ in range(truncations)]
        for _ in range(4 * truncations):
            data = bytearray(whole)
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            damaged.append(bytes(data))
        for data in damaged:
            file.write_bytes(data)
            try:
                read_bags(bag, request)
            except DatasetError as e:
                refusals.append(str(e))
            else:
                read += 1
        file.write_bytes(whole)
    assert min(len(refusals), read) > 2 * truncations
    assert not [line for line in refusals if "\n" in line]


@pytest.mark.parametrize("lacks", ["claims", "degraded", "probability"])
def test_a_recording_of_an_older_node(lacks, tmp_path, robot, monkeypatch):
    before = b.typestore(rf"\] {lacks} |float32 {lacks}")
    monkeypatch.setattr(b, "typestore", lambda: before)
    shown, plan = b.subgoal(-5 * MS, 0, "pick"), b.storyboard(-30 * MS, ("pick",), 0)
    for fields in (shown.fields, plan.fields["steps"][0]["critic"]):
        fields.pop(lacks, None)
    line = refused(tmp_path, [plan, shown, *robot], *TASK)
    assert f"older goalreel node: its sub-goals hold no {lacks}: record it again" in line


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_messages_that_a_killed_recorder_left_beside_its_database_are_not_lost(journal, tmp_path, robot):
    """It was killed after some messages, or within a change of them: the files are as they lay then."""
    (written,) = b.write_bag(tmp_path / "written", robot, "sqlite3").glob("*.db3")
    file = tmp_path / "bag" / written.name
    with closing(sqlite3.connect(written, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute(f"PRAGMA journal_mode = {journal}")
        db.execute("BEGIN")
        db.execute("UPDATE messages SET timestamp = timestamp + 1")
        if journal == "wal":
            db.execute("COMMIT")
        shutil.copytree(written.parent, file.parent)
    for path in (tmp_path / "bag", file):
        line = fails("bag2lerobot", path, "--out", tmp_path / "out", *TASK)
        assert f"left: `sqlite3 '{file}' VACUUM` merges it" in line
    with closing(sqlite3.connect(file)) as database:
        database.execute("VACUUM")
    assert read_bags(tmp_path / "bag", TopicRequest(task="t"))


def test_a_file_that_the_bag_does_not_list_is_told(tmp_path, robot, caplog):
    (file,) = b.write_bag(tmp_path / "bag", robot).glob("*.mcap")
    read_bags(tmp_path / "bag", TopicRequest(task="t"))
    assert not caplog.messages
    shutil.copy(file, tmp_path / "bag" / "later.mcap")
    read_bags(tmp_path / "bag", TopicRequest(task="t"))
    assert "later.mcap is not read: metadata.yaml does not list it" in caplog.text


def test_a_recording_cut_short_says_how_to_save_it(tmp_path, robot):
    b.write_bag(tmp_path / "bag", robot)
    (file,) = (tmp_path / "bag").glob("*.mcap")
    file.write_bytes(file.read_bytes()[:-400])
    for path in (tmp_path / "bag", file):
        line = fails("bag2lerobot", path, "--out", tmp_path / "out", *TASK)
        assert "truncated? `mcap recover`" in line
    file.write_bytes(b"")
    assert "not readable as a ROS 2 bag" in fails("bag2lerobot", file, "--out", tmp_path / "out", *TASK)


@pytest.mark.process
@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.lab), pytest.param(60, marks=pytest.mark.slow)]
)
def test_a_conversion_killed_anywhere_and_run_again_ends_with_the_same_bytes(tmp_path, kills):
    other = 10_000 * MS
    sent = [*b.robot(20), *b.robot(20, after=other)]
    sent += [
        b.subgoal(at, i, name, picture=b.moving(20 + i), task=task, id_=id_)
        for at, i, name, task, id_ in (
            (0, 0, "pick", "tidy", b.STORYBOARD_ID),
            (1000 * MS, 1, "place", "tidy", b.STORYBOARD_ID),
            (other, 0, "wipe", "wipe", b.STORYBOARD_ID[::-1]),
        )
    ]
    sent.append(b.subgoal(2000 * MS, 1, "place", active=False))
    bag = b.write_bag(tmp_path / "bag", sent)
    command = [sys.executable, "-m", "support.killing", "bag", bag, tmp_path, str(kills), "0"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["wrong"] == []
    assert report["half"] == 0
    assert report["before_done"] >= kills // 2
    assert len(set(report["stages"])) > 1
