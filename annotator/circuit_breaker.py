"""Models that do not answer: which episodes that spoils, and when a run had better stop."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from goalreel.errors import BackendError, UserError
from goalreel.image import Image
from goalreel.models.registry import ROLES, STAGES, Role
from goalreel.models.trio import Trio
from goalreel.types import Candidate, Edit, Failure, Plan, Stage, Storyboard, Task, Verdict

type Retry = Literal["failed", "unverified"]

IN_A_ROW = 3
"""Waves of one model without an answer to any request, and episodes in them, that make an outage."""
REFUSED_IN_A_ROW = 20
"""The same where the server refused each request by itself: it is well, but may be asked in a wrong way."""
_ROLES: Mapping[Stage, Role] = {stage: role for role, stage in STAGES.items()}


class Outage(UserError):
    """A model answers nobody: whatever else it were asked would be lost too."""


def fixed_roles(models: Trio) -> frozenset[Role]:
    """The roles of rules, whose failures are no outage; models without a name may be anything."""
    return frozenset() if models.names is None else models.names.unkept


def spoiled(board: Storyboard, fixed: Collection[Role]) -> str | None:
    """Why a storyboard is not to be taken for done, in one line; None where it is.

    That is a step without an accepted picture in which a model failed, rather than rejected. Models in the
    roles `fixed` are rules: they would fail again.
    """
    if board.failure is not None:
        return board.failure.message
    for number, step in enumerate(board.steps, start=1):
        for attempt in step.attempts if step.status != "verified" else ():
            lost = attempt.failure
            if lost is not None and _ROLES[lost.stage] not in fixed:
                return f"step {number}: the {_ROLES[lost.stage]} failed: {lost.message}"
    return None


def to_retry(board: Storyboard, retry: Retry, fixed: Collection[Role]) -> bool:
    """Whether a recorded episode is to be tried again: `failed` are those where a step has no picture or a
    model failed, `unverified` also those where a step has no accepted one."""
    failed = spoiled(board, fixed) is not None or any(step.status == "failed" for step in board.steps)
    return failed or (retry == "unverified" and not board.complete)


@dataclass
class _Wave:
    """Calls under way at once that brought no answer: one hiccup of a server costs them all."""

    opened: int
    """How many calls had ended when the first of them had."""
    calls: int = 0
    tasks: set[str] = field(default_factory=set)
    refused: bool = True
    """Every request in it was refused."""


@dataclass
class _Health:
    """A model's calls that have ended, and its last waves, as far back as no call was answered."""

    ended: int = 0
    lost: list[_Wave] = field(default_factory=list)


@dataclass(frozen=True)
class Watched:
    """Planner, editor and critic in one, each asked until it answers nobody several times in a row.

    `plan`, `edit` and `judge` may be called from several threads, and raise Outage then. Models in the roles
    `fixed` are never out.
    """

    models: Trio
    fixed: Collection[Role]
    garbage: bool = True
    """Replies that cannot be read count as none."""
    _health: Mapping[Role, _Health] = field(default_factory=lambda: {role: _Health() for role in ROLES})
    _lock: Lock = field(default_factory=Lock)

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        """Answer i plans task i."""
        return self._ask("planner", self.models.planner.plan, tasks)

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        """Answer i is the picture of edit i."""
        return self._ask("editor", self.models.editor.edit, edits)

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        """Answer i judges candidate i."""
        return self._ask("critic", self.models.critic.judge, candidates)

    def _ask[Q: Task | Edit | Candidate, A: Plan | Image | Verdict](
        self, role: Role, model: Callable[[Sequence[Q]], Sequence[A | Failure]], asked: Sequence[Q]
    ) -> list[A | Failure]:
        health = self._health[role]
        began = health.ended
        try:
            answers = list(model(asked))
        except BackendError as e:
            self._unanswered(role, began, asked, str(e) or type(e).__name__, refused=False)
            raise
        failures = [a for a in answers if isinstance(a, Failure) and (self.garbage or a.reply is None)]
        if failures and len(failures) == len(answers):
            refused = all(failure.refused for failure in failures)
            self._unanswered(role, began, asked, failures[-1].message, refused)
            return answers
        with self._lock:
            health.ended += 1
            health.lost.clear()
        return answers

    def _unanswered(
        self,
        role: Role,
        began: int,
        asked: Sequence[Task | Edit | Candidate],
        message: str,
        refused: bool,
    ) -> None:
        if role in self.fixed:
            return
        with self._lock:
            health = self._health[role]
            health.ended += 1
            if not health.lost or began >= health.lost[-1].opened:
                health.lost.append(_Wave(opened=health.ended))
            wave = health.lost[-1]
            wave.calls += 1
            wave.tasks.update(r.id if isinstance(r, Task) else r.task_id for r in asked)
            wave.refused &= refused
            lost = [*health.lost]
        if _many([w for w in lost if not w.refused], IN_A_ROW) or _many(lost, REFUSED_IN_A_ROW):
            raise Outage(
                f"stopped: the {role} answered none of its last {sum(wave.calls for wave in lost)} calls "
                f"({message.splitlines()[0]}): see to it and run the same command again to go on"
            )


def _many(waves: Sequence[_Wave], least: int) -> bool:
    """One odd episode, asked about again and again, is no outage."""
    return len(waves) >= least and len(set[str]().union(*(wave.tasks for wave in waves))) >= least
