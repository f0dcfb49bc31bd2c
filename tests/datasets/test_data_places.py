"""Stale places in meta/episodes, and downloads of a part: an episode is where its rows are."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.faults import EPISODES, column

from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.health.inspect import inspect, refuse_broken
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError


def data_files(root: Path) -> list[Path]:
    return sorted((root / "data").glob("*/*.parquet"))


STALE = {
    "one too low": lambda places: [max(0, place - 1) for place in places],
    "no such file": lambda places: [place + 70 for place in places],
    "the other way round": lambda places: places[::-1],
}


@pytest.mark.parametrize("name", STALE)
def test_an_episode_is_where_its_rows_are(name, sharded_dataset, tmp_path):
    root = shutil.copytree(sharded_dataset, tmp_path / "data")
    column(EPISODES, "data/file_index", STALE[name])(root)
    before, after = Source.open(sharded_dataset), Source.open(root)
    assert not before.rows.moved
    assert after.rows.moved
    after.check_data()
    for index in before.indices:
        assert np.array_equal(before.episode(index).state, after.episode(index).state)
        assert before.data_path(index).name == after.data_path(index).name
    prints: list[Fingerprint] = [source.fingerprint() for source in (before, after)]
    assert dict(prints[0].episodes) == dict(prints[1].episodes), "its corrections stay"
    issues = {issue.kind: issue for issue in inspect(after, after.indices)}
    assert set(issues["stale_file"].episodes) == after.rows.moved


def test_rows_that_are_nowhere_keep_their_place(sharded_dataset, tmp_path):
    root = shutil.copytree(sharded_dataset, tmp_path / "data")
    data_files(root)[-1].write_bytes(b"no parquet")
    last = Source.open(root).indices[-1]
    with pytest.raises(DatasetError, match=r"episode 3: .*is not readable"):
        Source.open(root).episode(last)


def keep_first_files(root: Path) -> None:
    """Keep the files of the first episodes alone, as a download of a part does."""
    for pattern in ("data/*/*.parquet", "videos/observation.images.*/*/*.mp4"):
        for path in root.glob(pattern):
            if path.name != "file-000.parquet" and path.name != "file-000.mp4":
                path.unlink()


@pytest.mark.long
def test_a_part_of_a_dataset_is_annotated_where_it_is_whole(sharded_dataset, annotated, tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = shutil.copytree(sharded_dataset, tmp_path / "data")
    keep_first_files(root)
    source = Source.open(root)
    refuse_broken(source, [0])
    for chosen in (source.indices, [0, 3]):
        with pytest.raises(DatasetError, match=r"file-00\d.parquet is missing: copy the dataset again"):
            refuse_broken(source, chosen)
    out = annotated(root, tmp_path / "out", {0: {}})
    dataset = LeRobotDataset("local/test", root=out, episodes=[0], video_backend="pyav")
    assert len(dataset) == 12
    assert dataset[5]["observation.images.subgoal"].max() > 0
    whole = annotated(sharded_dataset, tmp_path / "whole", {0: {}})
    with pytest.raises(DatasetError, match=r"episode 3: .* is missing"):
        annotated(root, tmp_path / "out", {3: {}})
    for path in data_files(out):
        assert path.read_bytes() == (whole / path.relative_to(out)).read_bytes()
    assert pq.read_metadata(out / EPISODES).num_rows == 4
    assert Source.open(out).episode(0).instruction == source.episode(0).instruction
