"""Models that do not answer: which episodes that spoils, and when a run had better stop."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from goalreel.errors import BackendError, UserError
from goalreel.image import Image
from goalreel.models.registry import STAGES, Role
from goalreel.models.trio import Trio
from goalreel.types import Candidate, Edit, Failure, Plan, Stage, Storyboard, Task, Verdict

type Retry = Literal["failed", "unverified"]

IN_A_ROW = 3
"""Calls of one model without an answer to any request, and episodes in them, that make an outage."""
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


@dataclass(frozen=True)
class _Call:
    """A call that brought no answer: the tasks in it, and whether every request of it was refused."""

    tasks: frozenset[str]
    refused: bool


@dataclass(frozen=True)
class Watched:
    """Planner, editor and critic in one, each asked until it answers nobody several times in a row.

    `plan`, `edit` and `judge` raise Outage then. Models in the roles `fixed` are never out.
    """

    models: Trio
    fixed: Collection[Role]
    _lost: dict[Role, list[_Call]] = field(default_factory=dict)
    """Role -> its last calls, as far back as none was answered."""

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
        try:
            answers = list(model(asked))
        except BackendError as e:
            self._unanswered(role, asked, str(e) or type(e).__name__, refused=False)
            raise
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        if failures and len(failures) == len(answers):
            refused = all(failure.refused for failure in failures)
            self._unanswered(role, asked, failures[-1].message, refused)
        else:
            self._lost.pop(role, None)
        return answers

    def _unanswered(
        self, role: Role, asked: Sequence[Task | Edit | Candidate], message: str, refused: bool
    ) -> None:
        if role in self.fixed:
            return
        lost = self._lost.setdefault(role, [])
        tasks = (request.id if isinstance(request, Task) else request.task_id for request in asked)
        lost.append(_Call(frozenset(tasks), refused))
        if _many([c for c in lost if not c.refused], IN_A_ROW) or _many(lost, REFUSED_IN_A_ROW):
            raise Outage(
                f"stopped: the {role} answered none of its last {len(lost)} calls "
                f"({message.splitlines()[0]}): see to it and run the same command again to go on"
            )


def _many(calls: Sequence[_Call], least: int) -> bool:
    """One odd episode, asked about again and again, is no outage."""
    return len(calls) >= least and len(frozenset().union(*(call.tasks for call in calls))) >= least
