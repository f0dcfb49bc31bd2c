"""The sub-task of each frame as a lerobot task."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.labels import has_several
from goalreel.datasets.parquet import array
from goalreel.datasets.writing.goals import Goals
from goalreel.extras import version

TASKS = Path("meta") / "tasks.parquet"


def task_indices(source_tasks: Mapping[int, str], goals: Iterable[Goals]) -> dict[str, int]:
    """Text -> task index. IN's tasks keep theirs; the sub-tasks follow in the order of `goals`."""
    indices = {text: index for index, text in sorted(source_tasks.items(), reverse=True)}
    following = max(source_tasks, default=-1) + 1
    for episode in goals:
        for text in episode.names:
            if text not in indices:
                indices[text] = following
                following += 1
    return indices


def frame_tasks(
    goals: Goals, indices: Mapping[str, int], old: NDArray[np.int64], tasks: Mapping[int, str], replace: bool
) -> NDArray[np.int64]:
    """The task index of each frame of an episode, (n,), in frame order like `old`, the one that it has.

    A frame without a sub-task that may be said keeps its own. So does one whose task in `tasks` is empty, and
    every frame of an episode with several: those are its owner's. With `replace` none keeps its own: without
    a sub-task it has the instruction, where `indices` have it.
    """
    if replace:
        instruction = indices.get(goals.instruction)
        return sub_task_indices(
            goals, indices, old if instruction is None else np.full_like(old, instruction)
        )
    texts = {index: (tasks.get(index) or "").strip() for index in np.unique(old).tolist()}
    if has_several(texts.values()):
        return old
    empty = [index for index, text in texts.items() if not text]
    return np.where(np.isin(old, empty), old, sub_task_indices(goals, indices, old))


def sub_task_indices(goals: Goals, indices: Mapping[str, int], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of each frame's sub-task, (n,); where none may be said, that in `other`."""
    new = other.copy()
    for span in goals.spans:
        if span.name is not None:
            new[span.start : span.end] = indices[span.name]
    return new


def listed(goals: Goals, indices: Mapping[str, int], old: Sequence[str]) -> list[str]:
    """The tasks that meta/episodes lists of an episode, the instruction first, from those of IN (`old`)."""
    first = [goals.instruction] if goals.instruction in indices else []
    return list(dict.fromkeys([*first, *old, *goals.names]))


def tasks_file(source_tasks: Mapping[int, str], indices: Mapping[str, int]) -> bytes:
    """meta/tasks.parquet with IN's tasks and the new ones, byte for byte as pandas writes it for lerobot.

    pandas itself is not needed; where it is installed, the file names its version as pandas would.
    """
    texts = dict(source_tasks) | {index: text for text, index in indices.items() if index not in source_tasks}
    rows = sorted(texts.items())
    schema = pa.schema([("task_index", pa.int64()), ("task", pa.string())], {"pandas": _pandas_metadata()})
    columns = [array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    table = pa.Table.from_arrays(columns, schema=schema)
    file = io.BytesIO()
    pq.write_table(table, file, compression="snappy")
    return file.getvalue()


def _pandas_metadata() -> str:
    """Metadata that tell pandas that the column `task` is the index."""

    def column(name: str | None, kind: str, dtype: str, metadata: object = None) -> dict[str, object]:
        types = {"pandas_type": kind, "numpy_type": dtype}
        return {"name": name, "field_name": name, **types, "metadata": metadata}

    return json.dumps(
        {
            "index_columns": ["task"],
            "column_indexes": [column(None, "unicode", "object", {"encoding": "UTF-8"})],
            "columns": [column("task_index", "int64", "int64"), column("task", "unicode", "object")],
            "attributes": {},
            "creator": {"library": "pyarrow", "version": pa.__version__},
            "pandas_version": version("pandas"),
        }
    )
