"""Models that do not answer end an evaluation: else their silence would be scored as what they can do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from goalreel.annotator.circuit_breaker import Watched, fixed_roles
from goalreel.errors import BackendError, UserError
from goalreel.image import Image
from goalreel.models.trio import Trio
from goalreel.types import Candidate, Edit, Failure, Plan, Task, Verdict


def stopping(models: Trio) -> Trio:
    """The same models, until one cannot be called or answers nobody several times in a row: a UserError then.

    A reply that cannot be read is an answer, and the model's own.
    """
    one = _Stopping(Watched(models, fixed_roles(models), garbage=False))
    return replace(models, planner=one, editor=one, critic=one, names=models.called)


@dataclass(frozen=True)
class _Stopping:
    """Planner, editor and critic in one."""

    models: Watched

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        with _one_line():
            return self.models.plan(tasks)

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        with _one_line():
            return self.models.edit(edits)

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        with _one_line():
            return self.models.judge(candidates)


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except BackendError as e:
        said = str(e) or type(e).__name__
        raise UserError(f"{said}: what is finished is kept, run the same command again to go on") from e
