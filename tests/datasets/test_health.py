"""Every kind of issue is found in a dataset that has it; what is `broken` is what lerobot cannot read."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from support.faults import (
    DATA,
    EPISODES,
    FRONT,
    TASKS,
    WRIST,
    Fault,
    both,
    column,
    info,
    reshow,
    table,
    truncate,
    video,
)
from support.recordings import lerobot_reads, make_dataset

from goalreel.datasets.health.inspect import inspect, refuse_broken
from goalreel.datasets.health.issues import HealthIssue, spell
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError

NAN = float("nan")
READ = "lerobot reads it"
FAILS = "lerobot fails"


def start(name: str, *values: object) -> Fault:
    """Replace the first values of a column of the data file."""
    return column(DATA, name, lambda old: [*values, *old[len(values) :]])


def add_column(name: str) -> Fault:
    return table(DATA, lambda t: t.append_column(name, pa.array([0] * len(t))))


def add_feature(name: str) -> Fault:
    return info(lambda i: i["features"].update({name: {"dtype": "int64", "shape": [1], "names": None}}))


def text_column(table: pa.Table, name: str) -> pa.Table:
    texts = pa.array([f"{value} s" for value in table[name].to_pylist()])
    return table.set_column(table.column_names.index(name), name, texts)


def unlink(file: str) -> Fault:
    return lambda root: (root / file).unlink()


def write(file: str, text: str) -> Fault:
    return lambda root: (root / file).write_text(text)


def seconds(frame: int) -> float:
    return frame / 10


def slow(frame: int) -> float:
    """A clock of 9.9 frames a second, in whole milliseconds."""
    return 0.101 * frame


DOUBTFUL_TASKS = pa.table({"task_index": [0, 1], "task": ["pick up the block", " "]})
TWO_TASKS = pa.table({"task_index": [0, 1], "task": ["pick up the block", "put it down"]})

FAULTS: dict[str, tuple[Fault, str, str, str | None]] = {
    "a stray file below data/": (write("data/chunk-000/.tmp.parquet", "none"), "data_file", "broken", FAILS),
    "data that is cut off": (truncate(DATA), "data_file", "broken", FAILS),
    "no data file": (unlink(DATA), "data_file", "broken", FAILS),
    "a column that nobody names": (add_column("subtask_index"), "columns", "broken", FAILS),
    "a feature without a column": (add_feature("reward"), "columns", "warning", READ),
    "a vector of another size": (
        info(lambda i: i["features"]["action"].update(shape=[7])),
        "columns",
        "broken",
        FAILS,
    ),
    "a column of dates": (
        both(
            table(DATA, lambda t: t.append_column("day", pa.array([0] * len(t), pa.date32()))),
            info(lambda i: i["features"].update(day={"dtype": "date32", "shape": [1], "names": None})),
        ),
        "columns",
        "broken",
        FAILS,
    ),
    "a scalar in a list": (
        both(
            table(DATA, lambda t: t.append_column("reward", pa.array([[0.5]] * len(t)))),
            info(lambda i: i["features"].update(reward={"dtype": "float64", "shape": [1], "names": None})),
        ),
        "columns",
        "broken",
        FAILS,
    ),
    "a vector of two dimensions": (
        info(lambda i: i["features"]["action"].update(shape=[4, 1])),
        "columns",
        "broken",
        FAILS,
    ),
    "a camera of pictures without a column": (
        info(lambda i: i["features"][WRIST].update(dtype="image")),
        "columns",
        "warning",
        READ,
    ),
    "more frames than there are": (info(lambda i: i.update(total_frames=40)), "totals", "broken", FAILS),
    "fewer frames than there are": (info(lambda i: i.update(total_frames=30)), "totals", "warning", READ),
    "no frames counted": (info(lambda i: i.update(total_frames=0)), "totals", "broken", FAILS),
    "more episodes than there are": (info(lambda i: i.update(total_episodes=4)), "totals", "broken", FAILS),
    "a hole in the episodes": (
        both(
            column(EPISODES, "episode_index", lambda _: [0, 1, 3]),
            column(DATA, "episode_index", lambda old: [3 if e == 2 else e for e in old]),
        ),
        "episode_order",
        "broken",
        FAILS,
    ),
    "episodes in another order": (
        table(EPISODES, lambda t: t.take([1, 0, 2])),
        "episode_order",
        "broken",
        None,  # it shows another episode's pictures
    ),
    "rows of an unknown episode": (table(EPISODES, lambda t: t[:2]), "episode_rows", "broken", FAILS),
    "an episode without rows": (table(DATA, lambda t: t[:21]), "episode_rows", "broken", FAILS),
    "a data file twice": (
        lambda root: shutil.copy(root / DATA, root / "data/chunk-000/file-001.parquet"),
        "row_order",
        "broken",
        None,  # `build` cannot write it
    ),
    "rows of episodes mixed": (start("episode_index", 0, 1, 0), "row_order", "broken", None),
    "a wrong length": (column(EPISODES, "length", lambda _: [12, 8, 15]), "row_count", "warning", READ),
    "an episode that ends too late": (
        column(EPISODES, "dataset_to_index", lambda _: [12, 21, 99]),
        "episode_span",
        "broken",
        None,  # lerobot-train's sampler fails
    ),
    "an episode that begins elsewhere": (
        column(EPISODES, "dataset_from_index", lambda _: [0, 11, 21]),
        "episode_span",
        "warning",
        READ,
    ),
    "a stale index": (start("index", 5), "index", "warning", READ),
    "an index that is empty": (start("index", None), "index", "broken", FAILS),
    "no index": (table(DATA, lambda t: t.drop_columns(["index"])), "columns", "broken", FAILS),
    "times as text": (table(DATA, lambda t: text_column(t, "timestamp")), "columns", "broken", FAILS),
    "a stale frame_index": (
        column(DATA, "frame_index", lambda o: [*range(len(o))]),
        "frame_index",
        "warning",
        READ,
    ),
    "a stale file_index": (
        both(
            lambda root: shutil.copy(root / DATA, root / "data/chunk-000/file-001.parquet"),
            table("data/chunk-000/file-000.parquet", lambda t: t[:21]),
            table("data/chunk-000/file-001.parquet", lambda t: t[21:]),
        ),
        "stale_file",
        "warning",
        READ,
    ),
    "a task_index without a task": (start("task_index", 7), "tasks", "broken", FAILS),
    "a task_index that is empty": (start("task_index", None), "tasks", "broken", FAILS),
    "no task counted": (info(lambda i: i.update(total_tasks=0)), "tasks", "broken", FAILS),
    "no number of tasks": (info(lambda i: i.pop("total_tasks")), "tasks", "broken", FAILS),
    "a task_index below all": (start("task_index", -7), "tasks", "broken", FAILS),
    "tasks in another order": (
        table(TASKS, lambda _: pa.table({"task_index": [1, 0], "task": ["b", "a"]})),
        "task_order",
        "warning",
        READ,
    ),
    "an empty instruction": (
        both(table(TASKS, lambda _: DOUBTFUL_TASKS), start("task_index", *[1] * 12)),
        "no_instruction",
        "warning",
        READ,
    ),
    "no instruction at all": (
        column(TASKS, "task", lambda _: [" "]),
        "no_instruction",
        "broken",
        None,  # there is nothing to annotate
    ),
    "a task for each frame": (
        both(table(TASKS, lambda _: TWO_TASKS), start("task_index", 0, 0, 0, 1, 1)),
        "task_per_frame",
        "note",
        READ,
    ),
    "frames with an empty task": (
        both(table(TASKS, lambda _: DOUBTFUL_TASKS), start("task_index", 0, 0, 0, 1, 1)),
        "empty_task",
        "warning",
        READ,
    ),
    "timestamps that are NaN": (start("timestamp", 0.0, NAN), "time_order", "broken", FAILS),
    "timestamps that stand still": (start("timestamp", 0.0, 0.0), "time_order", "warning", READ),
    "a clock that drifts": (
        both(
            *(reshow(video(c), slow) for c in (FRONT, WRIST)),
            column(
                DATA,
                "timestamp",
                lambda _: [round(1000 * i / 9.9) / 1000 for n in (12, 9, 15) for i in range(n)],
            ),
            *(
                column(EPISODES, f"videos/{c}/from_timestamp", lambda _: [0.0, slow(12), slow(21)])
                for c in (FRONT, WRIST)
            ),
        ),
        "drift",
        "warning",
        READ,
    ),
    "timestamps that jitter": (start("timestamp", 0.0, 0.103, 0.2, 0.303), "jitter", "warning", FAILS),
    "a gap in the clock": (
        column(DATA, "timestamp", lambda o: [*o[:6], *(t + 0.5 for t in o[6:12]), *o[12:]]),
        "gaps",
        "warning",
        READ,  # frames that leak in
    ),
    "a clock that jumps by years": (
        column(DATA, "timestamp", lambda o: [*o[:6], *(t + 1e8 for t in o[6:12]), *o[12:]]),
        "time_order",  # float32 holds no tenths of a second there
        "warning",
        FAILS,
    ),
    "a clock that jumps by hours": (
        column(DATA, "timestamp", lambda o: [*o[:6], *(t + 3e4 for t in o[6:12]), *o[12:]]),
        "time_span",
        "broken",
        FAILS,
    ),
    "another camera's file is missing": (unlink(video(WRIST)), "video_file", "broken", FAILS),
    "another camera's file is cut off": (truncate(video(WRIST)), "video_frames", "broken", FAILS),
    "a file that is no video": (write(video(WRIST), "none"), "video_file", "broken", FAILS),
    "a video without a place": (
        column(EPISODES, f"videos/{WRIST}/chunk_index", lambda _: [0, None, 0]),
        "video_file",
        "broken",
        FAILS,
    ),
    "a video that begins at NaN": (
        column(EPISODES, f"videos/{WRIST}/from_timestamp", lambda _: [0.0, NAN, 2.1]),
        "video_file",
        "broken",
        FAILS,
    ),
    "no path of videos": (info(lambda i: i.update(video_path=None)), "video_file", "broken", FAILS),
    "a video at half the rate": (
        reshow(video(WRIST), lambda i: i / 5, lambda i: 2 * i),
        "video_rate",
        "broken",
        FAILS,
    ),
    "a video a little beside its clock": (
        reshow(video(WRIST), lambda i: seconds(i) + 0.004),
        "video_clock",
        "warning",
        FAILS,
    ),
    "frames of the neighbour": (
        column(EPISODES, f"videos/{WRIST}/from_timestamp", lambda _: [0.0, 1.0, 2.1]),
        "leaked_frames",
        "warning",
        READ,
    ),
    "a camera of another size": (
        info(lambda i: i["features"][FRONT].update(shape=[480, 640, 3])),
        "camera_size",
        "warning",
        READ,
    ),
    "a state that is NaN": (
        start("observation.state", [NAN, 0.0, 0.0, 0.0]),
        "not_finite",
        "warning",
        READ,
    ),
    "a number that is empty": (
        start("observation.state", [None, 0.0, 0.0, 0.0]),
        "columns",
        "broken",
        FAILS,
    ),
    "a state that is empty": (start("observation.state", None), "columns", "warning", READ),
    "states that are all empty": (
        column(DATA, "observation.state", lambda old: [None] * len(old)),
        "columns",
        "warning",
        READ,
    ),
    "an action that never changes": (
        column(DATA, "action", lambda old: [[0.0] * 4] * len(old)),
        "constant",
        "warning",
        READ,
    ),
    "no statistics": (unlink("meta/stats.json"), "stats", "warning", READ),
    "statistics that are none": (write("meta/stats.json", "[]"), "stats", "broken", FAILS),
    "statistics with NaN": (
        write("meta/stats.json", json.dumps({"action": {"mean": [NAN]}})),
        "stats",
        "warning",
        READ,
    ),
    "sub-tasks as lerobot 0.4 had them": (
        both(add_column("subtask_index"), add_feature("subtask_index")),
        "subtask_index",
        "note",
        READ,
    ),
    "SARM's stages": (
        table(EPISODES, lambda t: t.append_column("sparse_subtask_names", pa.array([["a"]] * len(t)))),
        "stages",
        "note",
        READ,
    ),
    "labels of an annotation tool": (
        write("meta/lerobot_annotations.json", "{}"),
        "annotations",
        "note",
        READ,
    ),
    "a sub-goal camera": (add_feature("wrist_is_pad"), "subgoal_camera", "note", None),
}


def issues_of(root: Path) -> list[HealthIssue]:
    source = Source.open(root)
    return inspect(source, source.indices)


@pytest.fixture(scope="module")
def long_dataset(tmp_path_factory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("long") / "data", (30, 30))


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset", "sharded_dataset"])
def test_a_healthy_dataset_has_no_issue(kind, request):
    assert issues_of(request.getfixturevalue(kind)) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name, video_dataset, tmp_path, caplog):
    fault, kind, level, lerobot = FAULTS[name]
    root = shutil.copytree(video_dataset, tmp_path / "data")
    fault(root)
    found = issues_of(root)
    assert (kind, level) in {(issue.kind, issue.level) for issue in found}, found
    assert found == sorted(found, key=lambda i: ("broken", "warning", "note").index(i.level))
    assert all("\n" not in issue.text for issue in found)
    is_broken = found[0].level == "broken"
    if lerobot is not None:
        assert lerobot_reads(root) == (lerobot == READ)
        assert is_broken <= (lerobot == FAILS)
    source = Source.open(root)
    before_annotate = inspect(source, source.indices, thorough=False)
    assert [i for i in before_annotate if i.level == "broken"] == [i for i in found if i.level == "broken"]
    if is_broken:
        with pytest.raises(DatasetError) as refusal:
            refuse_broken(source, source.indices)
        assert str(refusal.value).startswith(found[0].text)
    else:
        refuse_broken(source, source.indices)
        assert any("warning" in r.message for r in caplog.records) == (before_annotate != [])


def test_pictures_that_are_not_stored(image_dataset, tmp_path):
    root = shutil.copytree(image_dataset, tmp_path / "data")
    column(DATA, FRONT, lambda old: [{"bytes": None, "path": "x.png"}, *old[1:]])(root)
    assert [(i.kind, i.level) for i in issues_of(root)] == [("images", "broken")]
    assert not lerobot_reads(root)


@pytest.mark.parametrize(
    ("chosen", "kind"), [(lambda i: i // 2 * 2, "half_rate"), (lambda _: 5, "frozen")], ids=["half", "frozen"]
)
def test_a_camera_that_repeats_its_frames(chosen, kind, long_dataset, tmp_path):
    root = shutil.copytree(long_dataset, tmp_path / "data")
    assert issues_of(root) == []
    reshow(video(WRIST), seconds, chosen)(root)
    (issue,) = issues_of(root)
    assert (issue.kind, issue.level) == (kind, "warning")
    assert WRIST in issue.text


def test_other_episodes_matter_only_where_lerobot_reads_them_too(sharded_dataset, tmp_path):
    root = shutil.copytree(sharded_dataset, tmp_path / "data")
    (root / "videos" / WRIST / "chunk-000/file-001.mp4").unlink()
    source = Source.open(root)
    (issue,) = inspect(source, [1])
    assert (issue.level, issue.episodes) == ("broken", (1,))
    (issue,) = inspect(source, [0])
    assert (issue.level, issue.episodes) == ("warning", (1,))


def test_rows_of_sub_tasks(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {1: {}})
    kinds = {issue.kind: issue for issue in issues_of(out)}
    assert set(kinds) == {"subtask_rows", "subgoal_camera"}
    assert kinds["subtask_rows"].episodes == (1,)


def test_a_matrix_of_lerobot_is_healthy_where_its_library_is_imported(video_dataset, tmp_path):
    """`datasets`, which lerobot imports, gives the column a type of its own."""
    from datasets.features.features import Array2DExtensionType

    root = shutil.copytree(video_dataset, tmp_path / "data")
    kind = Array2DExtensionType((2, 3), "float32")

    def with_poses(rows: pa.Table) -> pa.Table:
        cells = pa.array([[[0.5] * 3] * 2] * len(rows), kind.storage_type)
        return rows.append_column("pose", pa.ExtensionArray.from_storage(kind, cells))

    table(DATA, with_poses)(root)
    info(lambda i: i["features"].update(pose={"dtype": "float32", "shape": [2, 3], "names": None}))(root)
    assert lerobot_reads(root)
    assert [issue for issue in issues_of(root) if issue.kind == "columns"] == []


def test_a_dataset_without_numbers_or_cameras(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    numbers = ("observation.state", "action")
    table(DATA, lambda t: t.drop_columns(numbers))(root)
    info(lambda i: [i["features"].pop(name) for name in (*numbers, FRONT, WRIST)])(root)
    assert {(i.kind, i.level) for i in issues_of(root)} == {
        ("no_camera", "broken"),
        ("no_numbers", "warning"),
    }


def test_episodes_are_named_in_a_sentence():
    assert spell([3]) == "episode 3"
    assert spell(range(0, 20, 2)) == "episodes 0, 2, 4, 6, 8 and 5 more"


def test_the_documentation_lists_every_kind():
    from support.places import ROOT

    text = (ROOT / "docs/reference/dataset-checks.md").read_text()
    kinds = {kind for _, kind, _, _ in FAULTS.values()}
    kinds |= {"images", "half_rate", "frozen", "no_camera", "no_numbers", "subtask_rows"}
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in text] == []
