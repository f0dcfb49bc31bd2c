"""Checks that metadata, data files and words agree: lerobot's loader believes much of it unseen."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.health.issues import HealthIssue, broken, issue, note, spell, warning
from goalreel.datasets.info_file import LINK_ADVICE, links_out
from goalreel.datasets.labels import ANNOTATIONS, LABEL_FORMS, SUBTASKS, find_labels
from goalreel.datasets.parquet import column_faults, depth, read_metadata, read_schema, read_table, to_numpy
from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import data_files, episode_files
from goalreel.errors import DatasetError, first_line

NUMBERS = ("episode_index", "frame_index", "index", "task_index", "timestamp")
MISSING = np.iinfo(np.int64).min
"""Stands for an integer that is not there."""


@dataclass(frozen=True, eq=False)
class FrameRows:
    """One value a row, in lerobot's order of files and rows, (rows,)."""

    paths: tuple[Path, ...]
    file: NDArray[np.integer]
    """Which of `paths`."""
    episode: NDArray[np.integer]
    frame: NDArray[np.integer]
    index: NDArray[np.integer]
    task: NDArray[np.integer]
    time: NDArray[np.float64]
    """Seconds; NaN where there is none."""

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "FrameRows":
        """Read files that are readable, one at least; raises DatasetError where rows of one are damaged."""
        paths = tuple(paths)
        columns = [_read(path) for path in paths]
        file = np.repeat(np.arange(len(paths)), [len(c["timestamp"]) for c in columns])
        return cls(paths, file, *(np.concatenate([part[name] for part in columns]) for name in NUMBERS))

    def __len__(self) -> int:
        return len(self.episode)

    @cached_property
    def of_episode(self) -> dict[int, NDArray[np.int64]]:
        """Episode -> its rows in their order."""
        order = np.argsort(self.episode, kind="stable")
        episode = self.episode[order]
        starts = np.flatnonzero(np.diff(episode, prepend=episode[:1] - 1))
        return dict(zip(episode[starts].tolist(), np.split(order, starts[1:]), strict=False))

    @property
    def mixed(self) -> set[int]:
        """The episodes whose rows do not lie together."""
        return {e for e, at in self.of_episode.items() if at[-1] - at[0] + 1 != len(at)}


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Read the columns of a file; one that it lacks is empty throughout."""
    names = read_schema(path).names
    try:
        table = read_table(path, [name for name in NUMBERS if name in names])
    except (pa.ArrowException, OSError) as e:
        raise DatasetError(f"{path}: damaged ({first_line(e)}): {_COPY}") from e
    columns: dict[str, NDArray[Any]] = {}
    for name in NUMBERS:
        kind, missing = (np.float64, np.nan) if name == "timestamp" else (np.int64, MISSING)
        columns[name] = np.full(len(table), missing, kind)
        if name in names:
            column = table[name].combine_chunks()
            valid = np.array(column.is_valid()) if column.null_count else slice(None)
            with np.errstate(invalid="ignore"):  # a number that is no integer is told as one out of range
                columns[name][valid] = to_numpy(column.drop_null() if column.null_count else column)
    return columns


_NUMERIC = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
_NO_TENSOR = ("timestamp[", "time32", "time64", "date", "duration[", "decimal", "binary", "large_binary")
_COPY = "copy the dataset again"
_TASKS = "meta/tasks.parquet"


def file_issues(source: Source, chosen: Collection[int]) -> Iterator[HealthIssue]:
    """Data files that are missing, unreadable, or that lerobot would refuse for their columns."""
    try:
        source.check_data(chosen)
    except DatasetError as e:
        yield broken("data_file", str(e))
    for path in data_files(source.root):
        try:
            schema = read_schema(path)
        except (pa.ArrowException, OSError) as e:
            yield broken(
                "data_file",
                f"{path}: not readable as parquet ({first_line(e)}), and lerobot loads it too: "
                f"remove it, or {_COPY}",
            )
        else:
            yield from _column_issues(source, path, schema)


def _column_issues(source: Source, path: Path, schema: pa.Schema) -> Iterator[HealthIssue]:
    dtypes = {name: feature["dtype"] for name, feature in source.features.items()}
    features = {name: dtype for name, dtype in dtypes.items() if dtype != "video"}
    columns, faults = set(schema.names), list(column_faults(schema, dtypes))
    if "index" not in columns:
        faults.append(f"has no column index: {_COPY}")
    if extra := ", ".join(sorted(columns - features.keys())):
        faults.append(f"meta/info.json has no feature {extra}: add it there, or drop the column")
    yield from (broken("columns", f"{path}: {fault}") for fault in faults)
    if absent := ", ".join(sorted(features.keys() - columns)):
        yield warning(
            "columns",
            f"{path}: has no column {absent}, which meta/info.json names: lerobot gives None; "
            "remove it from features",
        )
    counts = count_values(path)
    for name in [name for name in features if name in columns] if not faults else ():
        if features[name].startswith(_NO_TENSOR):
            yield broken(
                "columns",
                f"{path}: {name} is of the dtype {features[name]}, of which lerobot makes no tensor: "
                "write numbers or text, or remove the feature and its column",
            )
        elif features[name] in _NUMERIC and name in counts:
            shape, (count, nulls) = source.features[name]["shape"], counts[name]
            fits = prod(shape) == 1 or count == prod(shape) * counts["episode_index"][0]
            dims = 0 if shape == [1] else len(shape)
            if depth(schema.field(name).type) != dims or not (fits or nulls):
                yield broken(
                    "columns",
                    f"{path}: {name} has not the shape {shape} that meta/info.json says: correct it there",
                )
            elif prod(shape) > 1 and nulls:
                # lerobot loads empty cells, whose episodes annotate leaves out, but no empty number.
                yield issue(
                    "broken" if fits else "warning",
                    "columns",
                    f"{path}: {name} has empty cells or numbers: fill them",
                )


def count_values(path: Path) -> dict[str, tuple[int, int]]:
    """Column -> the numbers in it, of lists those in all lists, and how many of them are empty."""
    counts: dict[str, tuple[int, int]] = {}
    metadata = read_metadata(path)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name = re.sub(r"(\.list\.\w+)+$", "", column.path_in_schema)
            count, nulls = counts.get(name, (0, 0))
            empty = column.statistics.null_count if column.statistics else 0
            counts[name] = count + column.num_values, nulls + (empty or 0)
    return counts


def link_issues(source: Source) -> Iterator[HealthIssue]:
    """Links that lead out of the dataset, which `annotate` does not follow unasked."""
    for link, target in links_out(source.root):
        yield warning(
            "link",
            f"{link.relative_to(source.root)} is a link out of the dataset, to {target}: {LINK_ADVICE}",
        )


def row_issues(source: Source, rows: FrameRows, chosen: Collection[int]) -> Iterator[HealthIssue]:
    """Numbers of episodes and frames that do not fit together."""
    tables = [read_table(path, ["episode_index"]) for path in episode_files(source.root)]
    order = to_numpy(pa.concat_tables(tables)["episode_index"])
    if not np.array_equal(order, np.arange(len(order))):
        yield broken(
            "episode_order",
            "lerobot takes row k of meta/episodes for episode k, and they differ: number the episodes "
            "from 0 on, in meta/episodes and in the data files",
        )
    present, expected = set(rows.of_episode), set(source.indices)
    if unknown := present - expected:
        yield broken(
            "episode_rows",
            f"the data files have rows of {spell(unknown)}, and meta/episodes does not: {_COPY}",
        )
    if missing := expected - present:
        needed = missing & set(chosen)
        level, concerned = ("broken", needed) if needed else ("warning", missing)
        yield issue(
            level,
            "episode_rows",
            f"the data files have no row of {spell(concerned)}, so lerobot cannot read all episodes: "
            f"{_COPY}, or delete them",
            concerned,
        )
    if mixed := rows.mixed:
        yield broken(
            "row_order",
            f"the rows of {spell(mixed)} are not together: sort the data files by index, "
            "and remove a file that is a copy",
            mixed,
        )
        return
    if not missing:
        yield from _places(source, rows)
    yield from _numbering(source, rows, [e for e in chosen if e in present], is_whole=not missing)


def _places(source: Source, rows: FrameRows) -> Iterator[HealthIssue]:
    for kind, actual in (("episodes", len(source.rows)), ("frames", len(rows))):
        stated = source.info.get(f"total_{kind}")
        if stated != actual:
            fewer = type(stated) is int and 0 < stated < actual
            then = f"leaves out {kind}" if fewer else f"looks for {kind} that are not there"
            text = f"meta/info.json says total_{kind} {stated}, and there are {actual}: lerobot {then}"
            yield issue("warning" if fewer else "broken", "totals", f"{text}; write {actual}")

    beyond, other = [], []
    ends = map(source.rows.column, ("dataset_from_index", "dataset_to_index"))
    for episode, start, stop in zip(source.indices, *ends, strict=True):
        at = rows.of_episode[episode]
        if start is not None and stop is not None and (start, stop) != (at[0], at[-1] + 1):
            (beyond if stop > len(rows) else other).append(episode)
    text = "dataset_from_index and dataset_to_index name other rows: write the first, and that after the last"
    if beyond:  # where lerobot-train fails
        yield broken("episode_span", f"{spell(beyond)}: {text}", beyond)
    if other:
        yield warning("episode_span", f"{spell(other)}: {text}", other)


def _numbering(
    source: Source, rows: FrameRows, chosen: Sequence[int], *, is_whole: bool
) -> Iterator[HealthIssue]:
    lengths, at = source.lengths, rows.of_episode
    if off := [e for e in chosen if len(at[e]) != lengths[e]]:
        text = f"meta/episodes says {lengths[off[0]]} frames, and there are {len(at[off[0]])}"
        yield warning("row_count", f"{spell(off)}: {text}: annotate leaves that out; correct length", off)
    if (rows.index == MISSING).any():
        text = "the column index is empty in some rows, where lerobot fails: number the rows from 0 on"
        yield broken("index", text)
    elif is_whole and (wrong := rows.index != np.arange(len(rows))).any():
        text = f"the column index is not the number of the row from row {int(wrong.argmax())} on, and lerobot"
        text = f"{text} takes action chunks and earlier frames from other places: number the rows from 0 on"
        yield warning("index", text)
    if wrong := [e for e in chosen if not np.array_equal(rows.frame[at[e]], np.arange(len(at[e])))]:
        text = f"{spell(wrong)}: frame_index does not count 0, 1, 2, ... in the order of the rows"
        yield warning("frame_index", f"{text}: number the frames anew", wrong)
    if misplaced := [e for e in chosen if e in source.rows.moved]:
        text = f"{spell(misplaced)}: meta/episodes names another data file than has the rows"
        yield warning("stale_file", f"{text}: goalreel check --fix corrects it in a copy", misplaced)


def task_issues(source: Source, rows: FrameRows, chosen: Collection[int]) -> Iterator[HealthIssue]:
    """Tasks that frames have and the dataset does not, and instructions that are empty."""
    task_indices = list(map(int, read_table(source.root / _TASKS)["task_index"].to_pylist()))
    stated = source.info.get("total_tasks")
    if not isinstance(stated, int) or stated <= 0:
        yield broken(
            "tasks",
            f"meta/info.json says total_tasks {stated}, so lerobot reads no task: write {len(task_indices)}",
        )
    beyond = (rows.task >= len(task_indices)) | (rows.task < -len(task_indices))
    if beyond.any():
        episodes = np.unique(rows.episode[beyond]).tolist()
        yield broken(
            "tasks",
            f"{spell(episodes)}: frames whose task_index has no row in {_TASKS}, where lerobot fails: "
            "add the tasks, or correct task_index",
            episodes,
        )
    if task_indices != list(range(len(task_indices))):
        yield warning(
            "task_order",
            f"lerobot takes row k of {_TASKS} for task k, and they differ: sort its rows by task_index",
        )
    yield from _instructions(source, rows, [e for e in chosen if e in rows.of_episode])


def _instructions(source: Source, rows: FrameRows, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    empty, partly = [], []
    for episode in chosen:
        tasks = np.unique(rows.task[rows.of_episode[episode]]).tolist()
        texts = [source.tasks[task].strip() for task in tasks if task in source.tasks]
        if not all(texts):
            (partly if any(texts) else empty).append(episode)
    if empty:
        text = f"{spell(empty)}: no frame has an instruction, so annotate leaves that out"
        level = "broken" if len(empty) == len(chosen) else "warning"
        yield issue(level, "no_instruction", f"{text}: name the task in {_TASKS}", empty)
    if partly:
        text = f"{spell(partly)}: some frames have an empty task, and keep it"
        yield warning("empty_task", f"{text}: annotate takes the others' for the instruction", partly)


def label_issues(source: Source, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    """Sub-tasks and sub-goals that somebody wrote before, in any form."""
    features, label_forms = source.features, find_labels(source, chosen)
    for form, episodes in label_forms.items():
        how = "--planner rows" if form == next(iter(label_forms)) else f"--planner rows --labels {form}"
        yield note(
            "labels",
            f"{spell(episodes)}: sub-task labels in {LABEL_FORMS[form]}: {how} keeps them, "
            "--replace-rows writes new ones",
            episodes,
        )
    for form, path in (("annotations", ANNOTATIONS), ("subtask_index", SUBTASKS)):
        if form not in label_forms and (form in features or (source.root / path).is_file()):
            yield note(
                "labels",
                f"{LABEL_FORMS[form]}: no sub-task there can be read, and annotate leaves it as it is",
            )
    if goals := [c for c in source.cameras if f"{c.rpartition('.')[2]}_is_pad" in features]:
        records = " and its records" if (source.root / FOLDER).is_dir() else ""
        yield note(
            "subgoal_camera",
            f"the sub-goal camera {', '.join(goals)}{records} of an earlier run: annotate replaces "
            "what it shows in the episodes it annotates",
        )
