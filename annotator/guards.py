"""Models that do not answer: which episodes that spoils, and when a run should stop."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from goalreel.annotator.options import Retry
from goalreel.errors import BackendError, UserError
from goalreel.middleware import use_known_answers
from goalreel.models.model_set import ModelSet
from goalreel.types import (
    ANSWER_TYPES,
    ROLE_OF_STAGE,
    Answer,
    Ask,
    Failure,
    Request,
    Role,
    Stage,
    Storyboard,
    task_id_of,
)

IN_A_ROW = 3
"""Failure waves of one model, and episodes in them, after which the model counts as unavailable."""
REFUSED_IN_A_ROW = 20
"""The same where the server refused each request: it works, but it may be asked in a wrong way."""


class ModelUnavailableError(UserError):
    """A model answers no request: whatever else it were asked would be lost too."""


def rule_roles(models: ModelSet) -> frozenset[Role]:
    """Return the roles of fixed rules, which are always available; models without a name may be anything."""
    return frozenset() if models.names is None else models.names.uncached


def spoiled(board: Storyboard, rules: Collection[Role]) -> str | None:
    """Say in one line why a storyboard does not count as done; None where it does.

    It does not where a step without an accepted picture has a model that failed, rather than rejected. Models
    in the roles `rules` are fixed rules: they would fail again.
    """
    if board.failure is not None:
        return board.failure.message
    for number, step in enumerate(board.steps, start=1):
        for attempt in step.attempts if not step.accepted else ():
            failure = attempt.failure
            if failure is not None and ROLE_OF_STAGE[failure.stage] not in rules:
                return f"step {number}: the {ROLE_OF_STAGE[failure.stage]} failed: {failure.message}"
    return None


def to_retry(board: Storyboard, retry: Retry, rules: Collection[Role]) -> bool:
    """True if a recorded episode is to be tried again.

    `failed` are those where a step has no picture or a model failed, `unverified` also those where a step has
    no accepted picture.
    """
    failed = spoiled(board, rules) is not None or any(step.status == "failed" for step in board.steps)
    return failed or (retry == "unverified" and not board.complete)


def accepted_steps(board: Storyboard) -> int:
    """Count the steps with an accepted goal image."""
    return sum(step.accepted for step in board.steps)


@dataclass
class FailureWave:
    """Calls that overlapped in time and brought no answer: one hiccup of a server fails them all."""

    start: int
    """Number of calls that had ended when the first of them had."""
    calls: int = 0
    tasks: set[str] = field(default_factory=set)
    refused: bool = True
    """Every request in it was refused."""


@dataclass
class _Health:
    """Number of ended calls of a model, and its waves of failures since its last answer."""

    ended: int = 0
    waves: list[FailureWave] = field(default_factory=list)


class CircuitBreaker:
    """Middleware that ends a run once a model answers no request several times in a row.

    It may be asked from several threads. Models in the roles `rules` are always available.

    With `strict`, for an evaluation, a model that cannot be called ends the run at once, and a reply that
    cannot be read is an answer, which the model is to be scored by.
    """

    def __init__(self, rules: Collection[Role], *, strict: bool = False) -> None:
        self._rules = rules
        self._strict = strict
        self._health: Mapping[Stage, _Health] = {stage: _Health() for stage in ROLE_OF_STAGE}
        self._lock = Lock()

    def __call__(self, ask: Ask) -> Ask:
        """Return `ask` behind this circuit breaker.

        What it returns raises:
            ModelUnavailableError: the model answers no request any more.
            UserError: with `strict`, the model cannot be called.
        """
        return lambda stage, requests: self._ask(ask, stage, requests)

    def _ask(self, ask: Ask, stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        health = self._health[stage]
        began = health.ended
        try:
            answers = list(ask(stage, requests))
        except BackendError as e:
            message = str(e) or type(e).__name__
            self._count_failure(stage, began, requests, message, refused=False)
            if self._strict:
                raise UserError(
                    f"{message}: finished work is kept; run the same command again to resume"
                ) from e
            raise
        failures = [
            a for a in answers if isinstance(a, Failure) and not (self._strict and a.reply is not None)
        ]
        if failures and len(failures) == len(answers):
            refused = all(failure.refused for failure in failures)
            self._count_failure(stage, began, requests, failures[-1].message, refused=refused)
            return answers
        with self._lock:
            health.ended += 1
            health.waves.clear()
        return answers

    def _count_failure(
        self, stage: Stage, began: int, requests: Sequence[Request], message: str, *, refused: bool
    ) -> None:
        role = ROLE_OF_STAGE[stage]
        if role in self._rules:
            return
        with self._lock:
            health = self._health[stage]
            health.ended += 1
            if not health.waves or began >= health.waves[-1].start:
                health.waves.append(FailureWave(start=health.ended))
            wave = health.waves[-1]
            wave.calls += 1
            wave.tasks.update(map(task_id_of, requests))
            wave.refused &= refused
            waves = [*health.waves]
        answerless = [wave for wave in waves if not wave.refused]
        if _many(answerless, IN_A_ROW) or _many(waves, REFUSED_IN_A_ROW):
            raise ModelUnavailableError(
                f"stopped: the {role} answered none of its last {sum(wave.calls for wave in waves)} calls "
                f"({message.splitlines()[0]}): check it, then run the same command again to resume"
            )


def _many(waves: Sequence[FailureWave], minimum: int) -> bool:
    """True if there are so many waves and tasks: one odd episode that is asked about again is no outage."""
    return len(waves) >= minimum and len(set[str]().union(*(wave.tasks for wave in waves))) >= minimum


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
