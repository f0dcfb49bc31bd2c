"""Models whose bugs cost one episode, not the run."""

import logging
from collections.abc import Sequence
from functools import partial

from goalreel.errors import UserError
from goalreel.middleware import use_known_answers
from goalreel.types import ANSWER_TYPES, Answer, Ask, Failure, Request, Stage, task_id_of

log = logging.getLogger(__name__)


def report_bug(error: Exception, where: str) -> str:
    """Log a bug with its trace, and return the line that a summary has of it."""
    log.error("%s: a bug in goalreel", where, exc_info=error)
    return f"a bug in goalreel: {type(error).__name__}: {error}".splitlines()[0]


class CrashIsolation:
    """Middleware that answers a request which meets a bug with a Failure.

    A batch that meets one is asked again request by request, so that only the odd one is lost. After that no
    model is asked about its task any more.
    """

    def __init__(self) -> None:
        self.bugs: dict[str, str] = {}
        """Task -> the bug that it met, in one line."""

    def __call__(self, ask: Ask) -> Ask:
        """Return `ask` behind this isolation."""
        return use_known_answers(self._known)(partial(self._answers, ask))

    def _known(self, stage: Stage, request: Request) -> Failure | None:
        bug = self.bugs.get(task_id_of(request))
        return None if bug is None else Failure(stage=stage, message=bug)

    def _answers(self, ask: Ask, stage: Stage, requests: Sequence[Request]) -> list[Answer]:
        try:
            answers = list(ask(stage, requests))
            _check(answers, stage, len(requests))
            return answers
        except (UserError, OSError):
            raise
        except Exception as e:  # noqa: BLE001  (what nobody foresaw in one episode must not stop the others)
            error = e
        if len(requests) > 1:
            return [answer for request in requests for answer in self._answers(ask, stage, [request])]
        task = task_id_of(requests[0])
        self.bugs[task] = report_bug(error, task)
        return [Failure(stage=stage, message=self.bugs[task])]


def _check(answers: Sequence[Answer], stage: Stage, requests: int) -> None:
    if len(answers) != requests:
        raise ValueError(f"{requests} requests but {len(answers)} answers")
    answer_type = ANSWER_TYPES[stage]
    for answer in answers:
        if not isinstance(answer, (answer_type, Failure)):
            raise TypeError(f"expected {answer_type.__name__} or Failure, got {type(answer).__name__}")
