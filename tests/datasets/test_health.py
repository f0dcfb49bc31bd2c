"""Every kind of issue is found in a dataset that has it, and mended where that takes no person.

What is `broken` is what lerobot cannot read.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from support.cli import fails, goalreel, invoke
from support.faults import (
    DATA,
    EPISODES,
    FRONT,
    TASKS,
    WRIST,
    Fault,
    both,
    column,
    damage_rows,
    feature,
    info,
    reshow,
    start,
    table,
    truncate,
    unlink,
    video,
    write,
)
from support.killing import tree
from support.places import ROOT
from support.recordings import lerobot_reads

from goalreel.datasets.health.inspect import inspect, refuse_broken
from goalreel.datasets.health.issues import HealthIssue, spell
from goalreel.datasets.health.repair import repair
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError

NAN = float("nan")
NUMBER = {"shape": [1], "names": None}
STATE, ROWS, OTHER = "observation.state", "language_persistent", "data/chunk-000/file-001.parquet"
DOUBTFUL = pa.table({"task_index": [0, 1], "task": ["pick up the block", " "]})
TWO = pa.table({"task_index": [0, 1], "task": ["pick up the block", "put it down"]})
TURNED = pa.table({"task_index": [1, 0], "task": ["put the red block in the blue bowl", "wave"]})
SLOW = [round(1000 * i / 9.9) / 1000 for n in (12, 9, 15) for i in range(n)]
"""A clock of 9.9 frames a second, in whole milliseconds."""


def totals(**numbers: object) -> Fault:
    return info(lambda i: i.update(numbers))


def span(name: str, *values: object) -> Fault:
    return column(EPISODES, name, lambda _: list(values))


def starts(camera: str, *seconds: float) -> Fault:
    return span(f"videos/{camera}/from_timestamp", *seconds)


def add(name: str, values: list, kind: pa.DataType | None = None) -> Fault:
    """Add a column with the same value in each row."""
    return table(DATA, lambda t: t.append_column(name, pa.array(values * len(t), kind)))


def times(change) -> Fault:
    """Change the times of the first episode from its seventh frame on."""
    return column(DATA, "timestamp", lambda old: [*old[:6], *map(change, old[6:12]), *old[12:]])


def renumber(root: Path) -> None:
    span("episode_index", 0, 1, 3)(root)
    column(DATA, "episode_index", lambda old: [3 if e == 2 else e for e in old])(root)


def copy_data(root: Path) -> None:
    shutil.copy(root / DATA, root / OTHER)


def added(name: str, value: object, kind: pa.DataType | None = None, **described: object) -> Fault:
    """Add a column with the same value in each row, and its feature."""
    return both(add(name, [value], kind), feature(name, **described))


def told(rows: pa.Table, *indices: int) -> Fault:
    """Other tasks, and those of the first rows."""
    return both(table(TASKS, lambda _: rows), start("task_index", *indices))


def wrist(seconds: Callable[[int], float], *chosen: Callable[[int], int]) -> Fault:
    return reshow(video(WRIST), seconds, *chosen)


def retyped(name: str, values: Callable[[int], list]) -> Fault:
    """Give a column of the data file values of another type."""
    return table(DATA, lambda t: t.set_column(t.column_names.index(name), name, pa.array(values(len(t)))))


def frames_of(order: list[int]) -> Fault:
    return table(DATA, lambda t: t.take(order))


class Case(NamedTuple):
    """A fault, how it is told, and what `check --fix` says of it, if it can mend it."""

    fault: Fault
    told: str
    """Kind, level, and whether lerobot `reads` or `fails`; of other levels another tool fails."""
    mended: str | None = None


slow_videos = [reshow(video(c), lambda i: 0.101 * i) for c in (FRONT, WRIST)]
slow_places = [starts(c, 0.0, 12 * 0.101, 21 * 0.101) for c in (FRONT, WRIST)]
every_frame = column(DATA, "frame_index", lambda old: [*range(len(old))])
CASES: dict[str, Case] = {
    "a stray file": Case(write("data/chunk-000/.x.parquet", "none"), "data_file broken fails"),
    "damaged rows": Case(damage_rows(DATA, "timestamp"), "data_file broken fails"),
    "data that is cut off": Case(truncate(DATA), "data_file broken fails"),
    "no data file": Case(unlink(DATA), "data_file broken fails"),
    "an unknown column": Case(add("reward", [0.5]), "columns broken fails"),
    "no column": Case(feature("x", **NUMBER, dtype="int64"), "columns warning reads"),
    "a vector of another size": Case(feature("action", shape=[7]), "columns broken fails"),
    "a column of dates": Case(added("day", 0, pa.date32(), **NUMBER, dtype="date32"), "columns broken fails"),
    "a camera of pictures without a column": Case(feature(WRIST, dtype="image"), "columns warning reads"),
    "more frames": Case(totals(total_frames=40), "totals broken fails", "total_frames 36"),
    "fewer frames": Case(totals(total_frames=30), "totals warning reads", "total_frames 36"),
    "a hole in the episodes": Case(renumber, "episode_order broken fails"),
    # lerobot shows another episode's pictures.
    "episodes in another order": Case(table(EPISODES, lambda t: t.take([1, 0, 2])), "episode_order broken -"),
    "rows of an unknown episode": Case(table(EPISODES, lambda t: t[:2]), "episode_rows broken fails"),
    "an episode without rows": Case(table(DATA, lambda t: t[:21]), "episode_rows broken fails"),
    "a data file twice": Case(copy_data, "row_order broken -"),  # `build` cannot write it
    "rows mixed": Case(frames_of([12, *range(12), *range(13, 36)]), "row_order broken -"),
    "frames backwards": Case(frames_of([*range(11, -1, -1), *range(12, 36)]), "time_order warning -"),
    "a wrong length": Case(span("length", 12, 8, 15), "row_count warning reads", "length written"),
    "an episode that ends too late": Case(  # where lerobot-train's sampler fails
        span("dataset_to_index", 12, 21, 99), "episode_span broken -", "dataset_to_index written"
    ),
    "an episode that begins elsewhere": Case(
        span("dataset_from_index", 0, 11, 21), "episode_span warning reads", "dataset_from_index written"
    ),
    "a stale index": Case(start("index", 5), "index warning reads", "rows numbered from 0 on"),
    "an index that is empty": Case(start("index", None), "index broken fails", "rows numbered from 0 on"),
    "no index": Case(table(DATA, lambda t: t.drop_columns(["index"])), "columns broken fails"),
    "states of several sizes": Case(
        retyped(STATE, lambda n: [[1.0] * (2 + i % 3) for i in range(n)]), "columns broken -"
    ),
    "states as text": Case(retyped(STATE, lambda n: ["x"] * n), "columns broken fails"),
    "a row of words without a time": Case(
        added(ROWS, [{"style": "subtask"}], dtype="language", shape=[1]), "columns broken -"
    ),
    "a column twice": Case(
        table(DATA, lambda t: t.append_column("timestamp", t["timestamp"])), "data_file broken fails"
    ),
    "a pipe for a data file": Case(both(unlink(DATA), lambda r: os.mkfifo(r / DATA)), "data_file broken -"),
    "a stale frame_index": Case(every_frame, "frame_index warning reads", "frame_index: episodes 1-2"),
    "a stale file_index": Case(
        both(copy_data, table(DATA, lambda t: t[:21]), table(OTHER, lambda t: t[21:])),
        "stale_file warning reads",
        "data/file_index written",
    ),
    "a task_index without a task": Case(start("task_index", 7), "tasks broken fails"),
    "a task_index that is empty": Case(start("task_index", None), "tasks broken fails"),
    "no task counted": Case(totals(total_tasks=0), "tasks broken fails", "total_tasks 1"),
    "tasks in another order": Case(told(TURNED, *[1] * 21, *[0] * 15), "task_order warning reads"),
    "an empty instruction": Case(told(DOUBTFUL, *[1] * 12), "no_instruction warning reads"),
    "no instruction at all": Case(column(TASKS, "task", lambda _: [" "]), "no_instruction broken -"),
    "a task for each frame": Case(told(TWO, 0, 0, 0, 1, 1), "labels note reads"),
    "frames with an empty task": Case(told(DOUBTFUL, 0, 0, 0, 1, 1), "empty_task warning reads"),
    "timestamps that are NaN": Case(
        start("timestamp", 0.0, NAN), "time_order broken fails", "timestamp: frame_index / fps"
    ),
    "timestamps that stand still": Case(
        start("timestamp", 0.0, 0.0), "time_order warning reads", "timestamp: frame_index / fps"
    ),
    "a clock that drifts": Case(
        both(*slow_videos, *slow_places, column(DATA, "timestamp", lambda _: SLOW)), "drift warning reads"
    ),
    "timestamps that jitter": Case(start("timestamp", 0.0, 0.103, 0.2, 0.303), "jitter warning fails"),
    "a gap in the clock": Case(times(lambda t: t + 0.5), "gaps warning reads"),  # frames that leak in
    "a clock that jumps by years": Case(
        times(lambda t: t + 1e8), "time_order warning fails", "timestamp: frame_index / fps"
    ),  # float32 holds no tenths of a second there
    "a clock that jumps by hours": Case(times(lambda t: t + 3e4), "time_span broken fails"),
    "a camera's file is missing": Case(unlink(video(WRIST)), "video_file broken fails"),
    "a camera's file is cut off": Case(truncate(video(WRIST)), "video_end broken fails"),
    "a clock that jumps beyond the video": Case(
        column(DATA, "timestamp", lambda old: [*old[:-5], *(t + 0.5 for t in old[-5:])]),
        "video_times broken fails",
    ),
    "a video that begins late": Case(
        wrist(lambda i: i / 10 + 0.3, lambda i: i + 3), "video_start broken fails"
    ),
    "a video with a hole": Case(wrist(lambda i: i / 10 + 0.3 * (i >= 15)), "video_frames broken fails"),
    "a video without a place": Case(
        both(span(f"videos/{WRIST}/file_index", 0, None, 0), span(f"videos/{WRIST}/chunk_index", 0, 0, None)),
        "video_file broken fails",
    ),
    "no path of videos": Case(totals(video_path=None), "video_file broken fails"),
    "a video at half the rate": Case(wrist(lambda i: i / 5, lambda i: 2 * i), "video_rate broken fails"),
    "a video at a rate a little off": Case(wrist(lambda i: i / 9.9 + 0.024), "video_rate broken fails"),
    "a video a little beside its clock": Case(wrist(lambda i: i / 10 + 0.004), "video_clock warning fails"),
    "frames of the neighbour": Case(
        starts(WRIST, 0.0, 1.0, 2.1), "leaked_frames warning reads", f"{WRIST} of episodes 0-2 begins where"
    ),
    "a camera of another size": Case(feature(FRONT, shape=[480, 640, 3]), "camera_size warning reads"),
    "a state that is NaN": Case(start(STATE, [NAN, 0.0, 0.0, 0.0]), "not_finite warning reads"),
    "a number that is empty": Case(start(STATE, [None, 0.0, 0.0, 0.0]), "columns broken fails"),
    "a state that is empty": Case(start(STATE, None), "columns warning reads"),
    "an action that never changes": Case(
        column(DATA, "action", lambda old: [[0.0] * 4] * len(old)), "constant warning reads"
    ),
    "no statistics": Case(unlink("meta/stats.json"), "stats warning reads"),
    "statistics that are none": Case(write("meta/stats.json", "[]"), "stats broken fails"),
    "statistics with NaN": Case(
        write("meta/stats.json", json.dumps({"action": {"mean": [NAN]}})), "stats warning reads"
    ),
    "sub-tasks as lerobot 0.4 had them": Case(
        added("subtask_index", 0, **NUMBER, dtype="int64"), "labels note reads"
    ),
    "labels of an annotation tool": Case(write("meta/lerobot_annotations.json", "{}"), "labels note reads"),
    "a sub-goal camera": Case(feature("wrist_is_pad", **NUMBER, dtype="int64"), "subgoal_camera note -"),
}
MENDED = {name: case for name, case in CASES.items() if case.mended}


def issues_of(root: Path, **options: object) -> list[HealthIssue]:
    source = Source.open(root)
    return inspect(source, source.indices, **options)


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset", "sharded_dataset"])
def test_a_healthy_dataset_has_no_issue(kind, request):
    assert issues_of(request.getfixturevalue(kind)) == []


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_and_left_where_to_mend_it_would_be_a_guess(name, root, tmp_path, caplog):
    kind, level, lerobot = CASES[name].told.split()
    CASES[name].fault(root)
    found = issues_of(root)
    assert (kind, level) in {(issue.kind, issue.level) for issue in found}, found
    assert found == sorted(found, key=lambda i: ("broken", "warning", "note").index(i.level))
    assert all("\n" not in issue.text for issue in found)
    is_broken = found[0].level == "broken"
    assert lerobot in ("-", "fails") or not is_broken
    source, before_annotate = Source.open(root), issues_of(root, thorough=False)
    assert [i for i in before_annotate if i.level == "broken"] == [i for i in found if i.level == "broken"]
    if is_broken:
        with pytest.raises(DatasetError) as refusal:
            refuse_broken(source, source.indices)
        assert str(refusal.value).startswith(found[0].text)
    else:
        refuse_broken(source, source.indices)
        assert any("warning" in r.message for r in caplog.records) == (before_annotate != [])
    if level == "broken" and not CASES[name].mended:
        result = invoke("check", root, "--fix", "--out", tmp_path / "out", "--json")
        report = json.loads(result.stdout)
        assert (result.exit_code, report["dataset"]) == (1, str(tmp_path / "out"))
        assert (kind, level) in {(issue["kind"], issue["level"]) for issue in report["issues"]}


@pytest.mark.lab
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.told.endswith("-")])
def test_lerobot_itself_reads_or_fails_as_is_told(name, root):
    CASES[name].fault(root)
    assert lerobot_reads(root) == CASES[name].told.endswith("reads")


def frames(root: Path) -> list[list[bytes]]:
    """What lerobot gives of frames at the ends of each episode."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/test", root=root, video_backend="pyav")
    assert len(dataset) == 36
    keys = ("episode_index", "frame_index", "index", "timestamp", STATE, FRONT, WRIST)
    items = [dataset[index] for index in (0, 11, 12, 20, 21, 35)]
    return [[np.asarray(item[key]).tobytes() for key in keys] for item in items]


@pytest.fixture(scope="module")
def right(video_dataset) -> list[list[bytes]]:
    return frames(video_dataset)


@pytest.mark.long
@pytest.mark.parametrize("name", MENDED)
def test_a_fault_is_mended_and_lerobot_reads_the_recorded_frames(name, root, right, tmp_path):
    case, out = MENDED[name], tmp_path / "out"
    case.fault(root)
    before = tree(root)
    said = repair(root, out)
    assert any(str(case.mended) in line for line in said), said
    assert tree(root) == before
    assert [i for i in issues_of(out) if i.level != "note"] == []
    assert frames(out) == right
    assert repair(out, tmp_path / "again") == (), "nothing is left to mend"


@pytest.mark.long
def test_the_command_says_what_was_mended(root, annotated, video_dataset, tmp_path):
    out = tmp_path / "out"
    start("index", 5)(root)
    said = goalreel("check", root, "--fix", "--out", out).splitlines()
    assert said[0] == "mended  index: rows numbered from 0 on"
    assert said[-1].startswith("nothing is broken")
    assert (out / video(FRONT)).samefile(root / video(FRONT))
    assert "is there already" in fails("check", root, "--fix", "--out", out)
    assert "overlaps the dataset" in fails("check", root, "--fix", "--out", root / "in")
    for words in (["--fix"], ["--out", tmp_path / "x"]):
        assert "--fix and --out COPY go together" in fails("check", root, *words)
    assert "no such folder" in fails("check", tmp_path / "none", "--fix", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    said = goalreel("check", out, "--fix", "--out", tmp_path / "y")
    assert said.startswith("nothing that --fix can repair")
    starts(WRIST, 1.5, 0.0, 0.9)(out)
    assert repair(out, tmp_path / "z") == (), "the video does not tell where an episode begins"
    goals = annotated(video_dataset, tmp_path / "goals", {0: {}})
    renumber(goals)
    said = repair(goals, tmp_path / "mended")
    assert not any("numbered from 0 on" in line for line in said), "records name episodes by their numbers"
    assert (tmp_path / "mended/meta/goalreel/settings.json").is_file()


def test_pictures_that_are_not_stored(image_dataset, tmp_path):
    root = shutil.copytree(image_dataset, tmp_path / "data")
    column(DATA, FRONT, lambda old: [{"bytes": None, "path": "x.png"}, *old[1:]])(root)
    assert [(i.kind, i.level) for i in issues_of(root)] == [("images", "broken")]
    assert not lerobot_reads(root)


def test_other_episodes_matter_only_where_lerobot_reads_them_too(sharded_dataset, tmp_path):
    root = shutil.copytree(sharded_dataset, tmp_path / "data")
    (root / "videos" / WRIST / "chunk-000/file-001.mp4").unlink()
    source = Source.open(root)
    for episode, level in ((1, "broken"), (0, "warning")):
        (issue,) = inspect(source, [episode])
        assert (issue.level, issue.episodes) == (level, (1,))


def test_rows_of_sub_tasks(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {1: {}})
    kinds = {issue.kind: issue for issue in issues_of(out)}
    assert set(kinds) == {"labels", "subgoal_camera"}
    assert kinds["labels"].episodes == (1,)


def test_a_dataset_without_numbers_or_cameras(root):
    numbers = (STATE, "action")
    table(DATA, lambda t: t.drop_columns(numbers))(root)
    info(lambda i: [i["features"].pop(name) for name in (*numbers, FRONT, WRIST)])(root)
    found = {(i.kind, i.level) for i in issues_of(root)}
    assert found == {("no_camera", "broken"), ("no_numbers", "warning")}


def test_episodes_are_named_in_a_sentence_and_every_kind_is_documented():
    assert spell([3]) == "episode 3"
    assert spell(range(0, 20, 2)) == "episodes 0, 2, 4, 6, 8 and 5 more"
    text = (ROOT / "docs/reference/dataset-checks.md").read_text()
    kinds = {case.told.split()[0] for case in CASES.values()}
    kinds |= {"images", "no_camera", "no_numbers"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in text] == []
