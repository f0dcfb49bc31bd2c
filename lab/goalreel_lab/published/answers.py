"""The answers to a benchmark's samples: made once, kept in OUT/samples/ID, read back one at a time."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import batched
from pathlib import Path
from typing import Any, overload

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.drivers import Limits, run
from goalreel.errors import DatasetError
from goalreel.files import digest, read_file
from goalreel.middleware import use_known_answers
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.progress import OnProgress
from goalreel.storyboard_io import load_storyboard, save_storyboard
from goalreel.types import ACCEPTED, ROLES, Failure, Task
from goalreel_lab.published.benchmark import BenchAnswer, Sample

FOLDER = "samples"


class Answers(Sequence[tuple[Sample, BenchAnswer]]):
    """The samples that have an answer in `out`, in their order.

    An answer is read when it is asked for: the pictures of a whole benchmark fit into no memory.
    """

    def __init__(self, samples: Sequence[Sample], out: Path) -> None:
        self._out = out
        self._samples = [s for s in samples if (_folder(out, s) / "storyboard.json").is_file()]

    def __len__(self) -> int:
        return len(self._samples)

    @overload
    def __getitem__(self, index: int) -> tuple[Sample, BenchAnswer]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Sample, BenchAnswer]]: ...
    def __getitem__(
        self, index: int | slice
    ) -> tuple[Sample, BenchAnswer] | list[tuple[Sample, BenchAnswer]]:
        """Read one answer, or several."""
        if isinstance(index, slice):
            return [self._read(sample) for sample in self._samples[index]]
        return self._read(self._samples[index])

    def _read(self, sample: Sample) -> tuple[Sample, BenchAnswer]:
        return sample, BenchAnswer.of(load_storyboard(_folder(self._out, sample)))

    def unplanned(self) -> dict[str, str]:
        """Map each sample that the Planner gave no plan for to the reason.

        Raises:
            DatasetError: a storyboard is damaged.
        """
        reasons = {sample.id: _failure(_folder(self._out, sample)) for sample in self._samples}
        return {key: reason for key, reason in reasons.items() if reason is not None}

    def refused(self) -> list[str]:
        """List a reason for each sample that lacks a picture or a verdict, since a model refused.

        Raises:
            DatasetError: a storyboard is damaged.
        """
        reasons = ([r for r in _refused(_folder(self._out, s)) if r] for s in self._samples)
        return [some[0] for some in reasons if some]


def generate(
    samples: Sequence[Sample],
    models: ModelSet,
    out: Path,
    *,
    seed: int,
    concurrency: int,
    progress: OnProgress,
    retry: bool = False,
) -> None:
    """Make a storyboard for each sample that has none yet, none with a plan, or one that an outage cut short.

    `retry` also makes those anew that lack a picture or verdict that was refused.

    Raises:
        UserError: a model cannot be loaded or called; what is finished stays, and a second run goes on.
        DatasetError: the disk is full, or a storyboard is damaged.
    """
    todo = [s for s in samples if not _finished(_folder(out, s), retry)]
    if not todo:
        return
    preset, first = models.provenance.preset, models.plans_first
    journal, failures = Journal(out / "answers"), dict[str, Failure]()
    breaker = CircuitBreaker(rule_roles(models), strict=True)
    known = use_known_answers(
        lambda stage, request: failures.get(request.id) if isinstance(request, Task) else None
    )
    watched = models.with_middleware(breaker).with_journal(journal).with_middleware(known)

    def tasks() -> Iterator[Task]:
        return (sample.task(int(digest(str(seed), sample.id)[:15], 16)) for sample in todo)

    models.prepare(roles=("planner",) if first else ROLES)
    if first:  # what is planned is in the journal, and the planner's memory is the others'
        for number, batch in enumerate(batched(tasks(), concurrency)):
            progress("plan", number * concurrency, len(todo))
            plans = zip(batch, watched.planner.plan(batch), strict=True)
            failures |= {task.id: plan for task, plan in plans if isinstance(plan, Failure)}
        models.free_planner()
        models.prepare(roles=("editor", "critic"))
    boards = run(
        tasks(),
        watched.planner,
        watched.editor,
        watched.critic,
        limits=Limits(concurrency, concurrency),
        remote=watched.remote,
        **preset.loop_arguments,
    )
    progress("generate", 0, len(todo))
    for done, board in enumerate(boards, start=1):
        folder = out / FOLDER / board.task.id
        save_storyboard(board, folder)
        if _finished(folder):
            journal.forget(board.task.id)
        progress("generate", done, len(todo))


def _folder(out: Path, sample: Sample) -> Path:
    return out / FOLDER / sample.id


def _failure(folder: Path) -> str | None:
    """Say why a sample's storyboard has no plan, without reading its pictures.

    Raises:
        DatasetError: the storyboard is damaged.
    """
    with _damage(folder) as data:
        failure = data["failure"]
        return None if failure is None else str(failure["message"])


def _finished(folder: Path, retry: bool = False) -> bool:
    """Tell whether a sample's storyboard has a plan, and lacks no picture for want of an answer.

    Raises:
        DatasetError: the storyboard is damaged.
    """
    if not (folder / "storyboard.json").is_file() or _failure(folder) is not None:
        return False
    refused = _refused(folder)
    return not refused if retry else None not in refused


def _refused(folder: Path) -> list[str | None]:
    """List why attempts at steps that were not accepted came to nothing; None is an outage.

    Raises:
        DatasetError: the storyboard is damaged.
    """
    with _damage(folder) as data:
        tried = [attempt for s in data["steps"] if s["status"] not in ACCEPTED for attempt in s["attempts"]]
        failures = [attempt["failure"] for attempt in tried if attempt.get("failure")]
        return [f["message"] if f.get("refused") or f.get("reply") is not None else None for f in failures]


@contextmanager
def _damage(folder: Path) -> Iterator[Any]:
    path = folder / "storyboard.json"
    try:
        yield json.loads(read_file(path))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise DatasetError(f"{path}: damaged: remove {path.parent} and run the same command again") from e
