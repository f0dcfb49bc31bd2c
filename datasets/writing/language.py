"""The language columns of one episode in exactly lerobot's Arrow types.

lerobot 0.6's `LanguageColumnsWriter` lets pyarrow infer the types (double timestamps, null columns) and
blanks every episode it was not given. The rows and their order are those that its validator and writer want.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.labels import LanguageRow, end_row, is_end, joined_tasks
from goalreel.datasets.parquet import array
from goalreel.datasets.writing.goals import Goals
from goalreel.files import TMP, find, read_json, write_bytes
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


def drop_fields(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Leave fields out, and out of the Hugging Face features in the metadata."""
    metadata = dict(schema.metadata or {})
    if b"huggingface" in metadata:
        content = json.loads(metadata[b"huggingface"])
        features = content.get("info", {}).get("features") or {}
        for name in names:
            features.pop(name, None)
        metadata[b"huggingface"] = json.dumps(content).encode()
    return pa.schema([field for field in schema if field.name not in names], metadata or None)


def put_column(table: pa.Table, field: pa.Field, values: pa.ChunkedArray) -> pa.Table:
    """Append or replace a column, and its Hugging Face feature in the schema's metadata."""
    position = table.schema.get_field_index(field.name)
    metadata = _declare(table.schema.metadata, field)
    table = table.append_column(field, values) if position < 0 else table.set_column(position, field, values)
    return table.replace_schema_metadata(metadata)


def put_field(schema: pa.Schema, field: pa.Field) -> pa.Schema:
    """The schema of what `put_column` returns."""
    position = schema.get_field_index(field.name)
    metadata = _declare(schema.metadata, field)
    return (schema.append(field) if position < 0 else schema.set(position, field)).with_metadata(metadata)


def _declare(metadata: Mapping[bytes, bytes] | None, field: pa.Field) -> dict[bytes, bytes] | None:
    if not metadata or b"huggingface" not in metadata:
        return dict(metadata) if metadata else None
    content = json.loads(metadata[b"huggingface"])
    if features := content.get("info", {}).get("features"):
        features[field.name] = hugging_face_feature(field.type)
    return {**metadata, b"huggingface": json.dumps(content).encode()}


def hugging_face_feature(kind: pa.DataType) -> dict[str, Any]:
    """A column of this Arrow type as `datasets.Features.to_dict` describes it.

    Raises:
        ValueError: neither a list, a struct, JSON, a string, a boolean nor a number.
    """
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

    After a span with a name, frames without one begin with an `end_row`; and so for phases. The memory at the
    end of each named span lists what is done by then. With `task_aug` the instruction stands in other words
    at the first frame, itself among them. Timestamps are the parquet's own float32 values.
    """
    rows = []
    if task_aug:
        rows += [
            language_row("task_aug", text, timestamps[0], role="user")
            for text in paraphrases(goals.instruction)
        ]
    if goals.plan:
        rows.append(language_row("plan", plan_text(goals.plan), timestamps[0]))
    edges = [("subtask", *edge) for edge in goals.edges(len(timestamps))]
    edges += [("motion", *edge) for edge in goals.phase_edges]
    done = [(span.end, span.name) for span in goals.spans if span.name and span.done]
    for count, (at, _) in enumerate(done, start=1):
        if at < len(timestamps):
            edges.append(("memory", at, memory_text(done[:count])))
    return rows + [
        language_row(style, text, timestamps[at]) if text else end_row(style, timestamps[at])
        for style, at, text in edges
    ]


def plan_text(names: Sequence[str]) -> str:
    """The content of a plan's row."""
    return "\n".join(f"{i}. {name}" for i, name in enumerate(names, start=1))


def memory_text(done: Iterable[tuple[int, str]]) -> str:
    """The content of a memory's row, from the steps that came off, (place, name) each."""
    return f"Done so far: {joined_tasks(done)}"


def language_row(style: str, content: str, timestamp: np.float32, role: str = "assistant") -> LanguageRow:
    """Make a row of `language_persistent`, in the order of its fields."""
    return {
        "role": role,
        "content": content,
        "style": style,
        "timestamp": float(timestamp),
        "camera": None,
        "tool_calls": None,
    }


def merge_rows(
    old: Sequence[LanguageRow],
    new: Sequence[LanguageRow],
    interjected: set[float],
    dropped: Collection[str] = (),
) -> list[LanguageRow]:
    """Replace the styles that `new` has and those `dropped`, keep the rest, in lerobot's order of rows.

    A plan refreshed at an interjection stays: lerobot's validator wants one at that very moment.
    """
    styles = {*dropped, *(row["style"] for row in new)}
    planned = {row["timestamp"] for row in new if row["style"] == "plan"}

    def stays(row: LanguageRow) -> bool:
        if row["style"] not in styles:
            return True
        return row["style"] == "plan" and row["timestamp"] in interjected and row["timestamp"] not in planned

    rows = [row for row in old if stays(row)] + list(new)
    return sorted(rows, key=lambda r: (r["timestamp"], r["style"] or "", r["role"] or ""))


def spread(rows: Sequence[LanguageRow], timestamps: NDArray[np.float32], kind: pa.ListType) -> pa.Array:
    """Rows in order of time on each frame, as an array of `kind`, lerobot's type of the column.

    Every frame has all of them, but for frames behind an `end_row`: these lack the rows of its style so far,
    so that lerobot's `active_at` finds none.
    """
    times = sorted({row["timestamp"] for row in rows}) if any(map(is_end, rows)) else []
    state = np.searchsorted(np.array(times, np.float64), timestamps.astype(np.float64), side="right")
    lengths, parts = [0], [array([], kind.value_type)]
    starts = np.flatnonzero(np.diff(state, prepend=-1)).tolist()
    for start, stop in pairwise([*starts, len(state)]):
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
    names = [field.name for field in kind.value_type]
    frames = stored.to_pylist()
    return array(
        [[_with_json({name: row.get(name) for name in names}) for row in rows or ()] for rows in frames], kind
    )


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
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from lerobot.datasets.io_utils import write_table_one_row_group_per_episode
    from lerobot.datasets.language import language_feature_info

    types, new = language_types(), root / f"{TMP}rows"  # beside data/, of which lerobot reads every file
    try:
        for shard in find(root / "data", "**/*.parquet"):
            table = pq.read_table(shard).replace_schema_metadata(None)
            columns: dict[str, list[pa.Array]] = {PERSISTENT: [], EVENTS: []}
            for episode in table["episode_index"].unique().to_pylist():
                part = table.filter(pc.field("episode_index") == episode)
                times = part["timestamp"].to_numpy()
                made = [language_row(style, text, times[at]) for at, style, text in rows.get(episode, ())]
                for name, parts in columns.items():
                    if name in part.column_names and not (made and name == PERSISTENT):
                        parts.append(canonical(part[name].combine_chunks(), types[name]))
                    else:
                        parts.append(spread(made if name == PERSISTENT else (), times, types[name]))
            table = table.select([name for name in table.column_names if name not in columns])
            for name, parts in columns.items():
                table = table.append_column(pa.field(name, types[name]), pa.chunked_array(parts))
            written = new / shard.relative_to(root)
            written.parent.mkdir(parents=True, exist_ok=True)
            write_table_one_row_group_per_episode(table, written)
        info = read_json(root / "meta" / "info.json")
        info["features"] |= language_feature_info()
        for written in new.rglob("*.parquet"):
            written.replace(root / written.relative_to(new))
    finally:
        shutil.rmtree(new, ignore_errors=True)
    write_bytes(root / "meta" / "info.json", json.dumps(info, indent=4, ensure_ascii=False).encode())
