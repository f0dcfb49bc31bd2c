"""Columns with one value a frame: its sub-task as a lerobot task, and its progress.

lerobot's `RABCWeights` (`--sample_weighting.type=rabc`) reads `sarm_progress.parquet` beside data/, which its
reward models write otherwise, and takes NaN for no number.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.labels import has_several
from goalreel.datasets.parquet import array, read_schema, read_table
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import data_files
from goalreel.datasets.writing.goals import Goals
from goalreel.errors import DatasetError
from goalreel.extras import version
from goalreel.files import atomic

TASKS = Path("meta") / "tasks.parquet"

PROGRESS = "progress"
"""The feature: float32, one number a frame."""
PROGRESS_FILE = Path("sarm_progress.parquet")
"""Path at which lerobot looks, below the dataset's folder."""
_MARK = "goalreel.progress"
FEATURE: dict[str, Any] = {"dtype": "float32", "shape": [1], "names": None, "info": {_MARK: True}}
_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("index", "episode_index", "frame_index")),
        *((name, pa.float32()) for name in ("progress_sparse", "progress_dense")),
    ],
    {_MARK: "true"},
)


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


def frame_progress(goals: Goals | None, length: int) -> NDArray[np.float32]:
    """The progress on each frame, (length,); NaN throughout where a step is in doubt or has no place.

    Each step that is done has an equal share, and time divides it. A failed step gains nothing. Failed steps
    at the end stand for one that is still to be done, so such an episode ends below 1.
    """
    spans = goals.spans if goals else ()
    sure = all(span.failed or span.name is not None for span in spans)
    if goals is None or not spans or not sure or len(spans) < len(goals.statuses):
        return np.full(length, np.nan, np.float32)
    share = 1 / (sum(not span.failed for span in spans) + spans[-1].failed)
    frames, values = [0.0], [0.0]
    for span in spans:
        frames += [span.start, min(span.end, length - 1)]
        values += [values[-1], values[-1] + (0.0 if span.failed else share)]
    result = np.interp(np.arange(length), frames, values)
    result[-1] = values[-1]  # also where the last step is one frame long
    return result.clip(0, 1).astype(np.float32)


def has_progress(source: Source) -> bool:
    """Tell if an earlier pass of goalreel wrote the feature."""
    return _MARK in (source.features.get(PROGRESS, {}).get("info") or {})


def check_progress(source: Source) -> None:
    """Check that the feature and the file are nobody else's.

    Raises:
        DatasetError: they are the owner's, or another model's.
    """
    path = source.root / PROGRESS_FILE
    what = PROGRESS if PROGRESS in source.features and not has_progress(source) else None
    if what is None and path.is_file() and _MARK.encode() not in (read_schema(path).metadata or {}):
        what = PROGRESS_FILE.name
    if what is not None:
        raise DatasetError(
            f"{source.root}: has a {what} already, which stays: leave progress out of --details"
        )


def write_progress(out: Path) -> None:
    """Write the file from the data files of `out`, which have the feature.

    Raises:
        DatasetError: a data file is not readable; the disk is full.
    """
    names = [*_SCHEMA.names[:3], PROGRESS]
    with atomic(out / PROGRESS_FILE) as tmp, pq.ParquetWriter(tmp, _SCHEMA) as writer:
        for path in data_files(out):
            try:
                columns = [read_table(path, names)[name] for name in (*names, PROGRESS)]
            except pa.ArrowException as e:
                raise DatasetError(f"{path}: {e}, so no {PROGRESS_FILE} can be made") from e
            writer.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA))
