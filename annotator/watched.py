"""Episodes that a model labels, from which the others of their instructions are labelled."""

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from goalreel import claims, files
from goalreel.annotator import examples, guards, job
from goalreel.annotator.options import Options, RunOptions
from goalreel.datasets.parquet import read_table
from goalreel.datasets.records import FOLDER, LOCAL, Records, check_own
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.models.registry import RecordingContext
from goalreel.types import Failure, Plan, Task

log = logging.getLogger(__name__)

TABLE = FOLDER / "watched.parquet"
"""The model's labels, as a table that `--examples` takes."""


def check_watching(models: ModelSet, options: Options, run: RunOptions) -> None:
    """Refuse a run in which no model can label `run.to_watch` episodes of each instruction."""
    if not guards.watches(models):
        raise InputError(f"--examples {run.to_watch}: no model watches: add --preset watch, or name LABELLED")
    if run.shard:
        raise InputError(f"--examples {run.to_watch} watches in one process: leave out --shard")
    if several := {"scene", "reasoning"}.intersection(options.detail_names):
        raise InputError(f"--details {min(several)} is of one episode: leave out --examples {run.to_watch}")


def watch_examples(
    source: Source, out: Path, models: ModelSet, recorded: RecordingContext, options: Options, run: RunOptions
) -> Path:
    """Have a model label `run.to_watch` episodes of each instruction; returns the table of their steps.

    They are those that `goalreel check` names and, in place of one that the model cannot label, that fails or
    that is not as instructed, the next one. The model is asked for none in the table.
    """
    table, maker = out / TABLE, claims.makers(models.provenance.identities().get)["planner"]
    check_own(out)
    with files.exclusive(out / LOCAL, out):
        rows: list[dict[str, Any]] = read_table(table).to_pylist() if table.is_file() else []
        journal = Journal(Records(out / FOLDER, source="").answers, source.fingerprint().recording)
        guarded = guards.GuardedModels(models, journal, run.limits, options.on_rejected, run.to_watch)
        tried = {row["episode"] for row in rows}
        selected = {text for text, _ in examples.by_instruction(source, source.select(run.episodes))}
        groups = {text: e for text, e in examples.by_instruction(source, source.indices) if text in selected}
        orders = examples.to_label(source, groups.items(), 2 * run.to_watch)

        def next_ones() -> list[int]:
            labelled = {row["episode"] for row in rows}
            found: list[int] = []
            for text, episodes in groups.items():
                missing = run.to_watch - len(labelled.intersection(episodes))
                untried = [e for e in orders.get(text, episodes[: 2 * run.to_watch]) if e not in tried]
                found += untried[: max(0, missing)]
            return found

        while todo := next_ones():
            job.log_cost_estimate(models, source, recorded, todo)
            tried.update(todo)
            episodes = {e.id: e for e in examples.readable(source, todo)}  # open as long as they are watched
            tasks = [Task(id=id, instruction=e.instruction) for id, e in episodes.items()]
            for task, plan in guarded.plans_of(tasks):
                rows += _rows(episodes[task.id].index, task, plan, maker)
            rows.sort(key=lambda row: row["episode"])
            if rows:
                with files.atomic(table) as part:
                    pq.write_table(pa.Table.from_pylist(rows), part)
        job.log_spent(models)
    if not rows:
        raise InputError(f"the model labelled none of {len(tried)} episodes: look at what it answers")
    return table


def _rows(index: int, task: Task, plan: Plan | Failure, maker: str) -> list[dict[str, Any]]:
    """The steps of a plan as rows of a table; none where others are not to be labelled from them."""
    why = plan.message if isinstance(plan, Failure) else "a step failed, or is not as instructed"
    if isinstance(plan, Failure) or any(
        s.outcome == "failed" or s.auxiliary_text or s.doubts for s in plan.steps
    ):
        log.warning("episode %d is no example: %s", index, why)
        return []
    return [
        {
            "episode": index,
            "instruction": task.instruction,
            "name": step.name,
            "sub_goal": step.instruction,
            "prompt": step.prompt,
            "start_frame": segment.start,
            "end_frame": segment.end,
            "what_by": maker,
            "when_by": maker,
        }
        for step, segment in zip(plan.steps, plan.segments or (), strict=True)
    ]
