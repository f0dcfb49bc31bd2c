"""Which episodes of a dataset have sub-task labels already, and in which form."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.arrow import to_numpy
from goalreel.datasets.labels import (
    LABEL_FORMS,
    STAGE_PREFIXES,
    SUBTASKS,
    annotated_subtasks,
    are_stages,
    has_several,
    has_sub_tasks,
    read_texts,
    subtask_labels,
)
from goalreel.datasets.row_groups import parquet_parts
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.terms import LabelForm

_ROWS = 65536
"""Rows read at a time."""


def find_labels(source: Source, episodes: Sequence[int]) -> dict[LabelForm, tuple[int, ...]]:
    """Form -> those of `episodes` with labels in it, in the order of `LABEL_FORMS`; only forms that occur.

    What cannot be read counts as none: its episodes are told so one by one.
    """
    finders: Mapping[LabelForm, Callable[[], set[int]]] = {
        "rows": lambda: _in_rows(source, episodes),
        "annotations": lambda: _in_annotations(source),
        "subtask_index": lambda: _in_subtask_index(source, episodes),
        "tasks": lambda: _in_tasks(source, episodes),
        "stages": lambda: _in_stages(source),
    }
    episodes_by_form: dict[LabelForm, tuple[int, ...]] = {
        form: tuple(sorted(finders[form]() & set(episodes))) for form in LABEL_FORMS
    }
    return {form: labelled for form, labelled in episodes_by_form.items() if labelled}


def _in_rows(source: Source, episodes: Sequence[int]) -> set[int]:
    labelled: set[int] = set()
    if "language_persistent" in source.features:
        for path in dict.fromkeys(map(source.data_path, episodes)):
            try:
                labelled |= subtask_labels(path).keys()
            except DatasetError:
                continue
    return labelled


def _in_annotations(source: Source) -> set[int]:
    try:
        return set(annotated_subtasks(source.root))
    except DatasetError:
        return set()


def _in_subtask_index(source: Source, episodes: Sequence[int]) -> set[int]:
    path = source.root / SUBTASKS
    if "subtask_index" not in source.features or not path.is_file():
        return set()
    try:
        texts = read_texts(path, "subtask")
    except DatasetError:
        return set()
    pairs = _pairs(source, episodes, "subtask_index")
    return {episode for episode, index in pairs.tolist() if (texts.get(index) or "").strip()}


def _in_tasks(source: Source, episodes: Sequence[int]) -> set[int]:
    if has_sub_tasks(source.features):
        return set()
    texts: dict[int, set[str]] = {}
    pairs = _pairs(source, episodes, "task_index")
    recurring = np.isin(pairs[:, 0], pairs[1:][np.diff(pairs[:, 0]) == 0, 0])
    for episode, index in pairs[recurring].tolist():
        texts.setdefault(episode, set()).add((source.tasks.get(index) or "").strip())
    return {episode for episode, tasks in texts.items() if has_several(tasks)}


def _in_stages(source: Source) -> set[int]:
    columns = [source.rows.column(f"{prefix}subtask_names") for prefix in STAGE_PREFIXES]
    episodes = zip(source.indices, *columns, strict=True)
    return {episode for episode, *names in episodes if any(map(are_stages, names))}


def _pairs(source: Source, episodes: Sequence[int], column: str) -> NDArray[np.int64]:
    """Each (episode, value of a column of indices) that a frame has, ascending, (pairs, 2)."""
    parts: list[NDArray[np.int64]] = [np.zeros((0, 2), np.int64)]
    for path in dict.fromkeys(map(source.data_path, episodes)):
        try:
            for file in parquet_parts(path):
                if {"episode_index", column} <= set(file.schema_arrow.names):
                    for batch in file.iter_batches(_ROWS, columns=["episode_index", column]):
                        values = [_filled(batch[name]) for name in ("episode_index", column)]
                        parts.append(np.unique(values, axis=1).T)
        except (pa.ArrowException, OSError):
            continue
    return np.unique(np.concatenate(parts), axis=0)


def _filled(column: pa.Array) -> NDArray[np.int64]:
    """A column of indices, (n,), -1 for none; without `fill_null`, which imports pandas."""
    if column.null_count:
        return np.array([-1 if v is None or v != v else int(v) for v in column.to_pylist()], np.int64)
    return np.nan_to_num(to_numpy(column), nan=-1).astype(np.int64)
