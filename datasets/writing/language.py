"""The language columns of one episode in exactly lerobot's Arrow types.

lerobot 0.6's `LanguageColumnsWriter` lets pyarrow infer the types (double timestamps, null columns) and
blanks every episode it was not given. The rows and their order are those that its validator and writer want.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.writing.goals import Goals
from goalreel.planners.kinematic.paraphrases import paraphrases

type LanguageRow = dict[str, Any]


def goal_rows(goals: Goals, timestamps: NDArray[np.float32], task_aug: bool = False) -> list[LanguageRow]:
    """Our rows of an episode: the plan at its first frame, a subtask at each named span's first frame.

    To lerobot's `active_at` a row holds until the next one. So after a span with a name, frames without one
    begin with the instruction; and so for phases. With `task_aug` the instruction stands in other words at
    the first frame, itself among them, as lerobot's renderer picks one at random. Timestamps are the
    parquet's own float32 values.
    """
    rows = []
    if task_aug:
        rows += [
            _row("task_aug", text, timestamps[0], role="user") for text in paraphrases(goals.instruction)
        ]
    if goals.plan:
        text = "\n".join(f"{i}. {name}" for i, name in enumerate(goals.plan, start=1))
        rows.append(_row("plan", text, timestamps[0]))
    edges = [("subtask", *edge) for edge in goals.edges(len(timestamps))]
    edges += [("motion", *edge) for edge in goals.phase_edges]
    return rows + [_row(style, text or goals.instruction, timestamps[at]) for style, at, text in edges]


def _row(style: str, content: str, timestamp: np.float32, role: str = "assistant") -> LanguageRow:
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

    def kept(row: LanguageRow) -> bool:
        if row["style"] not in styles:
            return True
        return row["style"] == "plan" and row["timestamp"] in interjected and row["timestamp"] not in planned

    rows = [row for row in old if kept(row)] + list(new)
    return sorted(rows, key=lambda r: (r["timestamp"], r["style"] or "", r["role"] or ""))


def column(frames: Sequence[Sequence[LanguageRow]], kind: pa.ListType) -> pa.Array:
    """One list of rows a frame as an array of `kind`, lerobot's type of the column."""
    flat = [row for rows in frames for row in rows]
    offsets = np.cumsum([0, *(len(rows) for rows in frames)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _rows(flat, kind.value_type), type=kind)


def broadcast(rows: Sequence[LanguageRow], frames: int, kind: pa.ListType) -> pa.Array:
    """The same rows on every one of `frames` frames."""
    values = _rows(rows, kind.value_type).take(pa.array(np.tile(np.arange(len(rows)), frames)))
    offsets = np.arange(frames + 1) * len(rows)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def canonical(stored: pa.Array, kind: pa.ListType) -> pa.Array:
    """Rows as stored by any writer, in lerobot's type; unchanged where they have it already."""
    if stored.type == kind:
        return stored
    names = [field.name for field in kind.value_type]
    frames = [[{name: row.get(name) for name in names} for row in rows or ()] for rows in stored.to_pylist()]
    return column(frames, kind)


def _rows(rows: Sequence[LanguageRow], kind: pa.StructType) -> pa.StructArray:
    fields = list(kind)
    arrays = [
        _tool_calls([row["tool_calls"] for row in rows], field.type)
        if field.name == "tool_calls"
        else pa.array([row[field.name] for row in rows], field.type)
        for field in fields
    ]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _tool_calls(calls: Iterable[Sequence[Any] | None], kind: pa.ListType) -> pa.ListArray:
    """lists of JSON: pyarrow cannot build its JSON extension type from Python values, so wrap the storage."""
    lists = [None if c is None else [v if isinstance(v, str) else json.dumps(v) for v in c] for c in calls]
    flat = pa.array([value for values in lists for value in values or ()], pa.string())
    if isinstance(kind.value_type, pa.BaseExtensionType):
        flat = pa.ExtensionArray.from_storage(kind.value_type, flat)
    offsets = pa.array(np.cumsum([0, *(len(values or ()) for values in lists)]), pa.int32())
    mask = pa.array([values is None for values in lists], pa.bool_())
    return pa.ListArray.from_arrays(offsets, flat, type=kind, mask=mask)
