"""Models behind what keeps a long run going: a journal, a circuit breaker, and isolation of crashes.

No record holds the address of a server: a dataset is pushed, and another address is the same run.
"""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import batched
from threading import Lock
from urllib.parse import urlsplit

from pydantic import BaseModel

from goalreel.annotator.options import Retry
from goalreel.claims import attributed, makers
from goalreel.drivers import Limits, as_failure, run
from goalreel.errors import BackendError, UserError
from goalreel.loop import OnRejected
from goalreel.middleware import Middleware, use_known_answers
from goalreel.models import model_set, names, presets
from goalreel.models.journal import Journal
from goalreel.types import (
    ANSWER_TYPES,
    ROLE_OF_STAGE,
    ROLES,
    Answer,
    Ask,
    Failure,
    Plan,
    Request,
    Role,
    Stage,
    Storyboard,
    Task,
    task_id_of,
)

log = logging.getLogger(__name__)

_URL = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]*[^\s'\"<>.,:;)\]]")
_IP = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b")
_SERVER = "the server"
IN_A_ROW = 3
"""Failure waves of one model, and episodes in them, after which the model counts as unavailable."""
REFUSED_IN_A_ROW = 20
"""The same where the server refused each request: it works, but it may be asked in a wrong way."""
GIVEN_UP = 2 * IN_A_ROW
"""Calls in a row about one task without a usable answer, after which a model is not asked about it again:
more than the attempts at one step."""


class ModelUnavailableError(UserError):
    """A model answers no request: whatever else it were asked would be lost too."""


def rule_roles(models: model_set.ModelSet) -> frozenset[Role]:
    """Return the roles of fixed rules, which are always available; models without a name may be anything."""
    return frozenset() if models.names is None else models.names.uncached


def watches(models: model_set.ModelSet) -> bool:
    """True if the planner is a chat model that watches recordings."""
    return models.names is not None and models.names.preset.model_name("planner").kind == "watch"


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
    if board.end is not None and isinstance(board.end.answer, Failure) and "critic" not in rules:
        return board.end_doubt
    return None


def to_retry(board: Storyboard, retry: Retry, rules: Collection[Role]) -> bool:
    """True if a recorded episode is to be tried again.

    `failed` are those where a step has no picture or a model failed, `rejected` also those where a step has
    no accepted picture.
    """
    failed = spoiled(board, rules) is not None or any(step.status == "failed" for step in board.steps)
    return failed or (retry == "rejected" and not board.complete)


def accepted_steps(board: Storyboard) -> int:
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

    It may be asked from several threads. Models in the roles `rules` are always available. In a run of fewer
    `tasks` than it takes, all of them are enough. About one task a model is given up before: the last failure
    is its answer from then on.

    With `strict`, for an evaluation, a model that cannot be called ends the run at once, and a reply that
    cannot be read is an answer, which the model is to be scored by. Nothing is given up.
    """

    def __init__(
        self, rules: Collection[Role], *, strict: bool = False, tasks: int = REFUSED_IN_A_ROW
    ) -> None:
        self._rules = rules
        self._strict = strict
        self._tasks = tasks
        self._failures: dict[tuple[Stage, str, int], list[Failure]] = {}
        """Failures in a row of a model, by stage, task and editor."""
        self._health: Mapping[Stage, _Health] = {stage: _Health() for stage in ROLE_OF_STAGE}
        self._lock = Lock()

    def __call__(self, ask: Ask) -> Ask:
        """Return `ask` behind this circuit breaker.

        Raises:
            ModelUnavailableError: when called, a model answers no request any more.
        """
        return use_known_answers(self._given_up)(partial(self._ask, ask))

    def _given_up(self, stage: Stage, request: Request) -> Failure | None:
        failures = self._failures.get(_about(stage, request), [])
        return failures[-1] if len(failures) >= GIVEN_UP else None

    def _note(self, stage: Stage, request: Request, answer: Answer) -> None:
        """Count the failures in a row about a task. One that was refused tells nothing about the next."""
        if not isinstance(answer, Failure):
            self._failures.pop(_about(stage, request), None)
        elif not (self._strict or answer.refused or ROLE_OF_STAGE[stage] in self._rules):
            failures = self._failures.setdefault(_about(stage, request), [])
            failures.append(answer)
            if len(failures) == GIVEN_UP:
                log.warning(
                    "%s: the %s gave no usable answer %d times in a row (%s): it is not asked about it again",
                    task_id_of(request), ROLE_OF_STAGE[stage], GIVEN_UP, answer.message,
                )  # fmt: skip

    def _ask(self, ask: Ask, stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        health = self._health[stage]
        began = health.ended
        try:
            answers = list(ask(stage, requests))
        except BackendError as e:
            message = str(e) or type(e).__name__
            for request in requests:
                self._note(stage, request, as_failure(stage, e))
            self._count_failure(stage, began, requests, message, refused=False)
            if self._strict:
                raise UserError(
                    f"{message}: finished work is kept; run the same command again to resume"
                ) from e
            raise
        for request, answer in zip(requests, answers, strict=False):
            self._note(stage, request, answer)
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
        if ROLE_OF_STAGE[stage] in self._rules:
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
        if self._many([w for w in waves if not w.refused], IN_A_ROW) or self._many(waves, REFUSED_IN_A_ROW):
            raise ModelUnavailableError(
                f"stopped: the {ROLE_OF_STAGE[stage]} answered none of its last "
                f"{sum(wave.calls for wave in waves)} calls ({message.splitlines()[0]}): check it, then run "
                "the same command again to resume"
            )

    def _many(self, waves: Sequence[FailureWave], minimum: int) -> bool:
        """True if there are so many waves and tasks: one odd episode that is asked again is no outage."""
        tasks = set[str]().union(*(wave.tasks for wave in waves))
        return len(waves) >= minimum and len(tasks) >= min(minimum, self._tasks)


def _about(stage: Stage, request: Request) -> tuple[Stage, str, int]:
    return stage, task_id_of(request), getattr(request, "editor", 0)


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
        return use_known_answers(self._known)(partial(self._answers, ask))

    def _known(self, stage: Stage, request: Request) -> Failure | None:
        bug = self.bugs.get(task_id_of(request))
        return None if bug is None else Failure(stage=stage, message=bug)

    def _answers(self, ask: Ask, stage: Stage, requests: Sequence[Request]) -> list[Answer]:
        try:
            answers = list(ask(stage, requests))
            if len(answers) != len(requests):
                raise ValueError(f"{len(requests)} requests but {len(answers)} answers")
            for answer in answers:
                if not isinstance(answer, (ANSWER_TYPES[stage], Failure)):
                    raise TypeError(f"expected {ANSWER_TYPES[stage].__name__}, got {type(answer).__name__}")
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


class GuardedModels:
    """A set of models that makes storyboards of many tasks, where no task may cost another one."""

    def __init__(
        self,
        models: model_set.ModelSet,
        journal: Journal,
        limits: Limits,
        on_rejected: OnRejected,
        tasks: int,
        plans: Mapping[str, Plan] | None = None,
        *,
        confirm: bool = False,
        examiner: Middleware = lambda ask: ask,
    ) -> None:
        """Guard `models` for a run of so many `tasks`; `plans` (task -> plan) are known and not asked for.

        `confirm`: the Critic is asked about the end of each task.
        """
        self.plans: dict[str, Plan | Failure] = dict(plans or {})
        """Known plans, and failures of those that were made first: none is asked for again."""
        self._models, self._limits, self._on_rejected = models, limits, on_rejected
        self._confirm = confirm
        self._rules, self._isolation = rule_roles(models), CrashIsolation()
        self._guarded = models.with_middleware(
            examiner,
            CircuitBreaker(self._rules, tasks=tasks),
            self._isolation,
            journal.middleware(models.provenance.identified().keys()),
            use_known_answers(self._known_plan),
        )

    def _known_plan(self, stage: Stage, request: Request) -> Plan | Failure | None:
        return self.plans.get(request.id) if isinstance(request, Task) else None

    def plan_first(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Make all plans, which the journal keeps, and yield the tasks."""
        for task, plan in self.plans_of(tasks):
            if isinstance(plan, Failure):
                self.plans[task.id] = plan
            yield task

    def plans_of(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Plan | Failure]]:
        """Yield each task with its plan, which the journal keeps."""
        for batch in batched(tasks, self._limits.batch_size):
            try:
                plans = self._guarded.planner.plan(batch)
            except BackendError as e:
                plans = [as_failure("plan", e)] * len(batch)
            yield from zip(batch, plans, strict=True)

    def boards(self, tasks: Iterable[Task], num_draws: int = 1) -> Iterator[Storyboard]:
        """Yield the storyboard of each task as soon as it is finished, the best of `num_draws`."""
        guarded = self._guarded
        return run(
            tasks,
            guarded.planner,
            guarded.editor,
            guarded.critic,
            limits=self._limits,
            remote=guarded.remote,
            num_draws=num_draws,
            **self._models.loop_arguments(self._on_rejected, confirm=self._confirm),
        )

    def problem(self, board: Storyboard) -> str | None:
        """Say in one line why a storyboard does not count as done; None where it does."""
        return self._isolation.bugs.get(board.task.id) or spoiled(board, self._rules)

    def signed(self, board: Storyboard) -> Storyboard:
        """The storyboard as it is kept: with the models' names in its claims, and no address."""
        provenance = self._models.provenance
        return attributed(_without_addresses(board, provenance.preset), makers(provenance.identities().get))


def _without_addresses(board: Storyboard, preset: presets.Preset) -> Storyboard:
    """A storyboard whose failures name no URL, no IP address and no host of the models of `preset`."""
    hosts = [host for role in ROLES for host in _hosts(preset.model_name(role))]

    def cleaned[T: BaseModel](place: T, failure: Failure | None, field: str) -> T:
        if failure is None:
            return place
        text = _IP.sub(_SERVER, _URL.sub(_SERVER, failure.message))
        for host in hosts:
            text = re.sub(
                rf"(?<![\w.-]){re.escape(host)}(:\d+)?(?![\w.-])", _SERVER, text, flags=re.IGNORECASE
            )
        return place.model_copy(update={field: failure.model_copy(update={"message": text})})

    steps = tuple(
        step.model_copy(update={"attempts": tuple(cleaned(a, a.failure, "failure") for a in step.attempts)})
        for step in board.steps
    )
    end = board.end
    if end is not None and isinstance(end.answer, Failure):
        end = cleaned(end, end.answer, "answer")
    return board.model_copy(update={"steps": steps, "end": end})


def _hosts(name: names.ModelName) -> list[str]:
    if name.parts:
        return [host for part in name.parts for host in _hosts(part)]
    address = _URL.search(name.target)
    host = urlsplit(address[0]).hostname if address else None
    return [host] if host else []
