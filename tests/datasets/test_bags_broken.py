"""Bags that cannot be used: one line each, that says what to do; and nothing is left behind."""

import random
from pathlib import Path

import numpy as np
import pytest
from support import bags as b
from typer.testing import CliRunner

from goalreel.cli.main import app
from goalreel.datasets.bags.convert import convert, read_bags
from goalreel.datasets.bags.topics import TopicRequest
from goalreel.errors import DatasetError

MS = 1_000_000
TASK = ("--task", "t")


def refusal(*arguments: object) -> str:
    """The one line on stderr."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = [x for x in result.stderr.splitlines() if x.startswith("goalreel: ")]
    return line


def refused(tmp_path: Path, sent: list[b.Sent], *arguments: str, topics: dict[str, str] | None = None) -> str:
    b.write_bag(tmp_path / "bag", sorted(sent, key=lambda s: s.at), topics=topics)
    line = refusal("bag2lerobot", tmp_path / "bag", "--out", tmp_path / "out", *arguments)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left in (["bag"], [".out.unfinished", "bag"])
    return line


@pytest.fixture(scope="module")
def robot() -> list[b.Sent]:
    return list(b.robot(12))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            (*TASK, "--state-topic", "/joints"),
            "no topic /joints; it has /image (sensor_msgs/msg/Image), /joint",
        ),
        (
            (*TASK, "--state-topic", "/image"),
            "/image (sensor_msgs/msg/Image) does not hold numbers; it has /joint",
        ),
        ((*TASK, "--image-topic", "/target"), "does not hold images; it has /image (sensor_msgs/msg/Image)"),
        ((*TASK, "--image-topic", "a b=/image"), "'a b' cannot be the camera's name"),
        ((*TASK, "--image-topic", "a=/image", "--image-topic", "b=/image"), "/image is given twice"),
        ((*TASK, "--subgoal-topic", "/image"), "does not hold SubGoal"),
        ((), "the instruction is not known: pass --task TEXT or --instruction-topic"),
        (("--task", " "), "--task is empty"),
        ((*TASK, "--instruction-topic", "/target"), "not both"),
        (("--instruction-topic", "/target"), "does not hold text"),
        ((*TASK, "--state-topic", "/silent"), "/silent (std_msgs/msg/Float32) has no message"),
    ],
)
def test_topics_that_are_not_there_or_not_right(tmp_path, robot, arguments, says):
    assert says in refused(tmp_path, robot, *arguments, topics={"/silent": "std_msgs/msg/Float32"})


def test_images_must_be_there_and_named_where_there_are_several(tmp_path, robot):
    assert "no images in it; it has /joint_states" in refused(
        tmp_path / "none", [s for s in robot if s.topic != "/image"], *TASK
    )
    two = [*robot, b.image(0, b.moving(0), topic="/wrist/image")]
    assert "pass --image-topic; it has /image (sensor_msgs/msg/Image), /wrist/image" in refused(
        tmp_path / "two", two, *TASK
    )


@pytest.mark.parametrize(
    ("pixels", "encoding", "says"),
    [
        (np.zeros((48, 48), np.uint16), "16UC1", "'16UC1' is a depth map"),
        (np.zeros((48, 48), np.uint8), "bayer_rggb8", "debayer"),
        (np.zeros((48, 40, 3), np.uint8), "rgb8", "pictures of 48x48 and of 40x48"),
        (np.zeros((48, 48), np.uint8), "rgb8", "step 48 and 2304 bytes"),
    ],
)
def test_a_camera_that_changes_its_mind(tmp_path, robot, pixels, encoding, says):
    changed = [b.image(s.at, pixels, encoding=encoding) if s.topic == "/image" else s for s in robot[18:]]
    line = refused(tmp_path, [*robot[:18], *changed], *TASK)
    assert says in line
    assert "/image" in line


def test_odd_and_huge_pictures(tmp_path):
    odd = [b.image(i * 100 * MS, np.zeros((47, 48, 3), np.uint8)) for i in range(3)]
    assert "pictures of 48x47: the video encoder wants even sides" in refused(tmp_path / "odd", odd, *TASK)
    huge = [b.image(i * 100 * MS, np.zeros((2, 2, 3), np.uint8)) for i in range(3)]
    huge[1].fields.update(height=2**31, width=2**31)
    assert "too large" in refused(tmp_path / "huge", huge, *TASK)
    broken = [b.compressed(i * 100 * MS, b.moving(i)) for i in range(3)]
    broken[1].fields["data"] = broken[1].fields["data"][:100]
    assert "message 1: not a readable image" in refused(tmp_path / "broken", broken, *TASK)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (b.joints(500 * MS, ("a", "b", "gripper"), (1, np.nan, 2)), "/joint_states: message 6 holds NaN"),
        (b.joints(500 * MS, ("a", "b", "gripper"), (1, 2)), "3 joint names but 2 positions"),
        (b.array(500 * MS, (1, 2, 3)), "/target: message 5 has 3 values"),
    ],
)
def test_numbers_that_do_not_fit(tmp_path, robot, extra, says):
    arguments = (*TASK, "--state-topic", "/joint_states", "--action-topic", "/target")
    assert says in refused(tmp_path, [*robot, extra], *arguments)


def test_topics_without_numbers(tmp_path, robot):
    silent = [b.joints(s.at, ("a", "b"), (), topic="/efforts") for s in robot]
    line = refused(tmp_path / "a", [*robot, *silent], *TASK, "--state-topic", "/efforts")
    assert "/efforts: there are no positions in its messages" in line
    empty = [b.array(s.at, (), topic="/empty") for s in robot]
    line = refused(tmp_path / "b", [*robot, *empty], *TASK, "--state-topic", "/empty")
    assert "/empty: there are no numbers in its messages" in line


def test_a_clock_of_reception_that_jumps_back(tmp_path):
    """The camera's own stamps tell; after the jump the messages of two passes lie between one another."""
    jumped = [
        b.image((i if i < 20 else i - 15) * 100 * MS, b.moving(i), taken=i * 100 * MS) for i in range(30)
    ]
    line = refused(tmp_path, jumped, *TASK)
    assert "/image: header stamps go to and fro at message 9: did the clock jump? use --clock header" in line


def test_a_time_that_is_none(tmp_path, robot):
    far = b.image(2**62 - b.START, b.moving(0), taken=0)
    line = refused(tmp_path, [*robot, far], *TASK)
    assert "/image: message 12: its time, 4611686018427387904 ns, is none" in line


def test_clocks(tmp_path, robot):
    looped = [b.image(s.at, b.moving(0), taken=s.at % (500 * MS)) for s in robot if s.topic == "/image"]
    line = refused(tmp_path / "back", looped, *TASK, "--clock", "header")
    assert "/image: header stamps go backwards at message 5: use --clock received" in line
    zero = [b.image(s.at, b.moving(0), taken=-b.START) for s in robot if s.topic == "/image"]
    assert "stamp is zero" in refused(tmp_path / "zero", zero, *TASK, "--clock", "header")


def test_topics_whose_clocks_differ(tmp_path, robot):
    booted = [
        b.image(s.at, b.moving(0), taken=s.at - b.START + b.SECOND) for s in robot if s.topic == "/image"
    ]
    others = [s for s in robot if s.topic == "/target"]
    line = refused(tmp_path, [*booted, *others], *TASK, "--state-topic", "/target", "--clock", "header")
    assert (
        "no two frames in a row have all topics asked for: is the bag cut short, or do their clocks" in line
    )


def test_an_empty_instruction(tmp_path, robot):
    line = refused(tmp_path / "a", [*robot, b.text(0, " ")], "--instruction-topic", "/instruction")
    assert "/instruction: an empty instruction: pass --task TEXT" in line
    line = refused(tmp_path / "b", [*robot, b.subgoal(0, 0, "pick", task="")])
    assert "/goalreel/subgoal: an empty instruction" in line


def test_bags_too_short_for_an_episode(tmp_path, robot):
    assert "fewer than two pictures in time" in refused(tmp_path / "one", robot[:3], *TASK)
    apart = [s for s in robot if s.topic == "/image"] + [b.joints(5000 * MS, ("a",), (1,))]
    line = refused(tmp_path / "apart", apart, *TASK, "--state-topic", "/joint_states")
    assert "no two frames in a row have all topics" in line


def test_a_bag_with_nothing_in_it(tmp_path):
    assert "no images in it; it has no topics at all" in refused(tmp_path, [], *TASK)


def test_bags_that_do_not_go_together(tmp_path):
    b.write_bag(tmp_path / "bags" / "a", b.robot(12))
    b.write_bag(tmp_path / "bags" / "b", b.robot(12, fps=20))
    line = refusal("bag2lerobot", tmp_path / "bags", "--out", tmp_path / "out", *TASK)
    assert "bags/b: fps 20, but 10 in" in line


def test_no_bag(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    for path in (tmp_path, tmp_path / "notes.txt", tmp_path / "absent", tmp_path / "absent.mcap"):
        assert "no bag there" in refusal("bag2lerobot", path, "--out", tmp_path / "out", *TASK)
    assert "is no ROS 2 bag, so topics" in refusal("annotate", tmp_path, "--out", tmp_path / "out", *TASK)
    assert "not a LeRobot dataset" in refusal("annotate", tmp_path, "--out", tmp_path / "out")


def test_a_goal_image_that_cannot_be_read(tmp_path, robot):
    broken = b.subgoal(0, 0, "pick", picture=b.moving(25))
    broken.fields["goal_image"]["data"] = broken.fields["goal_image"]["data"][:50]
    b.write_bag(tmp_path / "bag", sorted([*robot, broken], key=lambda s: s.at))
    line = refusal("bag2lerobot", tmp_path / "bag", "--out", tmp_path / "out")
    assert "a goal image of episode 0: not a readable image" in line


def test_an_out_that_is_somebody_elses(tmp_path, robot):
    b.write_bag(tmp_path / "bag", robot)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    line = refusal("bag2lerobot", tmp_path / "bag", "--out", tmp_path / "out", *TASK)
    assert "holds files that goalreel did not write" in line


def test_a_type_the_bag_does_not_define(tmp_path, robot):
    """As sqlite3 bags before ROS 2 Iron: the standard types are known, ours are not."""
    import sqlite3

    sent = sorted([*robot, b.subgoal(0, 0, "pick", picture=b.moving(25))], key=lambda s: s.at)
    b.write_bag(tmp_path / "bag", sent, "sqlite3")
    (file,) = (tmp_path / "bag").glob("*.db3")
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM message_definitions")
    line = refusal("bag2lerobot", tmp_path / "bag", "--out", tmp_path / "out")
    assert "of type goalreel_interfaces/msg/SubGoal, which the bag does not define: record it to MCAP" in line


@pytest.mark.parametrize("truncations", [6, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_damaged_files_are_refused_or_read_but_never_end_in_a_traceback(
    tmp_path, robot, storage, truncations
):
    """Truncations and flipped bits, in the file that holds the messages and in metadata.yaml."""
    small = [s for s in robot if s.topic != "/image"] + [
        b.image(i * 100 * MS, np.full((16, 16, 3), 9, np.uint8)) for i in range(12)
    ]
    bag = b.write_bag(tmp_path / "bag", sorted(small, key=lambda s: s.at), storage)
    request = TopicRequest(task="t", states=("/joint_states",))
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


def test_a_recording_cut_short_says_how_to_save_it(tmp_path, robot):
    b.write_bag(tmp_path / "bag", robot)
    (file,) = (tmp_path / "bag").glob("*.mcap")
    file.write_bytes(file.read_bytes()[:-400])
    for path in (tmp_path / "bag", file):
        line = refusal("bag2lerobot", path, "--out", tmp_path / "out", *TASK)
        assert "truncated? `mcap recover`" in line
    file.write_bytes(b"")
    assert "not readable as a ROS 2 bag" in refusal("bag2lerobot", file, "--out", tmp_path / "out", *TASK)


def test_a_second_conversion_at_the_same_time_is_refused(tmp_path, robot):
    from goalreel.files import exclusive

    bag = b.write_bag(tmp_path / "bag", robot)
    request = TopicRequest(task="t")
    with (
        exclusive(tmp_path / ".out.unfinished", tmp_path / "out"),
        pytest.raises(DatasetError, match="another goalreel run"),
    ):
        convert(read_bags(bag, request), request, tmp_path / "out")
