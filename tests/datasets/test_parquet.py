"""Parquet files and Arrow columns without pandas, against pyarrow's own conversions."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goalreel.datasets import parquet
from goalreel.datasets.parquet import array, episode_tables, list_items, read_table, sort_rows
from goalreel.datasets.writing.language import EVENTS, language_types
from goalreel.datasets.writing.layout import row_times

ROW = {
    "role": "assistant",
    "content": "größer 東",
    "style": None,
    "camera": None,
    "tool_calls": ['{"a": 1}', "2"],
}
COLUMNS = {
    "integers": (pa.int64(), [1, None, -3]),
    "floats": (pa.float32(), [0.5, None, float("inf")]),
    "flags": (pa.bool_(), [True, None, False] * 5),
    "texts": (pa.string(), ["", None, "größer 東"]),
    "lists": (pa.list_(pa.int64()), [[1, 2], None, [], [3]]),
    "nested": (pa.list_(pa.list_(pa.float64())), [[[0.5], []], [], None]),
    "structs": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, None]),
    "nothing": (pa.list_(pa.string()), []),
}


@pytest.mark.parametrize(("kind", "values"), COLUMNS.values(), ids=COLUMNS)
def test_an_array_is_pyarrows(kind, values):
    result = array(values, kind)
    result.validate(full=True)
    assert result.equals(pa.array(values, kind))


def test_rows_with_json_can_be_written(tmp_path):
    frames = [[ROW], [], [{**ROW, "tool_calls": None}, ROW]]
    column = array(frames, language_types()[EVENTS])
    column.validate(full=True)
    pq.write_table(pa.table({EVENTS: column}), tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet")[EVENTS].to_pylist() == frames


@pytest.mark.parametrize("keys", [[], [1, 2, 2], [2, 1, 2, 0]])
def test_rows_are_sorted_and_equal_ones_keep_their_order(keys):
    table = pa.table({"key": pa.array(keys, pa.int64()), "row": pa.array(range(len(keys)), pa.int64())})
    assert sort_rows(table, "key").to_pylist() == sorted(table.to_pylist(), key=lambda row: row["key"])


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)])
@pytest.mark.parametrize("rows", [[[1, 2], [3, 4], [5, 6]], [[1, 2], None, [5, 6]]])
def test_the_items_of_lists_are_those_that_flatten_gives(kind, rows):
    column = pa.array(rows, kind)
    for part in (column, column[1:], column[:2], column[3:]):
        assert list_items(part).equals(part.flatten())


@pytest.mark.parametrize("rows", [1, 2, 512])
def test_rows_of_an_episode_are_whole_however_the_file_is_cut(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(parquet, "_ROWS", rows)
    path, times = tmp_path / "a.parquet", pa.array([0.2, 0.0, 0.1, 0.0, 0.5, 1.0], pa.float32())
    pq.write_table(pa.table({"episode_index": [4, 4, 4, 1, 1, 9], "timestamp": times}), path)
    found = [(episode, table) for episode, table in episode_tables(path)]
    assert [(episode, len(table)) for episode, table in found] == [(4, 3), (1, 2), (9, 1)]
    assert pa.concat_tables([table for _, table in found]).equals(pq.read_table(path))
    assert all(column.num_chunks == 1 for _, table in found for column in table.columns)
    assert next(row_times(path))[1].tolist() == np.float32([0.0, 0.1, 0.2]).tolist()


@pytest.mark.parametrize("text", [b"{,", b"[1]", b'{"info": 3}', b'{"info": {"features": [1]}}'])
def test_a_damaged_description_of_features_is_refused(text, tmp_path):
    table = pa.table({"a": [1]}).replace_schema_metadata({b"huggingface": text})
    pq.write_table(table, tmp_path / "file.parquet")
    with pytest.raises(pa.ArrowInvalid, match="Hugging Face is damaged"):
        read_table(tmp_path / "file.parquet")
