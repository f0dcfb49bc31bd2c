"""Models whose bugs cost one episode, not the run."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from goalreel.errors import UserError
from goalreel.image import Image
from goalreel.models.trio import Trio
from goalreel.types import Candidate, Edit, Failure, Plan, Stage, Task, Verdict

log = logging.getLogger(__name__)


def reported(error: Exception, where: str) -> str:
    """Log a bug with its trace, and give the line that a summary has of it."""
    log.error("%s: a bug in goalreel", where, exc_info=error)
    return f"a bug in goalreel: {type(error).__name__}: {error}".splitlines()[0]


@dataclass(frozen=True)
class Guarded:
    """Planner, editor and critic in one. A request that meets a bug is answered with a Failure.

    A batch that meets one is asked again request by request, so that only the odd one is lost; then no model
    is asked about that task any more.
    """

    models: Trio
    bugs: dict[str, str] = field(default_factory=dict)
    """Task -> the bug that it met, in one line."""

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        """Answer i plans task i."""
        return self._ask("plan", Plan, self.models.planner.plan, tasks)

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        """Answer i is the picture of edit i."""
        return self._ask("edit", Image, self.models.editor.edit, edits)

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        """Answer i judges candidate i."""
        return self._ask("judge", Verdict, self.models.critic.judge, candidates)

    def _ask[Q: Task | Edit | Candidate, A: Plan | Image | Verdict](
        self,
        stage: Stage,
        kind: type[A],
        model: Callable[[Sequence[Q]], Sequence[A | Failure]],
        asked: Sequence[Q],
    ) -> list[A | Failure]:
        known = [self.bugs.get(_task(request)) for request in asked]
        fresh = [request for request, bug in zip(asked, known, strict=True) if bug is None]
        answers = iter(self._answers(stage, kind, model, fresh) if fresh else ())
        return [Failure(stage=stage, message=bug) if bug else next(answers) for bug in known]

    def _answers[Q: Task | Edit | Candidate, A: Plan | Image | Verdict](
        self,
        stage: Stage,
        kind: type[A],
        model: Callable[[Sequence[Q]], Sequence[A | Failure]],
        asked: Sequence[Q],
    ) -> list[A | Failure]:
        try:
            answers = list(model(asked))
            _check(answers, kind, len(asked))
            return answers
        except (UserError, OSError):
            raise
        except Exception as e:  # noqa: BLE001  (what nobody foresaw in one episode must not stop the others)
            error = e
        if len(asked) > 1:
            return [answer for one in asked for answer in self._answers(stage, kind, model, [one])]
        task = _task(asked[0])
        self.bugs[task] = reported(error, task)
        return [Failure(stage=stage, message=self.bugs[task])]


def _task(request: Task | Edit | Candidate) -> str:
    return request.id if isinstance(request, Task) else request.task_id


def _check[A](answers: Sequence[A | Failure], kind: type[A], asked: int) -> None:
    if len(answers) != asked:
        raise ValueError(f"{asked} requests but {len(answers)} answers")
    for answer in answers:
        if not isinstance(answer, (kind, Failure)):
            raise TypeError(f"expected {kind.__name__} or Failure, got {type(answer).__name__}")
