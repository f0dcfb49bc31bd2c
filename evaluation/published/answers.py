"""The answers to a benchmark's samples: made once, kept in OUT/samples/ID, read back one at a time."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from goalreel.batch import Limits, run
from goalreel.errors import BackendError, DatasetError, UserError
from goalreel.evaluation.published.benchmark import BenchAnswer, Sample
from goalreel.files import digest
from goalreel.folder import load_storyboard, save_storyboard
from goalreel.image import Image
from goalreel.models.journal import Journal
from goalreel.models.trio import Trio
from goalreel.progress import OnProgress
from goalreel.types import Candidate, Edit, Failure, Plan, Task, Verdict

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
        """The samples that the Planner gave no plan for -> why.

        Raises:
            DatasetError: a storyboard is damaged.
        """
        reasons = {sample.id: _failure(self._out, sample) for sample in self._samples}
        return {key: reason for key, reason in reasons.items() if reason is not None}


def generate(
    samples: Sequence[Sample],
    models: Trio,
    out: Path,
    *,
    seed: int,
    concurrency: int,
    progress: OnProgress,
) -> None:
    """Make a storyboard for each sample that has none yet, or none with a plan.

    Raises:
        UserError: a model cannot be loaded or called; what is finished stays, and a second run goes on.
        DatasetError: the disk is full, or a storyboard is damaged.
    """
    todo = [s for s in samples if not _planned(out, s)]
    if not todo:
        return
    models.prepare()
    journal, stopping = Journal(out / "answers"), _Stopping(models)
    kept = Trio(stopping, stopping, stopping, models.called, models.remote).kept(journal)
    boards = run(
        (sample.task(_seed(seed, sample)) for sample in todo),
        kept.planner,
        kept.editor,
        kept.critic,
        max_attempts=models.called.max_attempts,
        keep=models.called.keep,
        limits=Limits(concurrency, concurrency),
        remote=kept.remote,
    )
    progress("generate", 0, len(todo))
    for done, board in enumerate(boards, start=1):
        save_storyboard(board, out / FOLDER / board.task.id)
        journal.forget(board.task.id)
        progress("generate", done, len(todo))


def _folder(out: Path, sample: Sample) -> Path:
    return out / FOLDER / sample.id


def _failure(out: Path, sample: Sample) -> str | None:
    """Why a sample's storyboard has no plan, without reading its pictures.

    Raises:
        DatasetError: the storyboard is damaged.
    """
    path = _folder(out, sample) / "storyboard.json"
    try:
        failure = json.loads(path.read_bytes())["failure"]
        return None if failure is None else str(failure["message"])
    except (ValueError, KeyError, TypeError) as e:
        raise DatasetError(f"{path}: damaged: remove {path.parent} and run the same command again") from e


def _planned(out: Path, sample: Sample) -> bool:
    return (_folder(out, sample) / "storyboard.json").is_file() and _failure(out, sample) is None


def _seed(seed: int, sample: Sample) -> int:
    return int(digest(str(seed), sample.id)[:15], 16)


@dataclass(frozen=True)
class _Stopping:
    """Planner, editor and critic in one. One that cannot be called at all ends the run.

    As an answer it would stand in the scores for what the models can do.
    """

    models: Trio

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        return _asked(self.models.planner.plan, tasks)

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        return _asked(self.models.editor.edit, edits)

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        return _asked(self.models.critic.judge, candidates)


def _asked[Q, A](model: Callable[[Sequence[Q]], Sequence[A]], requests: Sequence[Q]) -> Sequence[A]:
    try:
        return model(requests)
    except BackendError as e:
        said = str(e) or type(e).__name__
        raise UserError(f"{said}: what is finished is kept, run the same command again to go on") from e
