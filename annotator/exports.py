"""The steps of an annotated dataset as one table.

A row a step, for pandas, a spreadsheet or a query. An episode whose plan failed has one row, without a
step. Nothing of a picture is in it: `goal_image` is the reference that the records keep, "frame:CAMERA#INDEX"
or the path of a PNG below OUT/meta/goalreel.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from goalreel.annotator.show import open_annotated, select
from goalreel.claims import ASPECTS, CLAIM_NAMES, NOBODY, PICTURE_CHECKS, FailureDetail
from goalreel.critics.examination import Examination, read_examination, word
from goalreel.errors import InputError
from goalreel.files import atomic
from goalreel.progress import OnProgress
from goalreel.types import Storyboard, StoryboardStep, Verdict

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
        ("untrue_low", pa.float64()),
        ("untrue_high", pa.float64()),
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
"""`end_frame` and `end_s` are exclusive. `word` says what the step is worth (`critics.examination.word`),
and `untrue_low` and `untrue_high` how much is untrue of what its Critic accepted: a share, 95 % interval.
`outcome` is null where nobody checked that it came off. `chosen` counts from 0; `success` to `reasoning` are
the verdict on that attempt: `success` is null where nobody compared the picture with the words, or these are
in doubt, and false where the recording shows a failure. `unaligned` is why the step was not found in the
recording. The claims follow (`goalreel.claims`): `what_by` wrote the words, and `what_doubts` are separated
by "; ". Last are the details (`goalreel.claims`). Null is what there is none of."""
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
        low, high = _untrue(step, examination)
        worth = {"word": word(step, examination), "untrue_low": low, "untrue_high": high}
        yield common | {"step": number} | worth | _step(step, fps)


def _untrue(step: StoryboardStep, examination: Examination | None) -> tuple[float | None, float | None]:
    looks = step.claims.looks
    if examination is None or looks is None or looks.checked != examination.critic or not step.accepted:
        return None, None
    return examination.untrue


def _step(step: StoryboardStep, fps: float) -> dict[str, object]:
    chosen = None if step.chosen is None else step.attempts[step.chosen]
    goal, verdict, segment = step.goal_image, chosen.verdict if chosen else None, step.segment
    end = step.claims.came_off
    came_off = end is not None and end.checked not in (NOBODY, PICTURE_CHECKS) and not end.doubts
    row: dict[str, object] = {
        "name": step.step.name,
        "sub_goal": step.step.instruction,
        "prompt": step.step.prompt if chosen is None else chosen.prompt,
        "status": step.status,
        "outcome": None if step.step.outcome == "done" and not came_off else step.step.outcome,
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
