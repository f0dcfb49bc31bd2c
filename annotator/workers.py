"""Annotating in the worker processes of a Ray cluster.

Ray Data feeds the numbers of episodes to a pool of actors; each reads its episodes and drives its models for
many of them at once, as `annotate` does, and records what is finished. The records are the only truth: Ray
keeps no checkpoint, and of a block whose actor was killed only what is not recorded is done again.
"""

import logging
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from goalreel.annotator.job import AnnotationJob, Summary, known_true
from goalreel.annotator.options import Options, WorkerOptions
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.records import LOCAL, Records
from goalreel.datasets.source import Source
from goalreel.drivers import Limits
from goalreel.errors import DatasetError, UserError, first_line
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.models.registry import RecordingContext
from goalreel.progress import OnProgress

DEATHS = 3
"""Starts of an episode in workers that died, after which it is given up."""
STARTS = "starts"
INIT_DEATHS = 3
"""Actors in a row that may die while they start; Ray's default of 0 ends the job with the first."""


class Workers(WorkerOptions):
    """Processes with models of their own, and where they run.

    Folders and the models' addresses must be the same on every machine.
    """

    preset: Preset

    def run(
        self,
        records: Records,
        source: Source,
        options: Options,
        limits: Limits,
        todo: Mapping[int, int | None],
        summary: Summary,
        progress: OnProgress,
    ) -> None:
        """Record the episodes `todo` into the open `records`, and count them in `summary`.

        `todo` has, of those to be tried again, how many accepted pictures their records have.

        Raises:
            DatasetError: workers die again and again.
        """
        import ray.data
        from ray.exceptions import RayError, RayTaskError

        ended, of = summary.ended, records.recordings or {}
        shutil.rmtree(records.folder.parents[1] / LOCAL / STARTS, ignore_errors=True)
        rows = [{"episode": i, "before": -1 if n is None else n, "of": of.get(i)} for i, n in todo.items()]
        folders = source.root.resolve(), records.folder.resolve(), records.source
        size = min(limits.in_flight, math.ceil(len(rows) / self.workers))
        blocks = self.workers * math.ceil(len(rows) / (self.workers * size))
        try:
            with _cluster(self), _settings():
                parts = ray.data.from_items(rows, override_num_blocks=min(blocks, len(rows))).map_batches(
                    _Worker,
                    fn_constructor_args=(*folders, self.preset, options, limits),
                    batch_size=None,
                    batch_format="numpy",
                    compute=ray.data.ActorPoolStrategy(size=self.workers, max_tasks_in_flight_per_actor=1),
                    num_cpus=1,
                    num_gpus=self.gpus,
                )
                for part in parts.iter_rows():
                    summary.add(part["summary"])
                    progress("annotate", summary.ended - ended, len(todo))
                    if summary.stopped:
                        break
        except RayTaskError:  # a bug
            raise
        except RayError as e:
            raise DatasetError(
                f"the workers failed: {first_line(e)}: run the same command again to resume"
            ) from e


class _Worker:
    """An actor: a batch of rows (episode, before, of) in, one row with its summary out."""

    def __init__(
        self, root: Path, records: Path, source: str, preset: Preset, options: Options, limits: Limits
    ) -> None:
        self._root, self._records, self._source = root, records, source
        self._preset, self._options, self._limits = preset, options, limits
        self._log = uuid4().hex

    @cached_property
    def _dataset(self) -> tuple[Source, RecordingContext, ModelSet]:
        source = Source.open(self._root)
        recorded = self._options.recorded(source)
        return source, recorded, load(self._preset, recordings=recorded)

    def __call__(self, rows: dict[str, Any]) -> dict[str, list[str]]:
        part = Summary(self._records.parents[1], "")
        try:
            self._work(rows, part)
        except (UserError, OSError) as e:
            part.stopped = first_line(e)
        return {"summary": [part.as_json()]}

    def _work(self, rows: dict[str, Any], part: Summary) -> None:
        dataset, recorded, models = self._dataset
        recordings = dict(zip(map(int, rows["episode"]), rows["of"], strict=True))
        todo = dict(zip(recordings, map(int, rows["before"]), strict=True))
        records = Records(self._records, self._source, recordings)
        for index in [index for index, before in todo.items() if before < 0]:
            with suppress(DatasetError):  # a worker that was killed may have recorded it
                board = records.outline(index)
                if not records.outdated(index):
                    part.add_board(board)
                    del todo[index]
        starts = _Starts(self._records.parents[1] / LOCAL / STARTS)
        # A batch whose worker was killed is done again one by one, to find the episode that kills.
        groups = [[index] for index in todo] if any(map(starts.of, todo)) else [list(todo)] if todo else []
        journal = Journal(records.answers, Fingerprint(self._source, recordings).recording)
        truth = known_true(dataset, recorded, records)
        examiner = models.examiner(records.examination, writer=self._log, known_true=truth)
        job = AnnotationJob(
            dataset, recorded, models, self._options, self._limits, records, journal, part, examiner
        )
        for group in groups:
            if starts.of(group[0]) >= DEATHS:
                part.failures[group[0]] = f"its worker died {DEATHS} times: is there enough memory?"
                continue
            starts.count(group)
            job.run({index: max(todo[index], 0) for index in group})
            starts.forget(group)
            if part.stopped:
                return


@dataclass(frozen=True)
class _Starts:
    """Starts of episodes that have not ended, a file each with a byte a start."""

    folder: Path

    def of(self, index: int) -> int:
        """Count the starts of an episode."""
        path = self.folder / str(index)
        return path.stat().st_size if path.is_file() else 0

    def count(self, episodes: Sequence[int]) -> None:
        """Note that they start."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for index in episodes:
            with (self.folder / str(index)).open("ab") as file:
                file.write(b".")

    def forget(self, episodes: Sequence[int]) -> None:
        """Note that they have ended."""
        for index in episodes:
            (self.folder / str(index)).unlink(missing_ok=True)


@contextmanager
def _cluster(workers: Workers) -> Iterator[None]:
    """Ray, joined or started, and left as it was."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        yield
        return
    if address := workers.address or os.environ.get("RAY_ADDRESS"):
        ray.init(address, log_to_driver=False)
    else:
        # Named as local, it joins nobody else's cluster on this machine. One CPU more for what feeds them.
        ray.init("local", num_cpus=workers.workers + 1, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _settings() -> Iterator[None]:
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.WARNING)
    context = ray.data.DataContext.get_current().copy()
    context.max_consecutive_actor_init_deaths = INIT_DEATHS
    context.enable_progress_bars = False
    with ray.data.DataContext.current(context):
        yield
