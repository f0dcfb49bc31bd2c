"""A recording is its frames and rows: where they lie, and what its words are, do not make another of it."""

import shutil
from fractions import Fraction
from pathlib import Path

import av
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.faults import DATA, FRONT, TASKS, Fault, both, column, feature, table

from goalreel.datasets.fingerprint import Fingerprint, same_frames
from goalreel.datasets.health.inspect import inspect
from goalreel.datasets.source import Source
from goalreel.datasets.writing.language import LANGUAGE_FEATURE
from goalreel.datasets.writing.video import recording_encoder, write_video
from goalreel.errors import DatasetError


def prints(root: Path) -> Fingerprint:
    return Source.open(root).fingerprint()


def tasks(indices: dict[str, int]) -> Fault:
    return table(TASKS, lambda _: pa.table({"task_index": [*indices.values()], "task": [*indices]}))


def add_labels(root: Path) -> None:
    rows = [[{"content": "reach", "style": "subtask"}]]
    table(DATA, lambda t: t.append_column("language_persistent", pa.array(rows * len(t))))(root)
    feature("language_persistent", **LANGUAGE_FEATURE)(root)


def move_folder(root: Path) -> None:
    root.rename(root.with_name("moved"))
    shutil.copytree(root.with_name("moved"), root)


TASK = "put the red block in the blue bowl"
OTHER_WORDS: dict[str, Fault] = {
    "a task renamed": tasks({"put the red block in the blue basket": 0}),
    "labels": add_labels,
    "two tasks": both(
        tasks({TASK: 0, "and go home": 1}),
        column(DATA, "task_index", lambda old: [0] * 7 + [1] * (len(old) - 7)),
    ),
}
THE_SAME: dict[str, Fault] = {
    "numbers of tasks": both(
        tasks({"open the drawer": 0, TASK: 7}), column(DATA, "task_index", lambda old: [7] * len(old))
    ),
    "by pandas": lambda root: pd.read_parquet(root / DATA).to_parquet(root / DATA, row_group_size=5),
    "a folder moved": move_folder,
    "shapes": both(
        feature(FRONT, shape=[3, 48, 48], names=None), feature("action", names=["a", "b", "c", "d"])
    ),
}


@pytest.mark.parametrize("edit", OTHER_WORDS.values(), ids=OTHER_WORDS)
def test_other_words_are_no_other_recording(video_dataset, root, edit):
    edit(root)
    before, now = prints(video_dataset), prints(root)
    assert now.shared == before.shared
    assert all(same_frames(now.episodes[e], before.episodes[e]) for e in before.episodes)
    assert not any(now.episodes[e] == before.episodes[e] for e in before.episodes)
    pairs = [(now.recording(f"episode_{e}"), before.recording(f"episode_{e}")) for e in range(3)]
    assert all(new != old for new, old in pairs), "models are asked again"


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


@pytest.mark.parametrize("edit", THE_SAME.values(), ids=THE_SAME)
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
        force = pa.array([None if f % 5 == 3 else 0.5 * f for f in frames], pa.float32())
        table(str(path), lambda t, force=force: t.append_column("force", force))(root)
    before = dict(prints(root).episodes)
    together = pa.concat_tables([pq.read_table(path) for path in files])
    for path in files:
        path.unlink()
    pq.write_table(together, root / DATA, row_group_size=7)
    for path in (root / "meta/episodes").glob("*/*.parquet"):
        for name in ("data/chunk_index", "data/file_index"):
            column(str(path), name, lambda old: [0] * len(old))(root)
    assert dict(prints(root).episodes) == before


def test_equal_recordings_are_equal_whatever_their_numbers(video_dataset, root):
    for path in (root / DATA, *(root / "meta/episodes").glob("*/*.parquet")):
        column(str(path), "episode_index", lambda old: [10 + number for number in old])(root)
    moved, before = prints(root).episodes, prints(video_dataset).episodes
    assert all(moved[10 + e] == before[e] for e in before)
