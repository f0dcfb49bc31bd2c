"""The language columns in exactly lerobot's Arrow types, and data files rewritten with them and the mask.

lerobot 0.6's `LanguageColumnsWriter` lets pyarrow infer the types (double timestamps, null columns) and
blanks every episode it was not given. The rows and their order are those that its validator and writer want.
One episode is in memory at a time, however many a file holds.
"""

import itertools
import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.labels import (
    LanguageRow,
    has_sub_tasks,
    is_end,
    joined_tasks,
    language_row,
    persistent_rows,
)
from goalreel.datasets.parquet import array, episode_tables, read_schema, to_numpy
from goalreel.datasets.writing.goals import Goals, frame_tasks
from goalreel.datasets.writing.plan import BuildPlan, TextOptions
from goalreel.files import TMP, atomic, find, read_json, write_bytes
from goalreel.planners.kinematic.description import HAND_MOTIONS
from goalreel.planners.kinematic.paraphrases import paraphrases

PERSISTENT = "language_persistent"
EVENTS = "language_events"
LANGUAGE_FEATURE: dict[str, Any] = {"dtype": "language", "shape": [1], "names": None}
"""Feature of a language column in info.json."""


def language_types() -> dict[str, pa.ListType]:
    """The Arrow type of each language column: on every frame a list of rows.

    A row of `language_persistent` holds from its timestamp on; one of `language_events` belongs to its frame.
    """
    role = pa.field("role", pa.string(), nullable=False)
    content, style = pa.field("content", pa.string()), pa.field("style", pa.string())
    timestamp = pa.field("timestamp", pa.float32(), nullable=False)
    view = [pa.field("camera", pa.string()), pa.field("tool_calls", pa.list_(pa.json_()))]
    return {
        PERSISTENT: pa.list_(pa.struct([role, content, style, timestamp, *view])),
        EVENTS: pa.list_(pa.struct([role, content, style, *view])),
    }


def with_fields(schema: pa.Schema, fields: Sequence[pa.Field], dropped: Collection[str] = ()) -> pa.Schema:
    """Append or replace fields and leave others out, also in the Hugging Face features of the metadata."""
    kept = {field.name: field for field in schema if field.name not in dropped}
    metadata = dict(schema.metadata or {})
    if b"huggingface" in metadata:
        content = json.loads(metadata[b"huggingface"])
        features = content.get("info", {}).get("features") or {}
        for name in dropped:
            features.pop(name, None)
        if features:
            features |= {new.name: hugging_face_feature(new.type) for new in fields if new not in schema}
        metadata[b"huggingface"] = json.dumps(content).encode()
    return pa.schema((kept | {field.name: field for field in fields}).values(), metadata or None)


def put_column(table: pa.Table, field: pa.Field, values: pa.ChunkedArray) -> pa.Table:
    """Append or replace a column, and its Hugging Face feature in the schema's metadata."""
    schema = with_fields(table.schema, [field])
    columns = [values if name == field.name else table[name] for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def hugging_face_feature(kind: pa.DataType) -> dict[str, Any]:
    """Describe an Arrow type as `datasets.Features.to_dict` does; raises ValueError for an unknown one."""
    if isinstance(kind, pa.ListType):
        return {"feature": hugging_face_feature(kind.value_type), "_type": "List"}
    if isinstance(kind, pa.StructType):
        return {field.name: hugging_face_feature(field.type) for field in kind}
    if isinstance(kind, pa.JsonType):
        return {"_type": "Json"}
    if not (pa.types.is_primitive(kind) or pa.types.is_string(kind)) or pa.types.is_temporal(kind):
        raise ValueError(f"no Hugging Face feature is known for the Arrow type {kind}")
    renamed = {pa.float16(): "float16", pa.float32(): "float32", pa.float64(): "float64"}
    return {"dtype": renamed.get(kind, str(kind)), "_type": "Value"}


def goal_rows(goals: Goals, timestamps: NDArray[np.float32], task_aug: bool = False) -> list[LanguageRow]:
    """Our rows of an episode: the plan at its first frame, a subtask at each named span's first frame.

    After a span with a name, a row without content ends it where the next frames have none; and so for
    phases. The memory at the end of each named span lists what is done by then. With `task_aug` the
    instruction stands in other words at the first frame, itself among them. Timestamps are the parquet's own.
    """
    augmented = paraphrases(goals.instruction) if task_aug else ()
    rows = [language_row("task_aug", text, timestamps[0], role="user") for text in augmented]
    if goals.plan:
        rows.append(language_row("plan", plan_text(goals.plan), timestamps[0]))
    edges = [("subtask", *edge) for edge in goals.edges(len(timestamps))]
    edges += [("motion", *edge) for edge in goals.phase_edges]
    done = [(span.end, span.name) for span in goals.spans if span.name and span.done]
    for count, (at, _) in enumerate(done, start=1):
        if at < len(timestamps):
            edges.append(("memory", at, memory_text(done[:count])))
    return rows + [language_row(style, text or None, timestamps[at]) for style, at, text in edges]


def plan_text(names: Sequence[str]) -> str:
    """The content of a plan's row."""
    return "\n".join(f"{i}. {name}" for i, name in enumerate(names, start=1))


def memory_text(done: Iterable[tuple[int, str]]) -> str:
    """The content of a memory's row, from the steps that came off, (place, name) each."""
    return f"Done so far: {joined_tasks(done)}"


def merge_rows(
    old: Sequence[LanguageRow], new: Sequence[LanguageRow], interjected: set[float], dropped: Collection[str]
) -> list[LanguageRow]:
    """Replace the styles that `new` has and those `dropped`, keep the rest, in lerobot's order of rows.

    A plan refreshed at an interjection stays: lerobot's validator wants one at that very moment.
    """
    styles = {*dropped, *(row["style"] for row in new)}
    refreshed = interjected - {row["timestamp"] for row in new if row["style"] == "plan"}
    plans = [row for row in old if row["style"] == "plan" and row["timestamp"] in refreshed]
    kept = [row for row in old if row["style"] not in styles or row in plans]
    return sorted([*kept, *new], key=lambda r: (r["timestamp"], r["style"] or "", r["role"] or ""))


def spread(rows: Sequence[LanguageRow], timestamps: NDArray[np.float32], kind: pa.ListType) -> pa.Array:
    """Rows in order of time on each frame, as an array of `kind`, lerobot's type of the column.

    Every frame has all of them, but for frames behind an end: these lack the rows of its style so far,
    so that lerobot's `active_at` finds none.
    """
    times = sorted({row["timestamp"] for row in rows}) if any(map(is_end, rows)) else []
    state = np.searchsorted(np.array(times, np.float64), timestamps.astype(np.float64), side="right")
    lengths, parts = [0], [array([], kind.value_type)]
    starts = np.flatnonzero(np.diff(state, prepend=-1)).tolist()
    for start, stop in itertools.pairwise([*starts, len(state)]):
        shown = _shown(rows, float(timestamps[start]))
        lengths += [len(shown)] * (stop - start)
        parts += [array([_with_json(row) for row in shown], kind.value_type)] * (stop - start)
    offsets = array(np.cumsum(lengths), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.concat_arrays(parts), type=kind)


def _shown(rows: Sequence[LanguageRow], seconds: float) -> list[LanguageRow]:
    last = {row["style"]: row for row in rows if row["timestamp"] <= seconds}
    ended = {style for style, row in last.items() if is_end(row)}
    past = [row["style"] in ended and row["timestamp"] <= seconds for row in rows]
    return [row for row, gone in zip(rows, past, strict=True) if not (gone or is_end(row))]


def canonical(stored: pa.Array, kind: pa.ListType) -> pa.Array:
    """Rows as stored by any writer, in lerobot's type; unchanged where they have it already."""
    if stored.type == kind:
        return stored
    empty = dict.fromkeys(field.name for field in kind.value_type)
    frames = ((_with_json(empty | row) for row in rows or ()) for rows in stored.to_pylist())
    return array([list(rows) for rows in frames], kind)


def _with_json(row: LanguageRow) -> LanguageRow:
    """A row whose tool calls are JSON texts, as lerobot stores them."""
    calls = row["tool_calls"]
    texts = calls and [call if isinstance(call, str) else json.dumps(call) for call in calls]
    return {**row, "tool_calls": texts}


type RecordedRow = tuple[int, str, str]
"""A row's first frame, its style and its content."""


def put_rows(root: Path, rows: Mapping[int, Sequence[RecordedRow]]) -> None:
    """Give episodes of a finished dataset their persistent rows; those of all others stay.

    Its files are replaced together, once all are written: a kill before that leaves the recording as it was.
    """
    from lerobot.datasets.io_utils import write_table_one_row_group_per_episode
    from lerobot.datasets.language import language_feature_info

    types, new = language_types(), root / f"{TMP}rows"  # beside data/, of which lerobot reads every file
    try:
        for shard in find(root / "data", "**/*.parquet"):
            parts = list[pa.Table]()
            for episode, part in episode_tables(shard):
                times, columns = to_numpy(part["timestamp"]), _old_columns(part, types, had_camera=False)
                made = [language_row(style, text, times[at]) for at, style, text in rows.get(episode, ())]
                if made:
                    columns[PERSISTENT] = spread(made, times, types[PERSISTENT])
                part = part.select([name for name in part.column_names if name not in types])
                for name, values in columns.items():
                    part = part.append_column(pa.field(name, types[name]), values)
                parts.append(part.replace_schema_metadata(None))
            written = new / shard.relative_to(root)
            written.parent.mkdir(parents=True, exist_ok=True)
            write_table_one_row_group_per_episode(pa.concat_tables(parts), written)
        info = read_json(root / "meta" / "info.json")
        info["features"] |= language_feature_info()
        for written in new.rglob("*.parquet"):
            written.replace(root / written.relative_to(new))
    finally:
        shutil.rmtree(new, ignore_errors=True)
    write_bytes(root / "meta" / "info.json", json.dumps(info, indent=4, ensure_ascii=False).encode())


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
        kinds = {**(language_types() if job.text.language else {}), job.pad_key: pa.bool_()}
        fields = [pa.field(name, kind) for name, kind in kinds.items()]
        schema = with_fields(read_schema(original), fields, set(language_types()) - set(kinds))
        schema = schema.with_metadata(schema.metadata or {})  # None would be other bytes than before
        if job.tasks:
            kinds["task_index"] = schema.field("task_index").type
        # As lerobot's write_table_one_row_group_per_episode does, which wants the whole table.
        with pq.ParquetWriter(tmp, schema, compression="snappy", use_dictionary=True) as writer:
            together = max(-(-len(job.inside.get(original, ())) // GROUPS), 1)
            for tables in itertools.batched(_written(original, schema, kinds, job), together):
                table = pa.concat_tables(tables)
                writer.write_table(table, row_group_size=len(table))


def _written(
    original: Path, schema: pa.Schema, kinds: Mapping[str, pa.DataType], job: BuildPlan
) -> Iterator[pa.Table]:
    for episode, part in episode_tables(original):
        columns = _old_columns(part, kinds, job.had_camera)
        if episode in job.goals:
            columns |= _new_columns(part, columns, job.goals[episode], job)
        arrays = [columns[n] if n in columns else part[n] for n in schema.names]
        yield pa.Table.from_arrays(arrays, schema=schema)


def _old_columns(part: pa.Table, kinds: Mapping[str, pa.DataType], had_camera: bool) -> dict[str, pa.Array]:
    columns = {}
    for name, kind in kinds.items():
        if name in part.column_names:
            stored = part[name].combine_chunks()
            columns[name] = canonical(stored, kind) if isinstance(kind, pa.ListType) else stored
        elif isinstance(kind, pa.ListType):
            columns[name] = spread([], np.zeros(len(part), np.float32), kind)
        else:
            columns[name] = array(np.full(len(part), not had_camera), kind)
    return columns


def _new_columns(
    part: pa.Table, old: Mapping[str, pa.Array], goals: Goals, job: BuildPlan
) -> dict[str, pa.Array]:
    frame = to_numpy(part["frame_index"]) if "frame_index" in part.column_names else np.arange(len(part))
    order = np.argsort(frame, kind="stable")
    counts, pictures = zip(*goals.runs(len(part)), strict=True)
    pad = np.empty(len(part), bool)
    pad[order] = np.repeat([picture is None for picture in pictures], counts)
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
    rows = goal_rows(goals, times[order], text.task_aug)
    dropped = STORY_STYLES if goals.corrected or text.replace_rows else ()
    owner_styles = {row["style"] for row in old_rows} - set(dropped)
    owner_wins = {*STORY_STYLES} if "subtask" in owner_styles else owner_styles & {*STORY_STYLES}
    if not _are_of_hand(old_rows) and (not text.replace_rows or _are_of_hand(rows)):
        owner_wins.add("motion")
    rows = [row for row in rows if row["style"] not in owner_wins]
    if text.task_aug and not text.replace_rows:
        owner_rows = [row for row in old_rows if row["style"] == "task_aug"]
        own_words = {("task_aug", row["content"]) for row in owner_rows}
        rows = owner_rows + [row for row in rows if (row["style"], row["content"]) not in own_words]
    if not rows and not any(row["style"] in dropped for row in old_rows):
        return column
    frames = zip(times.tolist(), old["language_events"].to_pylist(), strict=True)
    interjected = {time for time, rows in frames if any(row["style"] == "interjection" for row in rows)}
    return spread(merge_rows(old_rows, rows, interjected, dropped), times, column.type)


def _are_of_hand(rows: Sequence[LanguageRow]) -> bool:
    """Tell if the motion rows, if any, say what the hand does and nothing else."""
    return {row["content"] for row in rows if row["style"] == "motion"} <= {*HAND_MOTIONS, None}
