"""Data files rewritten with the language columns and the goal mask; every other column as it was.

One episode is in memory at a time, however many a file holds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.labels import LanguageRow, has_sub_tasks, persistent_rows
from goalreel.datasets.parquet import array, episode_tables, read_schema, to_numpy
from goalreel.datasets.writing import language
from goalreel.datasets.writing.goals import Goals, frame_tasks
from goalreel.datasets.writing.language import drop_fields, language_types, put_field
from goalreel.datasets.writing.plan import BuildPlan, TextOptions
from goalreel.files import atomic
from goalreel.planners.kinematic.description import HAND_MOTIONS

STORY_STYLES = ("subtask", "plan", "memory")
"""Styles that tell the steps of an episode."""
GROUPS = 1024
"""Row groups of a file at most: each takes 25 KB of memory until the file is written, whenever it is read."""


def rewrite_shard(original: Path, target: Path, job: BuildPlan) -> None:
    """Write `target` from `original`, one row group an episode, or several where there are more than GROUPS.

    `job.goals` are those of this run's episodes; the rows of all others stay. The mask is True on frames
    without an accepted goal. An episode outside this run keeps its mask; without one it is False throughout
    if IN has the camera, else True. An episode that has subtask rows keeps its rows, unless `job.text`
    replaces them or a person corrected it.
    """
    with atomic(target) as tmp:
        written = language_types() if job.text.language else {}
        schema = read_schema(original)
        schema = schema if written else drop_fields(schema, language_types())
        kinds = {**written, job.pad_key: pa.bool_()}
        for name, kind in kinds.items():
            schema = put_field(schema, pa.field(name, kind))
        if job.tasks:
            kinds["task_index"] = schema.field("task_index").type
        # As lerobot's write_table_one_row_group_per_episode does, which wants the whole table.
        with pq.ParquetWriter(tmp, schema, compression="snappy", use_dictionary=True) as writer:
            together, waiting = max(-(-len(job.inside.get(original, ())) // GROUPS), 1), list[pa.Table]()
            for episode, part in episode_tables(original):
                columns = _old_columns(part, kinds, job.had_camera)
                if episode in job.goals:
                    columns |= _new_columns(part, columns, job.goals[episode], job)
                arrays = [columns[n] if n in columns else part[n] for n in schema.names]
                waiting.append(pa.Table.from_arrays(arrays, schema=schema))
                if len(waiting) == together:
                    _write_group(writer, waiting)
            if waiting:
                _write_group(writer, waiting)


def _write_group(writer: pq.ParquetWriter, tables: list[pa.Table]) -> None:
    """Write the tables as one row group, and empty the list."""
    table = pa.concat_tables(tables)
    writer.write_table(table, row_group_size=len(table))
    tables.clear()


def _old_columns(part: pa.Table, kinds: Mapping[str, pa.DataType], had_camera: bool) -> dict[str, pa.Array]:
    columns = {}
    for name, kind in kinds.items():
        stored = part[name].combine_chunks() if name in part.column_names else None
        if name == "task_index":
            columns[name] = stored
        elif pa.types.is_boolean(kind):
            columns[name] = stored if stored is not None else array(np.full(len(part), not had_camera), kind)
        elif stored is None:
            columns[name] = language.spread([], np.zeros(len(part), np.float32), kind)
        else:
            columns[name] = language.canonical(stored, kind)
    return columns


def _new_columns(
    part: pa.Table, old: Mapping[str, pa.Array], goals: Goals, job: BuildPlan
) -> dict[str, pa.Array]:
    frame = to_numpy(part["frame_index"]) if "frame_index" in part.column_names else np.arange(len(part))
    order = np.argsort(frame, kind="stable")
    pad = np.empty(len(part), bool)
    pad[order] = goal_pad(goals, len(part))
    columns: dict[str, pa.Array] = {job.pad_key: array(pad, pa.bool_())}
    if job.tasks:
        index = to_numpy(old["task_index"])
        task_index = np.empty_like(index)
        replace = job.text.replace_rows or goals.corrected or has_sub_tasks(job.source.features)
        task_index[order] = frame_tasks(goals, job.tasks, index[order], job.source.tasks, replace)
        columns["task_index"] = array(task_index, old["task_index"].type)
    if job.text.language:
        columns["language_persistent"] = _rows(part, old, goals, order, job.text)
    return columns


def _rows(
    part: pa.Table,
    old: Mapping[str, pa.Array],
    goals: Goals,
    order: NDArray[np.int64],
    text: TextOptions,
) -> pa.Array:
    """The episode's rows on each of its frames, of which `order` gives the order of time.

    Unasked, rows of the owner's are never replaced: where it has subtask rows, none are added either. Where
    it is asked for, or a person corrected it, none of them stay, even where there is nothing to say instead.
    """
    times = to_numpy(part["timestamp"])
    column = old["language_persistent"]
    in_order = column if (np.diff(order) > 0).all() else column.take(array(order, pa.int64()))
    old_rows = persistent_rows(in_order, times[order])
    rows = language.goal_rows(goals, times[order], text.task_aug)
    dropped = STORY_STYLES if goals.corrected or text.replace_rows else ()
    owner_styles = {row["style"] for row in old_rows} - set(dropped)
    owner_wins = {*STORY_STYLES} if "subtask" in owner_styles else owner_styles & {*STORY_STYLES}
    if not _are_of_hand(old_rows) and (not text.replace_rows or _are_of_hand(rows)):
        owner_wins.add("motion")
    rows = [row for row in rows if row["style"] not in owner_wins]
    if text.task_aug and not text.replace_rows:
        owner_rows = [row for row in old_rows if row["style"] == "task_aug"]
        contents = {row["content"] for row in owner_rows}
        rows = owner_rows + [
            row for row in rows if row["style"] != "task_aug" or row["content"] not in contents
        ]
    if not rows and not any(row["style"] in dropped for row in old_rows):
        return column
    merged = language.merge_rows(old_rows, rows, _interjected(old["language_events"], times), dropped)
    return language.spread(merged, times, column.type)


def _are_of_hand(rows: Sequence[LanguageRow]) -> bool:
    """Tell if the motion rows, if any, say what the hand does and nothing else."""
    contents = {row["content"] for row in rows if row["style"] == "motion"}
    return contents <= {*HAND_MOTIONS, None}


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
