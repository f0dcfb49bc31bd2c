"""The language columns of one episode in exactly lerobot's Arrow types.

lerobot 0.6's `LanguageColumnsWriter` lets pyarrow infer the types (double timestamps, null columns) and
blanks every episode it was not given. The rows and their order are those that its validator and writer want.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.arrow import array
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
            language_row("task_aug", text, timestamps[0], role="user")
            for text in paraphrases(goals.instruction)
        ]
    if goals.plan:
        text = "\n".join(f"{i}. {name}" for i, name in enumerate(goals.plan, start=1))
        rows.append(language_row("plan", text, timestamps[0]))
    edges = [("subtask", *edge) for edge in goals.edges(len(timestamps))]
    edges += [("motion", *edge) for edge in goals.phase_edges]
    return rows + [
        language_row(style, text or goals.instruction, timestamps[at]) for style, at, text in edges
    ]


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


def broadcast(rows: Sequence[LanguageRow], frames: int, kind: pa.ListType) -> pa.Array:
    """The same rows on every one of `frames` frames, as an array of `kind`, lerobot's type of the column."""
    values = array([_with_json(row) for row in rows], kind.value_type)
    offsets = array(np.arange(frames + 1) * len(rows), pa.int32())
    repeated = pa.concat_arrays([values] * frames) if rows else values
    return pa.ListArray.from_arrays(offsets, repeated, type=kind)


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
