"""Data files rewritten with the language columns and the goal mask; every other column as it was."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.writing import language
from goalreel.datasets.writing.goals import Goals
from goalreel.datasets.writing.tasks import frame_tasks
from goalreel.datasets.writing.text import TextOptions
from goalreel.files import atomic


def rewrite_shard(
    original: Path,
    target: Path,
    goals: Mapping[int, Goals],
    pad_key: str,
    had_camera: bool,
    text: TextOptions,
    tasks: Mapping[str, int],
) -> None:
    """Write `target`, one row group an episode, from `original`.

    `goals` are those of this run's episodes; the rows of all others stay. `pad_key` is True on frames
    without an accepted goal. An episode outside this run keeps its mask; without one it is False throughout
    if it `had_camera`, else True. `tasks` are the indices of the sub-tasks that frames shall have as their
    tasks, empty where they keep their own.

    Raises:
        DatasetError: rows that lerobot would reject, or a full disk.
    """
    from lerobot.datasets.io_utils import write_table_one_row_group_per_episode

    table = pq.read_table(original)
    if not text.language:
        table = drop_columns(table, _language_types())
    kinds = {**(_language_types() if text.language else {}), pad_key: pa.bool_()}
    if tasks:
        kinds["task_index"] = table.schema.field("task_index").type
    new: dict[str, list[pa.Array]] = {name: [] for name in kinds}
    for episode, part in _episodes(table):
        columns = _old_columns(part, kinds, had_camera)
        if episode in goals:
            columns |= _new_columns(part, columns, goals[episode], pad_key, target, text, tasks)
        for name, values in columns.items():
            new[name].append(values)
    for name, kind in kinds.items():
        table = put_column(table, pa.field(name, kind), pa.chunked_array(new[name], kind))
    with atomic(target) as tmp:
        write_table_one_row_group_per_episode(table, tmp)


def _language_types() -> dict[str, pa.DataType]:
    from lerobot.datasets.language import language_events_arrow_type, language_persistent_arrow_type

    return {
        "language_persistent": language_persistent_arrow_type(),
        "language_events": language_events_arrow_type(),
    }


def drop_columns(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """Leave columns out, and out of the Hugging Face features in the schema metadata."""
    names = [name for name in names if name in table.column_names]
    metadata = dict(table.schema.metadata or {})
    if b"huggingface" in metadata:
        known = json.loads(metadata[b"huggingface"])
        features = known.get("info", {}).get("features") or {}
        for name in names:
            features.pop(name, None)
        metadata[b"huggingface"] = json.dumps(known).encode()
    return table.drop_columns(names).replace_schema_metadata(metadata or None)


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
        if name == "task_index":
            columns[name] = stored
        elif pa.types.is_boolean(kind):
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
    text: TextOptions,
    tasks: Mapping[str, int],
) -> dict[str, pa.Array]:
    frame = part["frame_index"].to_numpy() if "frame_index" in part.column_names else np.arange(len(part))
    order = np.argsort(frame, kind="stable")
    pad = np.empty(len(part), bool)
    pad[order] = goal_pad(goals, len(part))
    columns: dict[str, pa.Array] = {pad_key: pa.array(pad)}
    if tasks:
        index = old["task_index"].to_numpy()
        mine = np.empty_like(index)
        mine[order] = frame_tasks(goals, tasks, index[order])
        columns["task_index"] = pa.array(mine, old["task_index"].type)
    if text.language:
        columns["language_persistent"] = _rows(
            part, old, goals, part["timestamp"].to_numpy()[order], path, text.task_aug
        )
    return columns


def _rows(
    part: pa.Table,
    old: Mapping[str, pa.Array],
    goals: Goals,
    timestamps: NDArray[np.float32],
    path: Path,
    task_aug: bool,
) -> pa.Array:
    """The episode's rows on each of its frames; `timestamps` are in frame order."""
    rows = language.goal_rows(goals, timestamps, task_aug)
    language.validate(rows, goals.episode, timestamps, path)
    kept = old["language_persistent"][0].as_py() or []
    merged = language.merge_rows(
        kept, rows, _interjected(old["language_events"], part["timestamp"].to_numpy())
    )
    return language.broadcast(merged, len(part), old["language_persistent"].type)


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
