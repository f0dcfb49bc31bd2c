"""A recording is its frames and rows: where they lie, and what its words are, do not make another of it."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import av
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goalreel.datasets.fingerprint import Fingerprint, same_frames
from goalreel.datasets.health.inspect import inspect
from goalreel.datasets.source import Source
from goalreel.datasets.writing.language import LANGUAGE_FEATURE
from goalreel.datasets.writing.video import recording_encoder, write_video
from goalreel.errors import DatasetError

DATA = "data/chunk-000/file-000.parquet"


def prints(root: Path) -> Fingerprint:
    return Source.open(root).fingerprint()


def write_tasks(root: Path, tasks: dict[str, int]) -> None:
    index = pd.Index(list(tasks), name="task")
    pd.DataFrame({"task_index": list(tasks.values())}, index=index).to_parquet(root / "meta/tasks.parquet")


def set_column(path: Path, name: str, values: list, kind: pa.DataType | None = None) -> None:
    table = pq.read_table(path)
    if name in table.column_names:
        kind = kind or table.schema.field(name).type
        table = table.drop_columns(name)
    pq.write_table(table.append_column(name, pa.array(values, kind)), path)


def edit_info(root: Path, **features: object) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    for name, feature in features.items():
        info["features"][name.replace("__", ".")] = feature
    (root / "meta/info.json").write_text(json.dumps(info))


def rename_task(root: Path) -> None:
    write_tasks(root, {"put the red block in the blue basket": 0})


def add_labels(root: Path) -> None:
    rows = [[{"content": "reach", "style": "subtask"}]] * len(pq.read_table(root / DATA))
    set_column(root / DATA, "language_persistent", rows)
    edit_info(root, language_persistent=LANGUAGE_FEATURE)


def split_tasks(root: Path) -> None:
    write_tasks(root, {"put the red block in the blue bowl": 0, "and go home": 1})
    episodes = pq.read_table(root / DATA)["frame_index"].to_pylist()
    set_column(root / DATA, "task_index", [int(frame > 6) for frame in episodes])


def renumber_tasks(root: Path) -> None:
    write_tasks(root, {"open the drawer": 0, "put the red block in the blue bowl": 7})
    set_column(root / DATA, "task_index", [7] * len(pq.read_table(root / DATA)))


def write_with_pandas(root: Path) -> None:
    pd.read_parquet(root / DATA).to_parquet(root / DATA, row_group_size=5)


def move_folder(root: Path) -> None:
    root.rename(root.with_name("moved"))
    shutil.copytree(root.with_name("moved"), root)


def mend_shapes(root: Path) -> None:
    edit_info(
        root,
        observation__images__front={"dtype": "video", "shape": [3, 48, 48], "names": None},
        action={"dtype": "float32", "shape": [4], "names": ["a", "b", "c", "d"]},
    )


@pytest.mark.parametrize("edit", [rename_task, add_labels, split_tasks])
def test_other_words_are_no_other_recording(video_dataset, root, edit):
    edit(root)
    before, now = prints(video_dataset), prints(root)
    assert now.shared == before.shared
    assert all(same_frames(now.episodes[e], before.episodes[e]) for e in before.episodes)
    assert not any(now.episodes[e] == before.episodes[e] for e in before.episodes)
    assert now.recording("episode_2") != before.recording("episode_2"), "models are asked again"


def encode_anew(root: Path) -> None:
    for path in root.glob("videos/*/*/*.mp4"):
        with av.open(str(path)) as video:
            pictures = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        size = (pictures[0].shape[1], pictures[0].shape[0])
        runs = ((1, picture, False) for picture in pictures)
        write_video(path, recording_encoder(size), runs, size, Fraction(10))


def test_videos_encoded_anew_are_another_recording(video_dataset, root, annotated, tmp_path):
    before, out = prints(video_dataset), annotated(root, tmp_path / "out", {0: {}})
    encode_anew(root)
    now = prints(root)
    assert now.shared == before.shared
    assert not any(same_frames(now.episodes[e], before.episodes[e]) for e in before.episodes)
    assert not [issue for issue in inspect(Source.open(root), [0, 1, 2]) if issue.level == "broken"]
    with pytest.raises(DatasetError, match="made from another dataset: choose another --out"):
        annotated(root, out, {})


@pytest.mark.parametrize("edit", [renumber_tasks, write_with_pandas, move_folder, mend_shapes])
def test_other_numbers_files_and_descriptions_change_nothing(video_dataset, root, edit):
    edit(root)
    before, now = prints(video_dataset), prints(root)
    assert now.shared == before.shared
    assert dict(now.episodes) == dict(before.episodes)


def test_files_may_be_cut_otherwise(sharded_dataset, tmp_path):
    """All rows in one file, of which some have no value: no batch of rows begins where it did."""
    root = shutil.copytree(sharded_dataset, tmp_path / "in")
    files = sorted((root / "data").glob("*/*.parquet"))
    for path in files:
        frames = pq.read_table(path)["frame_index"].to_pylist()
        set_column(path, "force", [None if f % 5 == 3 else 0.5 * f for f in frames], pa.float32())
    before = dict(prints(root).episodes)
    together = pa.concat_tables([pq.read_table(path) for path in files])
    for path in files:
        path.unlink()
    pq.write_table(together, root / DATA, row_group_size=7)
    for path in (root / "meta/episodes").glob("*/*.parquet"):
        for name in ("data/chunk_index", "data/file_index"):
            set_column(path, name, [0] * len(pq.read_table(path)))
    assert dict(prints(root).episodes) == before


def test_equal_recordings_are_equal_whatever_their_numbers(video_dataset, root):
    for path in (root / DATA, *(root / "meta/episodes").glob("*/*.parquet")):
        numbers = pq.read_table(path)["episode_index"].to_pylist()
        set_column(path, "episode_index", [10 + number for number in numbers])
    moved, before = prints(root).episodes, prints(video_dataset).episodes
    assert all(moved[10 + e] == before[e] for e in before)
