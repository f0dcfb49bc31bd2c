"""`goalreel check --fix`: what is mended without a person, and what is left."""

import json
import shutil
from pathlib import Path

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
    info,
    table,
    truncate,
    video,
)
from support.killing import tree

from goalreel.datasets.health.inspect import inspect
from goalreel.datasets.health.repair import repair
from goalreel.datasets.source import Source

pytestmark = pytest.mark.long
NAN = float("nan")


def start(name: str, *values: object) -> Fault:
    """Replace the first values of a column of the data file."""
    return column(DATA, name, lambda old: [*values, *old[len(values) :]])


def stray(root: Path) -> None:
    (root / "data/chunk-000/.tmp.parquet").write_text("none")


def unlink(name: str) -> Fault:
    return lambda root: (root / name).unlink()


def renumber(root: Path) -> None:
    column(EPISODES, "episode_index", lambda _: [0, 1, 3])(root)
    column(DATA, "episode_index", lambda old: [3 if e == 2 else e for e in old])(root)


def two_files(root: Path) -> None:
    """An episode in a file of its own, of which meta/episodes knows nothing."""
    shutil.copy(root / DATA, root / "data/chunk-000/file-001.parquet")
    table(DATA, lambda t: t[:21])(root)
    table("data/chunk-000/file-001.parquet", lambda t: t[21:])(root)


def shape(name: str, size: list[int]) -> Fault:
    return info(lambda i: i["features"][name].update(shape=size))


def two_tasks(indices: list[int]) -> Fault:
    """Two tasks under these indices; the last episode has the second."""
    tasks = pa.table({"task_index": indices, "task": ["put the red block in the blue bowl", "wave"]})
    rows = column(DATA, "task_index", lambda old: [indices[0]] * 21 + [indices[1]] * (len(old) - 21))
    return both(table(TASKS, lambda _: tasks), rows)


MENDED: dict[str, tuple[Fault, str]] = {
    "a stray file": (stray, "left out"),
    "totals": (
        info(lambda i: i.update(total_frames=40, total_episodes=4)),
        "total_episodes 3, total_frames 36",
    ),
    "no task counted": (info(lambda i: i.update(total_tasks=0)), "total_tasks 1"),
    "a hole in the episodes": (renumber, "episodes numbered from 0 on"),
    "episodes in another order": (
        table(EPISODES, lambda t: t.take([1, 0, 2])),
        "rows sorted by episode_index",
    ),
    "rows mixed": (table(DATA, lambda t: t.take([12, *range(12), *range(13, 36)])), "rows sorted by episode"),
    "frames backwards": (
        table(DATA, lambda t: t.take([*range(11, -1, -1), *range(12, 36)])),
        "rows sorted by",
    ),
    "a wrong length": (column(EPISODES, "length", lambda _: [12, 8, 15]), "length written"),
    "a wrong span": (
        column(EPISODES, "dataset_to_index", lambda _: [12, 21, 99]),
        "dataset_to_index written",
    ),
    "a stale index": (start("index", 5), "rows numbered from 0 on"),
    "a stale frame_index": (
        column(DATA, "frame_index", lambda o: [*range(len(o))]),
        "frame_index: episodes 1-2",
    ),
    "a stale file_index": (two_files, "data/file_index written"),
    "timestamps that are NaN": (start("timestamp", 0.0, NAN), "timestamp: frame_index / fps"),
    "a column that nobody names": (
        table(DATA, lambda t: t.append_column("reward", pa.array([0.5] * len(t)))),
        "features added: reward",
    ),
    "a feature without a column": (
        info(lambda i: i["features"].update(x={"dtype": "int64", "shape": [1], "names": None})),
        "features dropped: x",
    ),
    "a vector of another size": (shape("action", [7]), "given the size of the column: action"),
    "a camera of another size": (shape(FRONT, [480, 640, 3]), "given the size of its videos, 48x48"),

    "frames of the neighbour": (
        column(EPISODES, f"videos/{WRIST}/from_timestamp", lambda _: [0.0, 1.0, 2.1]),
        f"{WRIST} of episodes 0-2 begins where",
    ),
    "no tasks": (unlink(TASKS), "made from the tasks in meta/episodes"),
    "tasks in another order": (two_tasks([1, 0]), "row k is task k"),
    "tasks with a hole": (two_tasks([0, 4]), "row k is task k"),
}

LEFT: dict[str, tuple[Fault, str]] = {
    "broken statistics": (lambda root: (root / "meta/stats.json").write_text("[]"), "stats"),
    "data that is cut off": (truncate(DATA), "data_file"),
    "a video that is missing": (unlink(video(WRIST)), "video_file"),
    "an episode without rows": (table(DATA, lambda t: t[:21]), "episode_rows"),
    "a data file twice": (
        lambda root: shutil.copy(root / DATA, root / "data/chunk-000/file-001.parquet"),
        "row_order",
    ),
    "rows of another episode": (start("episode_index", 0, 1, 0), "row_order"),
    "a task_index without a task": (start("task_index", 7), "tasks"),
    "no instruction": (column(TASKS, "task", lambda _: [" "]), "no_instruction"),
}


def frames(root: Path) -> list[list[bytes]]:
    """What lerobot gives of frames at the ends of each episode."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/test", root=root, video_backend="pyav")
    assert len(dataset) == 36
    keys = ("episode_index", "frame_index", "index", "timestamp", "observation.state", FRONT, WRIST)
    items = [dataset[index] for index in (0, 11, 12, 20, 21, 35)]
    return [[np.asarray(item[key]).tobytes() for key in keys] for item in items]


@pytest.fixture(scope="module")
def right(video_dataset) -> list[list[bytes]]:
    return frames(video_dataset)


@pytest.mark.parametrize("name", MENDED)
def test_a_fault_is_mended_and_lerobot_reads_the_recorded_frames(name, video_dataset, right, tmp_path):
    fault, says = MENDED[name]
    root, out = shutil.copytree(video_dataset, tmp_path / "data"), tmp_path / "out"
    fault(root)
    before = tree(root)
    said = repair(root, out)
    assert any(says in line for line in said), said
    assert tree(root) == before
    source = Source.open(out)
    assert [i for i in inspect(source, source.indices) if i.level != "note"] == []
    assert frames(out) == right
    assert repair(out, tmp_path / "again") == (), "nothing is left to mend"


@pytest.mark.parametrize("name", LEFT)
def test_what_would_be_a_guess_is_left_and_said(name, video_dataset, tmp_path):
    fault, kind = LEFT[name]
    root = shutil.copytree(video_dataset, tmp_path / "data")
    fault(root)
    result = invoke("check", root, "--fix", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert kind in {issue["kind"] for issue in report["issues"] if issue["level"] == "broken"}
    assert report["dataset"] == str(tmp_path / "out")


def test_the_command_says_what_was_mended(video_dataset, tmp_path):
    root, out = shutil.copytree(video_dataset, tmp_path / "data"), tmp_path / "out"
    start("index", 5)(root)
    said = goalreel("check", root, "--fix", "--out", out).splitlines()
    assert said[0] == "mended  index: rows numbered from 0 on"
    assert said[-1].startswith("nothing is broken")
    assert (out / video(FRONT)).samefile(root / video(FRONT))
    assert "is there already" in fails("check", root, "--fix", "--out", out)
    assert "overlaps the dataset" in fails("check", root, "--fix", "--out", root / "in")
    for words in (["--fix"], ["--out", tmp_path / "x"]):
        assert "--fix and --out COPY go together" in fails("check", root, *words)
    assert "no meta/info.json" in fails("check", tmp_path / "none", "--fix", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert goalreel("check", out, "--fix", "--out", tmp_path / "y").startswith(
        "nothing that --fix can repair"
    )


def test_where_an_episode_begins_is_left_where_the_video_does_not_tell(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    column(EPISODES, f"videos/{WRIST}/from_timestamp", lambda _: [1.5, 0.0, 0.9])(root)
    assert repair(root, tmp_path / "out") == ()


def test_episodes_with_records_keep_their_numbers(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "goals", {0: {}})
    renumber(out)
    said = repair(out, tmp_path / "mended")
    assert not any("numbered from 0 on" in line for line in said)
    assert (tmp_path / "mended/meta/goalreel/settings.json").is_file()
