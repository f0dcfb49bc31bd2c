"""Files of many row groups, read some groups at a time: the same rows come out as pyarrow reads at once."""

import gc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goalreel.datasets import parquet as row_groups
from goalreel.datasets.episode import read_rows
from goalreel.datasets.parquet import (
    array,
    parquet_parts,
    parquet_schema,
    read_row_groups,
    read_table,
    value_spans,
)
from goalreel.datasets.writing.language import language_types
from goalreel.datasets.writing.shards import episode_tables

EPISODES, FRAMES = 300, 2


@pytest.fixture
def cut(monkeypatch):
    """Even small files are cut, 128 groups a part; the default keeps a thousand in one."""
    monkeypatch.setattr(row_groups, "SMALL", 0)
    monkeypatch.setattr(row_groups, "GROUPS", 128)
    row_groups._cut.cache_clear()
    yield
    row_groups._cut.cache_clear()


@pytest.fixture
def table() -> pa.Table:
    """What data files hold: numbers, lists of them, stored pictures, texts, nothing, and language."""
    rows = EPISODES * FRAMES
    persistent, _ = language_types().values()
    picture = {"bytes": b"\x00\xffpng" * 50, "path": None}
    columns = {
        "episode_index": pa.array(np.arange(rows) // FRAMES),
        "timestamp": pa.array(np.arange(rows) % FRAMES / 10, pa.float32()),
        "action": pa.array([[i, -i] for i in range(rows)], pa.list_(pa.float32())),
        "front": pa.array([picture if i % 3 else None for i in range(rows)]),
        "text": pa.array(["ü" * (i % 300) for i in range(rows)]),
        "nothing": pa.nulls(rows, pa.int64()),
        "flag": pa.array(np.arange(rows) % 2 == 0),
        "language_persistent": array([[]] * rows, persistent),
    }
    return pa.table(columns).replace_schema_metadata({"huggingface": '{"info": {}}'})


OPTIONS = (
    {},
    {"write_statistics": False, "compression": "none"},
    {"write_page_index": True, "version": "1.0"},
    {"use_dictionary": False, "data_page_version": "2.0", "store_schema": False},
)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_parts_are_the_whole(cut, table, tmp_path, options):
    path = tmp_path / "file.parquet"
    pq.write_table(table, path, row_group_size=FRAMES, **options)
    whole = pq.ParquetFile(path)
    counts = [part.num_row_groups for part in parquet_parts(path)]
    assert counts == [128, 128, 44]
    assert read_table(path).equals(whole.read())
    assert parquet_schema(path).equals(whole.schema_arrow, check_metadata=True)
    groups = list(row_groups.row_groups(path))
    assert [g.to_dict() for g in groups] == [whole.metadata.row_group(i).to_dict() for i in range(EPISODES)]
    episodes = [(episode, len(rows)) for episode, rows in episode_tables(path, ["episode_index"])]
    assert episodes == [(i, FRAMES) for i in range(EPISODES)]


def test_a_file_is_whole_where_its_footer_is_unlike_those_that_are_known(cut, table, tmp_path, monkeypatch):
    path = tmp_path / "file.parquet"
    pq.write_table(table, path, row_group_size=FRAMES)
    monkeypatch.setattr(row_groups, "_ROW_GROUPS", b"\x29")
    assert [part.num_row_groups for part in parquet_parts(path)] == [EPISODES]


def test_a_file_that_was_cut_off_is_not_readable(cut, table, tmp_path):
    path = tmp_path / "file.parquet"
    pq.write_table(table, path, row_group_size=FRAMES)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(pa.ArrowInvalid):
        read_table(path)


def test_an_episode_is_read_from_its_part(cut, table, tmp_path):
    path = tmp_path / "file.parquet"
    pq.write_table(table.append_column("frame_index", table["timestamp"]), path, row_group_size=FRAMES)
    assert value_spans(path, "episode_index") == [(0, 127), (128, 255), (256, 299)]
    assert value_spans(path, "front") == [None] * 3
    for episode in (0, 127, 128, 299):
        rows = read_rows(path, episode, "here", ("action",))
        assert rows["action"].to_pylist() == table["action"].to_pylist()[FRAMES * episode :][:FRAMES]
        assert "text" not in rows.column_names
    assert len(read_rows(path, 300, "here")) == 0


def test_what_was_read_of_a_part_goes_without_the_garbage_collector(cut, table, tmp_path):
    path = tmp_path / "file.parquet"
    pq.write_table(table, path, row_group_size=FRAMES)
    gc.collect()
    gc.disable()
    try:
        before = metadata_in_memory()
        assert value_spans(path, "episode_index")[1] == (128, 255)
        assert sum(len(rows) for rows in read_row_groups(path, [1, 130, 299])) == 3 * FRAMES
        assert metadata_in_memory() == before
    finally:
        gc.enable()


def metadata_in_memory() -> int:
    return sum(type(thing) is pq.FileMetaData for thing in gc.get_objects())


def test_parts_that_share_an_episode_are_read_together(cut, table, tmp_path):
    path = tmp_path / "file.parquet"
    pq.write_table(table.append_column("frame_index", table["timestamp"]), path, row_group_size=3)
    assert [len(read_rows(path, e, "here")) for e in (63, 64, 127, 299)] == [FRAMES] * 4
