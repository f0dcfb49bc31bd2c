"""The sub-task labels that a LeRobot dataset has already, in each form in which tools write them."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.parquet import episode_tables, list_items, read_schema, read_table, sort_rows, to_numpy
from goalreel.errors import DatasetError, first_line
from goalreel.files import read_json
from goalreel.terms import LabelForm

if TYPE_CHECKING:
    from goalreel.datasets.episode import Episode
    from goalreel.datasets.source import Source

type Label = tuple[float, str]
"""Seconds since the episode's start, and the text, which may be empty."""
type Labels = dict[int, tuple[Label, ...]]
type LanguageRow = dict[str, Any]
"""A row of `language_persistent`."""

LABEL_FORMS: Mapping[LabelForm, str] = {
    "rows": "subtask rows in language_persistent",
    "annotations": "meta/lerobot_annotations.json",
    "subtask_index": "subtask_index and meta/subtasks.parquet",
    "tasks": "a task per frame in task_index",
}
"""Each form for a reader. Where an episode has several, the first of them is taken."""
ANNOTATIONS, SUBTASKS = Path("meta") / "lerobot_annotations.json", Path("meta") / "subtasks.parquet"
SUB_TASKS = "goalreel.task_per_frame"
"""Key in a sub-goal camera's `info` where frames may have their sub-tasks as tasks."""


def read_labels(episode: "Episode", form: LabelForm) -> tuple[Label, ...]:
    """The sub-task labels that an episode has in a form, in order of time; empty without any."""
    if form == "rows":
        return subtask_labels(episode.data_path).get(episode.index, ())
    if form == "annotations":
        return annotation_labels(episode.root, episode.index, episode.timestamps)
    runs = episode.tasks
    if form == "subtask_index":
        path, indices = episode.root / SUBTASKS, episode.subtask_index
        if indices is None or (indices < 0).all() or not path.is_file():
            return ()
        texts = read_texts(path, "subtask")
        if unknown := sorted(set(indices[indices >= 0].tolist()) - set(texts)):
            raise DatasetError(
                f"{episode.root}: episode {episode.index}: "
                f"subtask_index {unknown[0]} has no row in {path.name}: add it"
            )
        runs = frame_labels(indices, texts)
    elif not has_several(text for _, text in runs) or has_sub_tasks(episode.info["features"]):
        return ()
    if not any(text for _, text in runs):
        return ()
    return tuple((float(episode.timestamps[frame]), text) for frame, text in runs)


def has_several(texts: Iterable[str]) -> bool:
    """Tell if the tasks of an episode's frames are sub-tasks: one alone is the instruction."""
    return len({text for text in texts if text}) > 1


def has_sub_tasks(features: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell if frames have their sub-tasks as tasks because `--task-per-frame` wrote them."""
    return any((feature.get("info") or {}).get(SUB_TASKS) for feature in features.values())


def subtask_labels(path: Path) -> Labels:
    """Episode -> its subtask rows in order of time, of one data file; only episodes that have some."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError as e:
        raise DatasetError(f"{path} is missing: copy the dataset again") from e
    except (pa.ArrowException, OSError) as e:
        raise DatasetError(f"{path} is not readable ({first_line(e)})") from e


@lru_cache(maxsize=2)
def _read(path: Path, mtime_ns: int, size: int) -> Labels:
    columns = ["episode_index", "frame_index", "timestamp", "language_persistent"]
    if not set(columns) <= set(read_schema(path).names):
        return {}
    labels: Labels = {}
    for episode, part in episode_tables(path, columns):
        frames = sort_rows(part, "frame_index")
        rows = persistent_rows(frames["language_persistent"].combine_chunks(), to_numpy(frames["timestamp"]))
        found = {(float(r["timestamp"]), r["content"] or "") for r in rows if r["style"] == "subtask"}
        labels |= {episode: tuple(sorted(found))} if found else {}
    return labels


def language_row(
    style: str, content: str | None, timestamp: np.float32, role: str = "assistant"
) -> LanguageRow:
    """Make a row of `language_persistent`, in the order of its fields.

    One without content ends those of its style. It is never stored: the frames behind it lack them.
    """
    fields = {"role": role, "content": content, "style": style, "timestamp": float(timestamp)}
    return {**fields, "camera": None, "tool_calls": None}


def is_end(row: LanguageRow) -> bool:
    """Tell if a row ends those of its style."""
    return row["content"] is None and not row["tool_calls"]


def persistent_rows(column: pa.ListArray, timestamps: NDArray[np.float32]) -> list[LanguageRow]:
    """The rows of an episode from the `language_persistent` of its frames, in their order.

    lerobot has all rows on every frame. Where later frames lack rows of a style, a row without content says
    so; a row that only one frame has, as others may write it, holds as lerobot's rows do.
    """
    runs = list(_runs(column))
    if len(runs) < 2:
        return [row for _, _, listed in runs for row in listed]
    keyed = [{json.dumps(row): row for row in listed} for _, _, listed in runs]
    shown = Counter[str]()
    for (start, stop, _), listed in zip(runs, keyed, strict=True):
        shown.update(dict.fromkeys(listed, stop - start))
    rows = {key: row for listed in keyed for key, row in listed.items()}
    ends, held = list[LanguageRow](), set[str]()
    for (start, stop, _), listed in zip(runs, keyed, strict=True):
        lasting = [row for key, row in listed.items() if shown[key] > 1]
        begun = {row["style"] for row in lasting if row["timestamp"] <= timestamps[start]}
        ends += [language_row(style, None, timestamps[start]) for style in sorted(held - begun)]
        held = {row["style"] for row in lasting if row["timestamp"] <= timestamps[stop - 1]}
    return [*rows.values(), *ends]


def _runs(column: pa.ListArray) -> Iterator[tuple[int, int, list[LanguageRow]]]:
    """Yield (first frame, frame behind, rows) of frames that have the same rows."""
    lengths = np.diff(to_numpy(column.offsets))
    starts = np.flatnonzero(np.diff(lengths, prepend=-1)).tolist()
    for start, stop in pairwise([*starts, len(column)]):
        values, shift = list_items(column.slice(start, stop - start)), int(lengths[start])
        alike = values.slice(shift).equals(values.slice(0, len(values) - shift))
        for first, behind in [(start, stop)] if alike else pairwise(range(start, stop + 1)):
            yield first, behind, column[first].as_py() or []


def read_texts(path: Path, column: str) -> dict[int, str]:
    """Index -> text, of meta/tasks.parquet (`column` is task) or meta/subtasks.parquet (subtask)."""
    try:
        table = read_table(path)
    except (pa.ArrowException, OSError) as e:
        raise DatasetError(f"{path}: not readable as parquet ({first_line(e)})") from e
    # lerobot writes the pandas index: the text is in `column`, or in an unnamed index column.
    text = next((n for n in (column, "__index_level_0__") if n in table.column_names), None)
    if text is None or f"{column}_index" not in table.column_names:
        raise DatasetError(f"{path}: misses the columns {column} and {column}_index")
    indices, texts = table[f"{column}_index"].to_pylist(), table[text].to_pylist()
    if not all(isinstance(index, int | float) and float(index).is_integer() for index in indices):
        raise DatasetError(f"{path}: {column}_index is no whole number in each row: number the rows from 0")
    return {int(i): "" if t is None else str(t) for i, t in zip(indices, texts, strict=True)}


def frame_labels(indices: NDArray[np.int64], texts: Mapping[int, str]) -> list[tuple[int, str]]:
    """(first frame, text) of each run of frames with one text, by `indices` (n,); "" without a text."""
    starts = np.flatnonzero(np.diff(indices, prepend=indices[:1] - 1)).tolist()
    runs = [(start, (texts.get(int(indices[start])) or "").strip()) for start in starts]
    return [next(same) for _, same in groupby(runs, key=lambda run: run[1])]


def joined_tasks(labels: Iterable[tuple[int, str]]) -> str:
    """The tasks of an episode's frames as one instruction, word for word.

    >>> joined_tasks([(0, ""), (5, "pick up the block."), (9, "put it down")])
    'pick up the block; put it down'
    >>> joined_tasks([(0, "pick up the block.")])
    'pick up the block.'
    """
    texts = [text for text, _ in groupby(text for _, text in labels if text)]
    return texts[0] if len(texts) == 1 else "; ".join(text.rstrip(".; ") for text in texts)


def annotation_labels(root: Path, episode: int, times: NDArray[np.float32]) -> tuple[Label, ...]:
    """The sub-tasks in `meta/lerobot_annotations.json` of lerobot's visualizer; empty without any.

    Version 2 has rows as they are in `language_persistent`, version 1 has `subtasks` with start and end.

    Raises:
        DatasetError: the file is damaged, or two sub-tasks overlap.
    """
    try:
        rows = annotated_subtasks(root).get(episode, [])
        if rows and "content" in rows[0]:
            return tuple(sorted({(float(row["timestamp"]), str(row["content"] or "")) for row in rows}))
        spans = [(float(row["start"]), float(row["end"]), str(row["label"] or "")) for row in rows]
    except (KeyError, TypeError, ValueError) as e:
        raise DatasetError(f"{root / ANNOTATIONS}: episode {episode} is damaged ({e!r}): repair it") from e
    return _spans(spans, times, f"{root / ANNOTATIONS}: episode {episode}")


def annotated_subtasks(root: Path) -> Mapping[int, list[dict[str, Any]]]:
    """Episode -> its sub-tasks in `meta/lerobot_annotations.json`; raises DatasetError for a damaged file."""
    path = root / ANNOTATIONS
    try:
        return _annotations(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as e:
        raise DatasetError(f"{path}: damaged ({e!r}): repair or remove it") from e


@lru_cache(maxsize=2)
def _annotations(path: Path, mtime_ns: int) -> dict[int, list[dict[str, Any]]]:
    subtasks: dict[int, list[dict[str, Any]]] = {}
    for episode, entry in (read_json(path).get("episodes") or {}).items():
        atoms = [atom for atom in entry.get("atoms") or () if atom.get("style") == "subtask"]
        rows: list[dict[str, Any]] = atoms or list(entry.get("subtasks") or ())
        if rows:
            subtasks[int(episode)] = rows
    return subtasks


def _spans(
    spans: Iterable[tuple[float, float, str]], times: NDArray[np.float32], where: str
) -> tuple[Label, ...]:
    """Labels of spans in seconds, those of no length left out; one without a text begins a gap.

    An end on the last frame is the episode's end.
    """
    middles = (times[1:].astype(np.float64) + times[:-1]) / 2

    def frame(seconds: float) -> int:
        return int(np.searchsorted(middles, seconds, side="right"))

    labels: list[Label] = []
    stop = 0.0
    for start, end, text in sorted({span for span in spans if span[0] < span[1]}):
        if labels and frame(start) < frame(stop):
            raise DatasetError(
                f"{where}: the sub-tasks {labels[-1][1]!r} and {text!r} overlap at {start:g} s: correct one"
            )
        if labels and frame(stop) < frame(start):
            labels.append((stop, ""))
        labels.append((start, text))
        stop = end
    if labels and frame(stop) < len(middles):
        labels.append((stop, ""))
    return tuple(labels)


def find_labels(source: "Source", episodes: Sequence[int]) -> dict[LabelForm, tuple[int, ...]]:
    """Form -> those of `episodes` with labels in it, in the order of `LABEL_FORMS`; only forms that occur.

    An episode that cannot be read counts as one without: it is told so by itself.
    """
    found: dict[LabelForm, list[int]] = {form: [] for form in LABEL_FORMS}
    for index in sorted(set(episodes)):
        with suppress(DatasetError):
            episode = source.episode(index)
            for form in (form for form in LABEL_FORMS if _is_labelled(episode, form)):
                found[form].append(index)
    return {form: tuple(labelled) for form, labelled in found.items() if labelled}


def _is_labelled(episode: "Episode", form: LabelForm) -> bool:
    """Tell if an episode has labels in a form, even some that contradict each other."""
    try:
        if form == "annotations":
            return episode.index in annotated_subtasks(episode.root)
        return bool(read_labels(episode, form))
    except DatasetError:
        return form == "subtask_index"
