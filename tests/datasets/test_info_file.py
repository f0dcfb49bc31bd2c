"""Odd values in meta/: what lerobot could not load is refused in one line, and the rest is read as it is."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.faults import DATA, EPISODES, FRONT, TASKS, Fault, column, info, table
from support.recordings import lerobot_reads

from goalreel.annotator.check import check
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError


def feature(name: str, **changes: object) -> Fault:
    return info(lambda i: i["features"][name].update(changes))


def pandas_type(file: str, name: str, kind: str) -> Fault:
    """As pandas changes a column, for instance where a value was missing once."""

    def apply(root: Path) -> None:
        frame = pd.read_parquet(root / file)
        frame[name] = frame[name].astype(kind)
        frame.to_parquet(root / file)

    return apply


REFUSED: dict[str, tuple[Fault, str]] = {
    "no chunks": (info(lambda i: i.update(chunks_size=0)), "chunks_size is 0: .* greater than 0"),
    "a size that is none": (info(lambda i: i.update(data_files_size_in_mb="x")), "is 'x': .* a valid"),
    "a rate that is true": (info(lambda i: i.update(fps=True)), "fps is True: .* number"),
    "a feature that is none": (info(lambda i: i["features"].update(action=None)), "features.action is None"),
    "a feature without a dtype": (info(lambda i: i["features"][FRONT].pop("dtype")), "front.dtype: Field required"),
    "a dtype that nobody knows": (feature("action", dtype="audio"), "0.6 does not know the dtype 'audio'"),
    "no shape": (info(lambda i: i["features"]["action"].pop("shape")), "the shape None: write its sizes"),
    "an empty shape": (feature("action", shape=[]), r"refuses the shape \[\]"),
    "a vector of nothing": (feature("action", shape=[0]), r"refuses the shape \[0\]"),
    "six dimensions": (feature("action", shape=[1] * 6), "lerobot refuses the shape .*: write its sizes, such as"),
    "a video's place as text": (
        pandas_type(EPISODES, f"videos/{FRONT}/file_index", "str"),
        "front/file_index is of type (large_)?string: write whole numbers, as int64",
    ),
    "a video's place as a fraction": (
        pandas_type(EPISODES, f"videos/{FRONT}/file_index", "float64"),
        "front/file_index is of type double: write whole numbers, as int64",
    ),
    "a video's time as text": (
        pandas_type(EPISODES, f"videos/{FRONT}/from_timestamp", "str"),
        "front/from_timestamp is of type (large_)?string: write seconds",
    ),
    "a stray file": (
        lambda root: (root / EPISODES).with_name("._file-000.parquet").write_bytes(b"none"),
        "not readable as parquet .*, where lerobot fails: remove a stray file",
    ),
    "a file without episodes": (
        lambda root: pq.write_table(
            pq.read_table(root / EPISODES)[:0], (root / EPISODES).with_name("file-001.parquet")
        ),
        "file-001.parquet: holds no episode, where lerobot fails: remove the file",
    ),
    "no path of videos": (info(lambda i: i.update(video_path=None)), "no video_path: write lerobot's"),
}
"""All but what lerobot reads by luck: `fps` that is true."""
READ: dict[str, Fault] = {
    "a list of robots": info(lambda i: i.update(robot_type=["so101", "so101"])),
    "names that are none": feature("observation.state", names=-1),
    "a camera without a shape": info(lambda i: i["features"][FRONT].pop("shape")),
    "a camera whose names are a number": feature(FRONT, names=3),
    "places as 32 bits": pandas_type(EPISODES, f"videos/{FRONT}/file_index", "int32"),
    "lengths as fractions": pandas_type(EPISODES, "length", "float64"),
    "data files as fractions": pandas_type(EPISODES, "data/file_index", "float64"),
    "tasks by fractions": pandas_type(TASKS, "task_index", "float64"),
    "episodes as 32 bits": pandas_type(DATA, "episode_index", "int32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_lerobot_could_not_load_is_refused_in_one_line(name, video_dataset, tmp_path):
    fault, message = REFUSED[name]
    root = shutil.copytree(video_dataset, tmp_path / "data")
    fault(root)
    with pytest.raises(DatasetError, match=rf"\A[^\n]*{message}[^\n]*\Z"):
        Source.open(root).episode(0).frames(FRONT, [0])
    report = check(root)
    assert report.count("broken")
    assert lerobot_reads(root) == (name == "a rate that is true")


@pytest.mark.parametrize("name", READ)
def test_what_lerobot_loads_is_read(name, video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    READ[name](root)
    before = json.loads((root / "meta/info.json").read_text())
    report = check(root)
    assert report.episodes == 3
    assert not report.count("broken"), report.issues
    (picture,) = Source.open(root).episode(2).frames(FRONT, [14])
    assert picture.size == (48, 48)
    assert lerobot_reads(root)
    assert json.loads((root / "meta/info.json").read_text()) == before


def test_tasks_without_a_number_are_one_line(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    column(TASKS, "task_index", lambda _: [None])(root)
    with pytest.raises(DatasetError, match=r"tasks.parquet: task_index is no whole number in each row"):
        Source.open(root)
    table(TASKS, lambda t: t.drop_columns(["task_index"]))(root)
    assert check(root).count("broken")
