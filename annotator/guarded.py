"""Models behind what keeps a long run going: a journal, a circuit breaker, and isolation of crashes.

No record holds the address of a server: a dataset is pushed, and another address is the same run.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import batched
from urllib.parse import urlsplit

from goalreel.annotator.guards import CircuitBreaker, CrashIsolation, rule_roles, spoiled
from goalreel.claims import attributed, makers
from goalreel.drivers import Limits, as_failure, run
from goalreel.errors import BackendError
from goalreel.loop import LoopArguments, OnUnverified
from goalreel.middleware import use_known_answers
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.types import ROLES, Attempt, Failure, Plan, Request, Stage, Storyboard, Task

_URL = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]*[^\s'\"<>.,:;)\]]")
_IP = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b")
_SERVER = "the server"


class GuardedModels:
    """A set of models that makes storyboards of many tasks, where no task may cost another one."""

    def __init__(
        self,
        models: ModelSet,
        journal: Journal,
        limits: Limits,
        on_unverified: OnUnverified,
        plans: Mapping[str, Plan] | None = None,
    ) -> None:
        """Guard `models`; `plans` (task -> plan) are known and not asked for."""
        self.plans: dict[str, Plan | Failure] = dict(plans or {})
        """Known plans, and failures of those that were made first: none is asked for again."""
        self._models, self._limits, self._on_unverified = models, limits, on_unverified
        self._rules, self._isolation = rule_roles(models), CrashIsolation()
        self._guarded = models.with_middleware(
            CircuitBreaker(self._rules),
            self._isolation,
            journal.middleware(models.provenance.identified().keys()),
            use_known_answers(self._known_plan),
        )

    def _known_plan(self, stage: Stage, request: Request) -> Plan | Failure | None:
        return self.plans.get(request.id) if isinstance(request, Task) else None

    def plan_first(self, tasks: Iterable[Task], on_planned: Callable[[Sequence[Task]], None]) -> None:
        """Make all plans, which the journal keeps, and give the planner's memory to the other models."""
        for batch in batched(tasks, self._limits.batch_size):
            try:
                plans = self._guarded.planner.plan(batch)
            except BackendError as e:
                plans = [as_failure("plan", e)] * len(batch)
            for task, plan in zip(batch, plans, strict=True):
                if isinstance(plan, Failure):
                    self.plans[task.id] = plan
            on_planned(batch)
        self._models.free_planner()

    def boards(self, tasks: Iterable[Task]) -> Iterator[Storyboard]:
        """Yield the storyboard of each task as soon as it is finished.

        Raises:
            ModelUnavailableError: a model answers no request any more.
        """
        preset, guarded = self._models.provenance.preset, self._guarded
        loop: LoopArguments = {**preset.loop_arguments, "on_unverified": self._on_unverified}
        return run(
            tasks,
            guarded.planner,
            guarded.editor,
            guarded.critic,
            limits=self._limits,
            remote=guarded.remote,
            **loop,
        )

    def problem(self, board: Storyboard) -> str | None:
        """Say in one line why a storyboard does not count as done; None where it does."""
        return self._isolation.bugs.get(board.task.id) or spoiled(board, self._rules)

    def signed(self, board: Storyboard) -> Storyboard:
        """The storyboard as it is kept: with the models' names in its claims, and no address."""
        provenance = self._models.provenance
        return attributed(_without_addresses(board, provenance.preset), makers(provenance.identities().get))


def _without_addresses(board: Storyboard, preset: Preset) -> Storyboard:
    """A storyboard whose failures name no URL, no IP address and no host of the models of `preset`."""
    hosts = [host for role in ROLES for host in _hosts(preset.model_name(role))]
    steps = (
        step.model_copy(update={"attempts": tuple(_cleaned(attempt, hosts) for attempt in step.attempts)})
        for step in board.steps
    )
    return board.model_copy(update={"steps": tuple(steps)})


def _hosts(name: ModelName) -> list[str]:
    if name.parts:
        return [host for part in name.parts for host in _hosts(part)]
    address = _URL.search(name.target)
    host = urlsplit(address[0]).hostname if address else None
    return [host] if host else []


def _cleaned(attempt: Attempt, hosts: Sequence[str]) -> Attempt:
    if attempt.failure is None:
        return attempt
    text = _IP.sub(_SERVER, _URL.sub(_SERVER, attempt.failure.message))
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(:\d+)?(?![\w.-])", _SERVER, text, flags=re.IGNORECASE)
    return attempt.model_copy(update={"failure": attempt.failure.model_copy(update={"message": text})})
