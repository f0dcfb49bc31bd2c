"""Bags in, LeRobot datasets out: every value where it was, read back by lerobot and by ourselves."""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from support import bags as b
from support.cli import fails, goalreel
from support.faults import DATA
from support.recordings import load

from goalreel.claims import Claim
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source

MS = 1_000_000
CAMERA = "observation.images.camera"
SUBGOAL = "observation.images.subgoal"
TOPICS = ("--state-topic", "/joint_states", "--action-topic", "/target")


def run(*arguments: object) -> dict:
    return json.loads(goalreel(*arguments, "--json").splitlines()[-1])


def convert(bag: Path, out: Path, *arguments: object) -> Source:
    run("bag2lerobot", bag, "--out", out, *arguments)
    return Source.open(out)


def converted(folder: Path, sent: Iterable[b.Sent], *arguments: object) -> Source:
    return convert(b.write_bag(folder / "bag", sent), folder / "out", *arguments)


def numbers(source: Source, episode: int, camera: str = CAMERA) -> list[int]:
    """Which `moving` picture each frame shows."""
    one = source.episode(episode)
    return [b.number_of(i.pixels) for i in one.frames(camera, range(len(one)))]


@pytest.fixture(scope="module", params=["mcap", "sqlite3"])
def plain(request, tmp_path_factory) -> tuple[Path, Source]:
    folder = tmp_path_factory.mktemp("plain")
    bag = b.write_bag(folder / "bag", b.robot(), request.param)
    return bag, convert(bag, folder / "out", "--task", "tidy up", *TOPICS)


def test_every_value_is_in_its_frame_also_for_lerobot_and_nothing_else_is_left(plain):
    bag, source = plain
    assert (source.fps, source.indices, list(source.cameras)) == (10, (0,), [CAMERA])
    episode = source.episode(0)
    assert episode.instruction == "tidy up"
    assert numbers(source, 0) == list(range(20))
    want = np.array([(np.float64(0.1) * i, -i, i % 2) for i in range(20)]).astype(np.float32)
    assert np.array_equal(episode.state, want)
    assert np.array_equal(episode.action, np.array([(0.5 * i, 1) for i in range(20)], np.float32))
    assert episode.state_names == ("a", "b", "gripper")
    assert episode.action_names == ("target.0", "target.1")
    assert np.allclose(episode.timestamps, np.arange(20) / 10)
    dataset = load(source.root)
    assert len(dataset) == 20
    assert dataset[7]["task"] == "tidy up"
    assert dataset[7][CAMERA].shape == (3, 48, 48)
    assert dataset[7]["observation.state"].tolist() == pytest.approx([0.7, -7, 1])
    assert set(dataset.meta.stats) >= {CAMERA, "observation.state", "action"}
    assert sorted(p.name for p in bag.parent.iterdir()) == ["bag", "out"]
    made = json.loads((source.root / "meta" / "bag.json").read_text())
    told = {"bag": "bag", "frames": 20, "models": [], "start_ns": b.START, "task": "tidy up"}
    assert made["episodes"] == [told]
    assert str(bag.parent) not in json.dumps(made)


def test_run_again_it_changes_nothing_and_other_settings_are_refused(plain):
    bag, source = plain
    before = {p: p.stat().st_mtime_ns for p in source.root.rglob("*")}
    left = source.root.with_name(".out.unfinished")  # of a run that was killed when all was done
    left.mkdir()
    (left / "lock").touch()
    convert(bag, source.root, "--task", "tidy up", *TOPICS)
    assert not left.exists()
    for arguments in (["--task", "other", *TOPICS], ["--task", "tidy up"]):
        assert "with other settings (" in fails("bag2lerobot", bag, "--out", source.root, *arguments)
    assert {p: p.stat().st_mtime_ns for p in source.root.rglob("*")} == before


def test_topics_of_many_rates_meet_on_one_time_line(tmp_path):
    """A leading camera at 10 Hz, a compressed one at 4 Hz, arm at 50 Hz, gripper once, commands at 25 Hz."""
    sent = [b.image(i * 100 * MS, b.moving(i), topic="/front/image_raw") for i in range(15)]
    wrist = "/wrist/image/compressed"
    sent += [b.compressed(-60 * MS + i * 250 * MS, b.moving(i), topic=wrist) for i in range(7)]
    sent += [b.joints(-50 * MS + i * 20 * MS, ("x",), (i,), topic="/arm") for i in range(90)]
    sent += [b.Sent(-55 * MS, "/gripper", "std_msgs/msg/Float32", {"data": 0.5})]
    sent += [b.array(-50 * MS + i * 40 * MS, (i,)) for i in range(50)]
    bag = b.write_bag(tmp_path / "bag", sent)
    images = ("--image-topic", "/front/image_raw", "--image-topic", "hand=/wrist/image/compressed")
    rows = ("--state-topic", "/arm", "--state-topic", "/gripper", "--action-topic", "/target")
    source = convert(bag, tmp_path / "out", *images, *rows, "--task", "t")
    assert source.cameras == ("observation.images.front", "observation.images.hand")
    episode = source.episode(0)
    assert numbers(source, 0, "observation.images.front") == list(range(15))
    moments = np.arange(15) * 100
    assert numbers(source, 0, "observation.images.hand") == [(m + 60) // 250 for m in moments]
    assert episode.state.tolist() == [[(m + 50) // 20, 0.5] for m in moments]
    assert episode.state_names == ("arm.x", "gripper.0")
    assert episode.action[:, 0].tolist() == [(m + 100 + 50) // 40 for m in moments]


def test_frames_begin_when_every_topic_has_spoken(tmp_path):
    late = [s for s in b.robot(10) if s.topic != "/joint_states" or s.at > 290 * MS]
    source = converted(tmp_path, late, "--task", "t", *TOPICS)
    assert numbers(source, 0) == list(range(3, 10))


def test_by_the_header_clock_a_late_picture_is_where_it_was_taken(tmp_path):
    sent = [b.joints(i * 10 * MS, ("x",), (i,)) for i in range(130)]
    sent += [b.image(i * 100 * MS + 40 * MS, b.moving(i), taken=i * 100 * MS) for i in range(10)]
    bag = b.write_bag(tmp_path / "bag", sent)
    states = ("--task", "t", "--state-topic", "/joint_states")
    received = convert(bag, tmp_path / "a", *states).episode(0)
    header = convert(bag, tmp_path / "b", *states, "--clock", "header").episode(0)
    assert received.state[:, 0].tolist() == [10 * i + 4 for i in range(10)]
    assert header.state[:, 0].tolist() == [10 * i for i in range(10)]


def test_each_instruction_starts_an_episode(tmp_path):
    texts = [b.text(-5 * MS, "first"), b.text(795 * MS, "second "), b.text(1995 * MS, "too late")]
    source = converted(tmp_path, [*b.robot(20), *texts], "--instruction-topic", "/instruction", *TOPICS)
    assert [source.episode(i).instruction for i in source.indices] == ["first", "second"]
    assert numbers(source, 0) == list(range(8))
    assert numbers(source, 1) == list(range(8, 20))


def test_a_folder_of_bags_is_a_dataset_with_an_episode_each(tmp_path):
    for name, first, storage in (("b", 9, "mcap"), ("a", 3, "sqlite3")):
        sent = [s for s in b.robot(20) if s.at >= (first * 100 - 5) * MS]
        b.write_bag(tmp_path / "bags" / name, sent, storage)
    source = convert(tmp_path / "bags", tmp_path / "out", "--task", "t", *TOPICS)
    assert [numbers(source, i) for i in (0, 1)] == [list(range(3, 20)), list(range(9, 20))]


# -- what a node streamed

NAMES = ("pick", "place", "push")
LOST = "the planner failed: server gone"
CLAIMS = [
    {"claim": "what", "by": "person", "checked": "nobody", "doubts": []},
    {"claim": "looks", "by": "model other", "checked": "model c", "doubts": ["There is no cup."]},
]


@pytest.fixture(scope="module")
def streamed(tmp_path_factory) -> tuple[Path, Source]:
    """Two sub-goals out of a plan of three; the latched topic is heard again, and there is a pause."""
    sent = [
        *b.robot(20),
        b.storyboard(-30 * MS, NAMES, 0),
        b.subgoal(195 * MS, 0, "pick", picture=b.moving(25)),
        b.subgoal(450 * MS, 0, "pick", picture=b.moving(25), degraded=["the critic failed: busy"]),
        b.subgoal(795 * MS, 0, "pick", picture=b.moving(25), active=False),
        b.storyboard(800 * MS, NAMES, 1),
        b.subgoal(995 * MS, 1, "place", picture=b.moving(30), accepted=False, claims=CLAIMS, degraded=[LOST]),
        b.subgoal(1595 * MS, 0, "", task="", active=False),
    ]
    folder = tmp_path_factory.mktemp("streamed")
    bag = b.write_bag(folder / "bag", sent)
    return bag, convert(bag, folder / "out", *TOPICS)


def test_the_record_holds_what_was_shown_at_which_frames(streamed):
    bag, source = streamed
    assert source.episode(0).instruction == "tidy the table"
    assert numbers(source, 0) == list(range(2, 16))
    recorded = Source.open(source.root.with_name("out-recorded"))
    assert recorded.cameras == (CAMERA,), "the plain recording stays beside, without goals"
    assert numbers(recorded, 0) == numbers(source, 0)
    assert sorted(p.name for p in bag.parent.iterdir()) == ["bag", "out", "out-recorded"]
    records = Records(source.root / FOLDER, "")
    frames = lambda reference: source.episode(0).frames(CAMERA, [int(reference.rpartition("#")[2])])[0]  # noqa: E731
    pick, place, push = records.load(0, frames).steps
    assert [(s.segment.start, s.segment.end) for s in (pick, place)] == [(0, 6), (8, 14)]
    assert [s.status for s in (pick, place, push)] == ["accepted", "unjudged", "skipped"]
    words = (pick.step.name, pick.step.instruction, pick.step.prompt)
    assert words == ("pick", "pick is done", "make it so that pick")
    verdict = pick.attempts[0].verdict
    assert (verdict.success, verdict.semantics, verdict.quality) == (True, 8, 9)
    assert (verdict.reasoning, verdict.probability) == ("pick shows", 0.5)
    assert place.attempts[0].failure.stage == "judge"
    assert push.segment is None
    assert [(name, claim.line) for name, claim in pick.claims.items()] == [
        ("when", "by recording, not checked"),
        ("what", "by model p, not checked"),
        ("looks", "by model e, checked by model c"),
    ]
    assert place.claims.what == Claim(by="person", doubts=(LOST,)), "a plan that lost its planner says so"
    assert (place.claims.looks.by, place.claims.looks.checked) == ("model other", "model c")
    assert "There is no cup." in place.claims.looks.doubts
    assert np.abs(pick.goal_image.pixels.astype(int) - b.moving(25)).mean() < 3
    made = json.loads((source.root / "meta" / "bag.json").read_text())
    assert made["episodes"][0]["models"] == [["p", "e", "c"]]


def test_the_sub_goal_camera_and_the_language_rows_are_those_of_annotate(streamed, tmp_path):
    bag, source = streamed
    assert source.features["subgoal_is_pad"]["dtype"] == "bool"
    dataset = load(source.root)
    assert [bool(dataset[i]["subgoal_is_pad"]) for i in range(14)] == [False] * 6 + [True] * 8
    assert numbers(source, 0, SUBGOAL)[:6] == [25] * 6
    assert not dataset[7][SUBGOAL].any()
    rows = dataset[0]["language_persistent"]
    told = [(r["style"], r["content"], round(r["timestamp"], 4)) for r in rows]
    memory = ("memory", "Done so far: pick", 0.6)
    assert sorted(told) == [memory, ("plan", "1. pick", 0.0), ("subtask", "pick", 0.0)]
    assert dataset[6]["language_persistent"] == [row for row in rows if row["style"] != "subtask"]
    loose = convert(bag, tmp_path / "out", *TOPICS, "--use-rejected")
    assert numbers(loose, 0, SUBGOAL)[8:] == [30] * 6
    rows = load(loose.root)[0]["language_persistent"]
    assert [r["content"] for r in rows if r["style"] == "subtask"] == ["pick", "place"]


def test_with_a_task_the_whole_bag_is_the_episode_and_keeps_its_goals(streamed, tmp_path):
    bag, _ = streamed
    source = convert(bag, tmp_path / "out", "--task", "tidy", *TOPICS)
    assert numbers(source, 0) == list(range(20))
    board = Records(source.root / FOLDER, "").outline(0)
    assert [(s.segment.start, s.segment.end) for s in board.steps if s.segment] == [(2, 8), (10, 16)]


def test_a_replan_words_only_and_a_better_picture(tmp_path):
    sent = [
        *b.robot(20),
        b.subgoal(-5 * MS, 0, "pick"),
        b.subgoal(395 * MS, 0, "pick", picture=b.moving(25)),
        b.subgoal(795 * MS, 1, "place", revision=1, picture=b.moving(30)),
    ]
    source = converted(tmp_path, sent, *TOPICS)
    board = Records(source.root / FOLDER, "").outline(0)
    assert [(s.step.name, s.status, s.segment.start, s.segment.end) for s in board.steps] == [
        ("pick", "failed", 0, 4),
        ("pick", "accepted", 4, 8),
        ("place", "accepted", 8, 20),
    ]
    assert [n for n, _ in itertools.groupby(numbers(source, 0, SUBGOAL)[4:])] == [25, 30]


def test_steps_that_were_planned_in_words(tmp_path):
    words = {"wait": "Wait for the glue.", "sign": "Sign it."}
    sent = [
        *b.robot(20),
        b.storyboard(-30 * MS, ("pick", "wait", "push", "sign"), 0, words=words, probability=np.nan),
        b.subgoal(-5 * MS, 0, "pick", picture=b.moving(25)),
        b.subgoal(395 * MS, 1, "wait", words=words["wait"]),
        b.subgoal(795 * MS, 2, "push", words="A picture that never came.", accepted=False),
    ]
    board = Records(converted(tmp_path, sent, *TOPICS).root / FOLDER, "").outline(0)
    told = {s.step.name: s.status for s in board.steps}
    assert told == {"pick": "accepted", "wait": "text", "push": "failed", "sign": "skipped"}
    assert [s.step.prompt is None for s in board.steps] == [False, True, False, True]
    assert (board.steps[1].segment.start, board.steps[1].segment.end) == (4, 8)
    assert board.steps[0].attempts[0].verdict.probability is None
    assert board.steps[1].step.auxiliary_text == "Wait for the glue."


def test_two_tasks_are_two_episodes(tmp_path):
    other = np.full(16, 7, np.uint8)
    sent = [
        *b.robot(20),
        b.subgoal(95 * MS, 0, "pick", picture=b.moving(25)),
        b.subgoal(1095 * MS, 0, "wipe", picture=b.moving(30), id_=other, task="wipe the table"),
    ]
    source = converted(tmp_path, sent, *TOPICS)
    assert [source.episode(i).instruction for i in source.indices] == ["tidy the table", "wipe the table"]
    assert [numbers(source, i) for i in (0, 1)] == [list(range(1, 11)), list(range(11, 20))]
    assert [set(numbers(source, i, SUBGOAL)) for i in (0, 1)] == [{25}, {30}]


def test_annotate_takes_a_bag(tmp_path):
    """With the same result as annotating the dataset that the bag becomes; and it resumes."""
    sent = []
    for i in range(30):
        grip = 0.0 if 10 <= i < 20 else 1.0
        sent.append(b.image(i * 100 * MS, b.moving(i)))
        sent.append(
            b.joints(i * 100 * MS - MS, ("x", "y", "z", "gripper"), (0.1 * i, 0, np.sin(i / 3), grip))
        )
    bag = b.write_bag(tmp_path / "bag", sent)
    out, closed = tmp_path / "out", ("--layout", "closed=low")  # a single episode does not tell
    task = ("--task", "put the block in the bowl", "--state-topic", "/joint_states")
    arguments = ("annotate", bag, "--out", out, *task, *closed)
    first = run(*arguments)
    assert (first["annotated"], first["failures"]) == (1, {})
    run("annotate", tmp_path / "out-recorded", "--out", tmp_path / "by-hand", *closed)
    record = FOLDER / "episodes" / "chunk-000" / "episode_000000.json"
    assert (out / record).read_bytes() == (tmp_path / "by-hand" / record).read_bytes()
    assert SUBGOAL in Source.open(out).cameras
    again = run(*arguments)
    assert (again["annotated"], again["resumed"]) == (0, 1)


def test_a_bare_file_is_a_bag_too(plain, tmp_path):
    bag, source = plain
    (file,) = (p for p in bag.iterdir() if p.suffix in (".mcap", ".db3"))
    again = convert(file, tmp_path / "out", "--task", "tidy up", *TOPICS)
    assert (again.root / DATA).read_bytes() == (source.root / DATA).read_bytes()
