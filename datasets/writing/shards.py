"""Data files rewritten with the language columns and the goal mask; every other column as it was."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.writing import language
from goalreel.datasets.writing.goals import Goals
from goalreel.files import atomic


def rewrite_shard(
    original: Path,
    target: Path,
    goals: Mapping[int, Goals],
    pad_key: str,
    had_camera: bool,
    replace_rows: bool = False,
) -> None:
    """Write `target`, one row group an episode, from `original`.

    `goals` are those of this run's episodes; the rows of all others stay. `pad_key` is True on frames
    without an accepted goal. An episode outside this run keeps its mask; without one it is False throughout
    if it `had_camera`, else True. An episode that has subtask rows keeps its rows, unless `replace_rows`.

    Raises:
        DatasetError: rows that lerobot would reject, or a full disk.
    """
    from lerobot.datasets.io_utils import write_table_one_row_group_per_episode
    from lerobot.datasets.language import language_events_arrow_type, language_persistent_arrow_type

    table = pq.read_table(original)
    kinds = {
        "language_persistent": language_persistent_arrow_type(),
        "language_events": language_events_arrow_type(),
        pad_key: pa.bool_(),
    }
    new: dict[str, list[pa.Array]] = {name: [] for name in kinds}
    for episode, part in _episodes(table):
        columns = _old_columns(part, kinds, had_camera)
        if episode in goals:
            columns |= _new_columns(part, columns, goals[episode], pad_key, target, replace_rows)
        for name, values in columns.items():
            new[name].append(values)
    for name, kind in kinds.items():
        table = put_column(table, pa.field(name, kind), pa.chunked_array(new[name], kind))
    with atomic(target) as tmp:
        write_table_one_row_group_per_episode(table, tmp)


def put_column(table: pa.Table, field: pa.Field, values: pa.ChunkedArray) -> pa.Table:
    """Append or replace a column and keep the Hugging Face features in the schema metadata in step."""
    at = table.schema.get_field_index(field.name)
    metadata = _declare(table.schema.metadata, field)
    table = table.append_column(field, values) if at < 0 else table.set_column(at, field, values)
    return table.replace_schema_metadata(metadata)


def _declare(metadata: Mapping[bytes, bytes] | None, field: pa.Field) -> dict[bytes, bytes] | None:
    from datasets import Features

    if not metadata or b"huggingface" not in metadata:
        return dict(metadata) if metadata else None
    known = json.loads(metadata[b"huggingface"])
    if features := known.get("info", {}).get("features"):
        features |= Features.from_arrow_schema(pa.schema([field])).to_dict()
    return {**metadata, b"huggingface": json.dumps(known).encode()}


def _episodes(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Runs of equal `episode_index`, in file order."""
    episode = table["episode_index"].to_numpy()
    starts = np.flatnonzero(np.diff(episode, prepend=episode[:1] - 1))
    for start, stop in zip(starts, [*starts[1:], len(episode)], strict=True):
        yield int(episode[start]), table.slice(start, stop - start)


def _old_columns(part: pa.Table, kinds: Mapping[str, pa.DataType], had_camera: bool) -> dict[str, pa.Array]:
    columns = {}
    for name, kind in kinds.items():
        stored = part[name].combine_chunks() if name in part.column_names else None
        if pa.types.is_boolean(kind):
            columns[name] = stored if stored is not None else pa.array(np.full(len(part), not had_camera))
        elif stored is None:
            columns[name] = language.broadcast([], len(part), kind)
        else:
            columns[name] = language.canonical(stored, kind)
    return columns


def _new_columns(
    part: pa.Table,
    old: Mapping[str, pa.Array],
    goals: Goals,
    pad_key: str,
    path: Path,
    replace_rows: bool,
) -> dict[str, pa.Array]:
    frame = part["frame_index"].to_numpy() if "frame_index" in part.column_names else np.arange(len(part))
    order = np.argsort(frame, kind="stable")
    pad = np.empty(len(part), bool)
    pad[order] = goal_pad(goals, len(part))
    kept = old["language_persistent"][0].as_py() or []
    if not replace_rows and any(row["style"] == "subtask" for row in kept):
        return {pad_key: pa.array(pad)}
    timestamps = part["timestamp"].to_numpy()[order]
    rows = language.goal_rows(goals, timestamps)
    language.validate(rows, goals.episode, timestamps, path)
    kind = old["language_persistent"].type
    interjected = _interjected(old["language_events"], part["timestamp"].to_numpy())
    return {
        "language_persistent": language.broadcast(
            language.merge_rows(kept, rows, interjected), len(part), kind
        ),
        pad_key: pa.array(pad),
    }


def goal_pad(goals: Goals, length: int) -> NDArray[np.bool_]:
    """True on the frames, in order, that have no goal picture, (length,)."""
    counts, pictures = zip(*goals.runs(length), strict=True)
    return np.repeat([p is None for p in pictures], counts)


def _interjected(events: pa.Array, timestamps: NDArray[np.float32]) -> set[float]:
    rows: list[list[dict[str, Any]]] = events.to_pylist()
    return {
        float(t)
        for t, r in zip(timestamps, rows, strict=True)
        if any(e["style"] == "interjection" for e in r)
    }
