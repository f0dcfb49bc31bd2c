"""Facts of episodes as rows of numbers, and the readers that hold few rows at a time."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goalreel.datasets.episode_rows import EpisodeTable
from goalreel.datasets.fingerprint import make_id, pack_id, unpack_id
from goalreel.datasets.health.frames import FrameRows
from goalreel.datasets.parquet import read_table, read_tables
from goalreel.datasets.writing import layout
from goalreel.datasets.writing.layout import row_times
from goalreel.errors import DatasetError


def test_a_table_is_a_mapping_in_the_order_of_its_rows():
    table = EpisodeTable(np.array([7, 2, 5]), np.array([70, 20, 50]), int)
    assert dict(table) == {7: 70, 2: 20, 5: 50}
    assert list(table) == [7, 2, 5]
    assert (2 in table, 3 in table, 9 in table) == (True, False, False)
    assert table.get(3) is None
    with pytest.raises(KeyError):
        table[9]


def test_a_recordings_id_is_the_same_after_packing():
    id = make_id("a1" * 32, "0b" * 32, "c0" * 32)
    assert len(pack_id(id)) == 64
    assert unpack_id(pack_id(id)) == id


@pytest.mark.parametrize("count", [0, 1, 6, 7, 20])
def test_tables_of_some_rows_are_the_whole_file(tmp_path, count):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": pa.array(range(count), pa.int64())}), path, row_group_size=3)
    tables = list(read_tables(path, 6))
    assert [len(t) for t in tables] == [6] * (max(count - 1, 0) // 6) + [max(count - 1, 0) % 6 + bool(count)]
    assert pa.concat_tables(tables).equals(read_table(path))


def episodes_file(path, episodes, times):
    columns = {"episode_index": pa.array(episodes, pa.int64()), "timestamp": pa.array(times, pa.float32())}
    pq.write_table(pa.table(columns), path)
    return path


def test_times_of_an_episode_are_whole_however_the_file_is_cut(tmp_path, monkeypatch):
    path = episodes_file(tmp_path / "a.parquet", [4, 4, 4, 1, 1, 9], [0.2, 0.0, 0.1, 0.0, 0.5, 1.0])
    whole = [(e, t.tolist()) for e, t in row_times(path)]
    monkeypatch.setattr(layout, "ROWS", 2)
    assert [(e, t.tolist()) for e, t in row_times(path)] == whole
    assert [e for e, _ in whole] == [4, 1, 9]
    assert whole[0][1] == np.float32([0.0, 0.1, 0.2]).tolist()


def test_an_episode_whose_rows_are_apart_is_refused(tmp_path):
    path = episodes_file(tmp_path / "a.parquet", [0, 1, 0], [0.0, 0.0, 0.1])
    with pytest.raises(DatasetError, match="mixed up"):
        list(row_times(path))


def test_the_rows_of_an_episode_are_found_in_any_order_and_in_any_file(tmp_path):
    paths = [
        episodes_file(tmp_path / f"{i}.parquet", episodes, [0.0] * len(episodes))
        for i, episodes in enumerate(([3, 3, 1], [], [2, 3, 2**40]))
    ]
    rows = FrameRows.read(paths)
    assert {e: at.tolist() for e, at in rows.of_episode.items()} == {1: [2], 2: [3], 3: [0, 1, 4], 2**40: [5]}
    assert rows.file.tolist() == [0, 0, 0, 2, 2, 2]
    assert rows.frame.tolist() == [np.iinfo(np.int64).min] * 6
    assert len(FrameRows.read([]).of_episode) == 0
    ordered = FrameRows.read([episodes_file(tmp_path / "b.parquet", [0, 0, 2], [0.0, 0.1, 0.0])])
    assert {e: at.tolist() for e, at in ordered.of_episode.items()} == {0: [0, 1], 2: [2]}
    assert ordered.episode.dtype == np.int32
