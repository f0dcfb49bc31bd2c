"""Exports of an annotated dataset: its steps as one table, and a copy for lerobot's reward model SARM.

Table: a row a step, for pandas, a spreadsheet or a query. An episode whose plan failed has one row, without a
step. Nothing of a picture is in it: `goal_image` is the reference that the records keep, "frame:CAMERA#INDEX"
or the path of a PNG below OUT/meta/goalreel.

SARM: columns of meta/episodes and files as `lerobot.data_processing.sarm_annotations` writes them and
`lerobot.rewards.sarm` reads them (lerobot 0.6). The dense stages are the sub-tasks that a policy may be told
of; the sparse one is the whole episode, called "task", as in lerobot's own automatic mode, which
`annotation_mode="dense_only"` expects.
"""

import itertools
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyarrow import csv, parquet

from goalreel.annotator.robot import stored_layout
from goalreel.annotator.show import open_annotated, select
from goalreel.claims import CLAIM_NAMES, NOBODY, PICTURE_CHECKS
from goalreel.critics.examiner import Examination, read_examination, word
from goalreel.datasets.hub import local_folder
from goalreel.datasets.info_file import check_links
from goalreel.datasets.labels import STAGE_PREFIXES, WHOLE
from goalreel.datasets.parquet import array
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import check_apart, dataset_files, episode_files, pass_file
from goalreel.datasets.writing.goals import Goals, read_goals
from goalreel.datasets.writing.language import put_column
from goalreel.datasets.writing.meta import rewrite
from goalreel.details import ASPECTS, FailureDetail
from goalreel.errors import DatasetError, InputError
from goalreel.files import atomic, atomic_folder, write_bytes
from goalreel.progress import OnProgress
from goalreel.types import Storyboard, StoryboardStep, Verdict

log = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [
        ("episode", pa.int64()),
        ("instruction", pa.string()),
        ("failure", pa.string()),
        ("step", pa.int64()),
        ("name", pa.string()),
        ("sub_goal", pa.string()),
        ("prompt", pa.string()),
        ("status", pa.string()),
        ("word", pa.string()),
        ("outcome", pa.string()),
        ("unaligned", pa.string()),
        ("start_frame", pa.int64()),
        ("end_frame", pa.int64()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("attempts", pa.int64()),
        ("chosen", pa.int64()),
        ("goal_image", pa.string()),
        ("success", pa.bool_()),
        ("probability", pa.float64()),
        ("semantics", pa.float64()),
        ("quality", pa.float64()),
        ("reasoning", pa.string()),
        *((f"{name}_{part}", pa.string()) for name in CLAIM_NAMES for part in ("by", "checked", "doubts")),
        *((f"detail_{name}{part}", pa.string()) for name in ASPECTS for part in ("", "_by", "_checked")),
        *((name, pa.string()) for name in ("error_cause", "error_cause_by", "error_cause_checked")),
        ("restorable", pa.bool_()),
    ]
)
"""`end_frame` and `end_s` are exclusive. `word` says what the step is worth (`critics.examiner.word`).
`outcome` is null where nobody checked that it came off. `chosen` counts from 0; `success` to `reasoning` are
the verdict on that attempt: `success` is null where nobody compared the picture with the words, or these are
in doubt, and false where the recording shows a failure. `unaligned` is why the step was not found in the
recording. The claims follow (`goalreel.claims`): `what_by` wrote the words, and `what_doubts` are separated
by "; ". Last are the details (`goalreel.details`). Null is what there is none of."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Beginnings of what spreadsheets calculate; in a CSV file a quotation mark stands before them."""
WRITERS = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
EPISODES = 1000
"""Whose rows are written at a time: they take 8 KB an episode until then."""


def export_table(
    dataset: Path,
    out: Path,
    *,
    source: Path | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> int:
    """Write the steps of an annotated dataset to `out`, by its suffix as CSV or Parquet; returns the rows.

    `source`: what the dataset is made from, while it is not written itself.

    Raises:
        InputError: `out` is neither, or is a folder.
        DatasetError: the dataset was not annotated by goalreel, or is damaged; the disk is full.
    """
    writer_class = WRITERS.get(out.suffix)
    if writer_class is None or out.is_dir():
        raise InputError(f"{out}: name a file that ends in {' or '.join(WRITERS)}")
    records, done, recorded = open_annotated(dataset, source)
    examination = read_examination(records.examination)
    written = 0
    with atomic(out) as part, writer_class(part, SCHEMA) as writer:
        for episodes in itertools.batched(enumerate(select(dataset, done), start=1), EPISODES):
            rows = list[dict[str, object]]()
            for count, episode in episodes:
                rows += _rows(episode, records.outline(episode), recorded.fps, examination)
                progress("export", count, len(done))
            if out.suffix == ".csv":
                rows = [{name: cell(value) for name, value in row.items()} for row in rows]
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
            written += len(rows)
    return written


def cell(value: object) -> object:
    """Quote a text that a spreadsheet would take for a formula, or that is such a quotation."""
    return f"'{value}" if isinstance(value, str) and value.lstrip("'").startswith(FORMULA) else value


def plain(value: object) -> object:
    """Take the quotation mark of `cell` away."""
    return value[1:] if isinstance(value, str) and cell(value[1:]) == value else value


def _rows(
    episode: int, board: Storyboard, fps: float, examination: Examination | None
) -> Iterator[dict[str, object]]:
    common: dict[str, object] = {"episode": episode, "instruction": board.task.instruction}
    if board.failure is not None:
        yield common | {"failure": f"{board.failure.stage}: {board.failure.message}"}
    for number, step in enumerate(board.steps):
        yield common | {"step": number, "word": word(step, examination)} | _step(step, fps)


def _step(step: StoryboardStep, fps: float) -> dict[str, object]:
    chosen = None if step.chosen is None else step.attempts[step.chosen]
    goal, verdict, segment = step.goal_image, chosen.verdict if chosen else None, step.segment
    row: dict[str, object] = {
        "name": step.step.name,
        "sub_goal": step.step.instruction,
        "prompt": step.step.prompt if chosen is None else chosen.prompt,
        "status": step.status,
        "outcome": None if step.step.outcome == "done" and not _came_off(step) else step.step.outcome,
        "unaligned": step.alignment.reason if step.alignment else None,
        "attempts": len(step.attempts),
        "chosen": step.chosen,
        "goal_image": goal and goal.frame,
    }
    for name, claim in step.claims.items():
        row |= {f"{name}_by": claim.by, f"{name}_checked": claim.checked}
        row[f"{name}_doubts"] = "; ".join(claim.doubts) or None
    for name, detail in step.step.details.items() if step.step.details else ():
        column = "error_cause" if name == "failure" else f"detail_{name}"
        row |= {column: detail.text, f"{column}_by": detail.by, f"{column}_checked": detail.checked}
        row |= {"restorable": detail.restorable} if isinstance(detail, FailureDetail) else {}
    if segment is not None:
        row |= {"start_frame": segment.start, "end_frame": segment.end}
        row |= {"start_s": segment.start / fps, "end_s": segment.end / fps}
    if verdict is not None:
        row |= {key: getattr(verdict, key) for key in SCHEMA.names if key in Verdict.model_fields}
        if step.step.outcome == "failed":
            row["success"] = False
        elif verdict.success and (verdict.pictures_only or step.step.doubts):
            row["success"] = None
    return row


def _came_off(step: StoryboardStep) -> bool:
    claim = step.claims.came_off
    return claim is not None and claim.checked not in (NOBODY, PICTURE_CHECKS) and not claim.doubts


class SarmStage(NamedTuple):
    """A stage of an episode, in frames from its first; `end` is the first frame after it."""

    name: str
    start: int
    end: int


def stages(goals: Goals, length: int) -> tuple[SarmStage, ...]:
    """List the stages of an episode of `length` frames: its spans with a name.

    lerobot's reader (`find_stage_and_tau`) takes a span's `end` as its last frame, on which the stage is
    complete: the same target as the next stage's beginning. On frames between two spans the stage before
    stays complete. On frames after the last span it would take the whole task for complete, a failed attempt
    too, so a span without length ends the episode: then they are frames between two spans.
    """
    sequence = tuple(SarmStage(s.name, s.start, s.end) for s in goals.spans if s.name is not None)
    if sequence and sequence[-1].end < length - 1:
        sequence += (SarmStage(sequence[-1].name, length - 1, length - 1),)
    return sequence


def proportions(episodes: Iterable[Sequence[SarmStage]]) -> dict[str, float]:
    """Map each name to its share of an episode, in the order of the stages; they add up to 1.

    As lerobot's `compute_temporal_proportions`: the mean share of a stage in the episodes that have it, then
    scaled. The times are exact, and a stage that an episode has twice counts with both.
    """
    shares, having = defaultdict[str, float](float), Counter[str]()
    plans = Counter[tuple[str, ...]]()
    for episode in episodes:
        frames = Counter[str]()
        for stage in episode:
            frames[stage.name] += stage.end - stage.start
        for name, count in frames.items():
            shares[name] += count / frames.total()
            having[name] += 1
        plans[tuple(stage.name for stage in episode)] += 1
    mean = {name: share / having[name] for name, share in shares.items()}
    total = sum(mean.values())
    return {name: mean[name] / total for name in in_order(plans.elements())}


def in_order(episodes: Iterable[Sequence[str]]) -> list[str]:
    """List the names of all episodes, each once, in the order of most episodes.

    >>> in_order([["reach", "grasp", "place"], ["grasp", "lift", "place"]])
    ['reach', 'grasp', 'lift', 'place']
    """
    plans = Counter(tuple(dict.fromkeys(names)) for names in episodes)
    pair_counts = Counter[tuple[str, str]]()
    for plan, number in plans.items():
        for pair in itertools.combinations(plan, 2):
            pair_counts[pair] += number
    after: defaultdict[str, list[str]] = defaultdict(list)
    waiting = {name: 0 for plan in plans for name in plan}
    for (first, second), count in pair_counts.items():
        if count > pair_counts[second, first]:
            after[first].append(second)
            waiting[second] += 1
    ordered = []
    while waiting:
        # Where the episodes contradict one another, the one that fewest are to come before.
        name = min(waiting, key=waiting.__getitem__)
        del waiting[name]
        ordered.append(name)
        for follower in after[name]:
            if follower in waiting:
                waiting[follower] -= 1
    return ordered


_COLUMNS: dict[str, tuple[pa.DataType, Callable[[SarmStage, float], object]]] = {
    "subtask_names": (pa.list_(pa.string()), lambda stage, fps: stage.name),
    "subtask_start_times": (pa.list_(pa.float64()), lambda stage, fps: stage.start / fps),
    "subtask_end_times": (pa.list_(pa.float64()), lambda stage, fps: stage.end / fps),
    "subtask_start_frames": (pa.list_(pa.int64()), lambda stage, fps: stage.start),
    "subtask_end_frames": (pa.list_(pa.int64()), lambda stage, fps: stage.end),
}


def export_sarm(
    dataset: Path, out: Path, *, progress: OnProgress = lambda stage, done, total: None
) -> dict[str, int]:
    """Write a copy of the annotated `dataset` into the new folder `out`, with the stages of every episode.

    Videos are linked, all else is copied or new. An episode without a sub-task that may be said, or without
    annotation, has null in the dense columns: lerobot then warns and trains the dense head on no progress
    in all of it.

    Returns:
        The number of `episodes`, and of those with a sub-task that a policy may be told (`named`).

    Raises:
        InputError: `out` is there already.
        DatasetError: the dataset was not annotated by goalreel, has no sub-task that may be said, is not
            written yet or is damaged; the disk is full.
    """
    source, goals = _read_annotated(dataset)
    whole, lengths = len(source.rows), source.lengths
    dense = {e: found for e, of_episode in goals.items() if (found := stages(of_episode, lengths[e]))}
    if not dense:
        raise DatasetError(f"{dataset}: no completed step to train on, so there are no stages")
    if without := whole - len(dense):
        text = (
            "%s: %d of %d episodes have no stages: SARM's dense head will learn that nothing is done in them"
        )
        log.warning(text, dataset, without, whole)
    if (state := source.numbers.state) not in ((), ("observation.state",)):
        names = " or ".join(state)
        log.warning("%s: SARM looks for observation.state: set its state_key to %s", dataset, names)
    check_apart(source.root, out)
    check_links(source.root)
    with atomic_folder(out) as part:
        _copy_files(source.root, part, progress)
        _write_episodes(source, part, dense, progress)
        for kind, shares in (("sparse", {WHOLE: 1.0}), ("dense", proportions(dense.values()))):
            # Plain ASCII: lerobot reads the file in the encoding of its machine.
            path = part / "meta" / f"temporal_proportions_{kind}.json"
            write_bytes(path, json.dumps(shares, indent=2).encode())
    return {"episodes": whole, "named": sum(bool(of_episode.names) for of_episode in goals.values())}


def _read_annotated(dataset: Path) -> tuple[Source, dict[int, Goals]]:
    """Read a written dataset, and the goals from its records that a policy may be told.

    Raises:
        DatasetError: goalreel did not annotate it, it is not written yet, or it is damaged.
    """
    dataset = local_folder(dataset)
    records = Records(dataset / FOLDER, source="")
    if records.folder.is_dir() and not (dataset / "meta" / "info.json").is_file():
        raise DatasetError(f"{dataset}: not written yet: finish its `goalreel annotate` first")
    source = Source.open(dataset)
    stored_layout(source, records.settings())
    if missing := source.missing_files():
        raise DatasetError(f"{dataset}: {next(iter(missing.values()))} is missing: copy the dataset again")
    lengths = source.lengths
    done = select(dataset, [e for e in records.done() if e in lengths])
    use_rejected = bool(records.settings().get("use_rejected"))
    return source, read_goals(records, done, lengths, use_rejected)


def _copy_files(root: Path, out: Path, progress: OnProgress) -> None:
    """Pass on all files but those of meta/episodes; a record an episode, they are not listed at once."""
    rewritten = frozenset(episode_files(root))
    total = sum(path not in rewritten for path in dataset_files(root))
    files = (path for path in dataset_files(root) if path not in rewritten)
    for done, path in enumerate(files, start=1):
        pass_file(path, out / path.relative_to(root), root)
        progress("copy", done, total)


def _write_episodes(
    source: Source, out: Path, dense: Mapping[int, Sequence[SarmStage]], progress: OnProgress
) -> None:
    """Write meta/episodes with the stages (by episode, where some may be said)."""
    files = episode_files(source.root)
    for done, path in enumerate(files, start=1):
        target = out / path.relative_to(source.root)
        rewrite(path, target, lambda table: _with_stages(table, dense, source.fps))
        progress("write", done, len(files))


def _with_stages(table: pa.Table, dense: Mapping[int, Sequence[SarmStage]], fps: float) -> pa.Table:
    """Rows of meta/episodes with the columns of stages, of the same types in every file; none become null."""
    rows = list(zip(table["episode_index"].to_pylist(), table["length"].to_pylist(), strict=True))
    whole = [(SarmStage(WHOLE, 0, length),) for _, length in rows]
    for prefix in STAGE_PREFIXES:
        stage_lists = [dense.get(e, ()) for e, _ in rows] if prefix == "dense_" else whole
        for name, (kind, value) in _COLUMNS.items():
            lists = [[value(stage, fps) for stage in of_episode] or None for of_episode in stage_lists]
            values = array(lists, kind)
            table = put_column(table, pa.field(prefix + name, kind), pa.chunked_array([values]))
    return table
