"""The examiner: control questions to a run's Critic, mixed into its work on the run's own pictures.

A control costs a call. It is asked after the run's own questions, so it changes no answer to them. What was
asked and answered is kept in a log that is only ever appended to: a run that goes on asks nothing twice.
"""

import json
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, get_args

from goalreel.critics.examination import BLIND_AT, Answers, ControlKind, Examination
from goalreel.errors import UserError
from goalreel.files import find
from goalreel.loop import TASK
from goalreel.types import Answer, Ask, Candidate, Critic, Failure, Plan, Request, Stage, Task, Verdict

if TYPE_CHECKING:
    from goalreel.critics.controls import Control
    from goalreel.critics.known_true import KnownTrue

log = logging.getLogger(__name__)

FOLDER = "examination"
"""The logs' folder, beside the storyboards."""
KINDS: tuple[ControlKind, ...] = get_args(ControlKind.__value__)
_SHARES: dict[ControlKind, float] = dict.fromkeys(KINDS[:-1], 1.0) | {
    "blank": 0.25,
    "opposite_words": 0.5,
    "other_thing": 0.5,
    "damaged": 2.0,
}
"""Shares of the kinds among the questions whose answer is no: editors err in pictures more than in words."""
_TASKS = 16
"""Tasks whose accepted pictures are remembered: those that were asked about last."""
_WAITING = 64
"""Judged candidates that wait to become a question; the newest do first, whose tasks are under way."""


def quota(judged: int) -> int:
    """Count the control questions for so many verdicts: one in five at first, then about 5 % of them.

    >>> quota(1), quota(100), quota(400), quota(4000)
    (1, 20, 30, 210)
    """
    return min(-(-judged // 5), max(20, 10 + judged // 20))


@dataclass
class _TaskMemory:
    plan: Plan | None = None
    accepted: dict[int, Candidate] = field(default_factory=dict)


class Examiner:
    """Asks a Critic control questions, and counts its answers.

    It is middleware (`goalreel.middleware`): `Examiner(...)(ask)`. Without one seam, `note` what is asked
    and answered, ask what is `due`, and `record` the answers. Critics that look at pictures alone
    (`Verdict.pictures_only`) are asked nothing. It may be used from several threads.
    """

    def __init__(
        self,
        critic: str,
        folder: Path | None = None,
        *,
        writer: str = "run",
        known_true: "KnownTrue" = lambda candidate, plan: (),
        control_count: Callable[[int], int] = quota,
    ) -> None:
        """Examine the critic of this name (as `Claim.checked` has it).

        Args:
            critic: the name.
            folder: keeps the logs; None keeps nothing.
            writer: name of this process's log; each of several processes has its own.
            known_true: gives candidates that show what they say. Of those it asks at most one for each ten
                other questions, and `BLIND_AT` before that.
            control_count: verdicts -> control questions whose answer is no, both counted from the start.
        """
        self.critic = critic
        self._path = None if folder is None else folder / f"{writer}.jsonl"
        self._control_count, self._known_true = control_count, known_true
        self._answers: dict[str, tuple[str, str]] = {} if folder is None else _read(folder).get(critic, {})
        """Key of a question -> kind (`judged` for the run's own) and answer."""
        kinds = Counter(kind for kind, _ in self._answers.values())
        self._judged, self._asked_true = kinds["judged"], kinds["true"]
        self._asked_false = kinds.total() - self._judged - self._asked_true
        self._tasks: OrderedDict[str, _TaskMemory] = OrderedDict()
        self._accepted: deque[Candidate] = deque(maxlen=_WAITING)
        self._seen: deque[Candidate] = deque(maxlen=_WAITING)
        self._warned = bool(self.examination.blind)
        self._lock = Lock()

    def __call__(self, ask: Ask) -> Ask:
        """Return `ask` with control questions after the Critic's own."""

        def answer(stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
            answers = ask(stage, requests)
            for request, got in zip(requests, answers, strict=False):
                self.note(request, got)
            if stage == "judge":
                self.ask_due(ask)
            return answers

        return answer

    def note(self, request: Request, answer: Answer) -> None:
        """Take note of a request of the run and its answer."""
        with self._lock:
            if isinstance(request, Task) and isinstance(answer, Plan):
                memory = self._memory(request.id)
                memory.plan, memory.accepted = answer, {}
            if isinstance(request, Candidate) and TASK in request.instruction:
                return  # a whole task's end
            if isinstance(request, Candidate) and isinstance(answer, Verdict) and not answer.pictures_only:
                from goalreel.critics.controls import key_of  # OpenCV, which few commands need

                key = key_of(request, request.task_id, str(request.step))
                if answer.unseen and "unseen" not in self._answers:
                    self._put({"unseen": ("judged", "unseen")})
                if key not in self._answers:
                    self._judged += 1
                    self._put({key: ("judged", "yes" if answer.success else "no")})
                self._seen.append(request)
                if answer.success:
                    self._memory(request.task_id).accepted[request.step] = request
                    self._accepted.append(request)

    def ask_due(self, ask: Ask) -> None:
        """Ask the control questions that are due, and keep the answers."""
        if controls := self.due():
            self.record(controls, _tried(ask, controls))

    def due(self) -> list["Control"]:
        """The control questions that are to be asked now; each is handed out once."""
        controls: list[Control] = []
        with self._lock:
            limit = self._control_count(self._judged)
            while self._asked_false < limit and self._accepted:
                if control := self._next_false(self._accepted.pop()):
                    self._asked_false += 1
                    controls.append(self._handed_out(control))
            while self._asked_true < min(limit, max(BLIND_AT, self._asked_false // 10)) and self._seen:
                if control := self._next_true(self._seen.pop()):
                    self._asked_true += 1
                    controls.append(self._handed_out(control))
        return controls

    def _handed_out(self, control: "Control") -> "Control":
        self._answers[control.key] = control.kind, "none"
        return control

    def record(self, controls: Sequence["Control"], answers: Sequence[Answer]) -> None:
        """Keep the answers to control questions; no readable answer is neither yes nor no."""
        words = [("yes" if a.success else "no") if isinstance(a, Verdict) else "none" for a in answers]
        with self._lock:
            self._put({c.key: (c.kind, word) for c, word in zip(controls, words, strict=True)})
            blind = "" if self._warned else self.examination.blind
            self._warned |= bool(blind)
        if blind:
            log.warning("the critic is blind: %s. Nothing that it accepts is verified.", blind)

    @property
    def examination(self) -> Examination:
        """The Critic's answers so far."""
        return _examination(self.critic, self._answers)

    def _memory(self, task_id: str) -> _TaskMemory:
        memory = self._tasks.setdefault(task_id, _TaskMemory())
        self._tasks.move_to_end(task_id)
        while len(self._tasks) > _TASKS:
            self._tasks.popitem(last=False)
        return memory

    def _next_false(self, candidate: Candidate) -> "Control | None":
        """Make a question of an accepted candidate, of the kind that was asked least for its share."""
        from goalreel.critics.controls import Story

        memory = self._tasks.get(candidate.task_id, _TaskMemory())
        others = {step: c for step, c in memory.accepted.items() if step != candidate.step}
        story = Story(candidate, others, memory.plan.steps if memory.plan else ())
        counts = Counter(kind for kind, _ in self._answers.values())
        for kind in sorted(_SHARES, key=lambda kind: counts[kind] / _SHARES[kind]):
            for control in story.controls(kind):
                if control.key not in self._answers:
                    return control
        return None

    def _next_true(self, candidate: Candidate) -> "Control | None":
        """Find a question whose answer is yes, near what was just judged."""
        from goalreel.critics.controls import Control

        plan = self._tasks.get(candidate.task_id, _TaskMemory()).plan
        controls = (Control("true", known) for known in self._known_true(candidate, plan))
        with suppress(UserError):  # a recording that cannot be read: the run will say so
            return next((control for control in controls if control.key not in self._answers), None)
        return None

    def _put(self, answers: dict[str, tuple[str, str]]) -> None:
        self._answers |= answers
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lines = (
                {"critic": self.critic, "of": k, "kind": kind, "answer": a}
                for k, (kind, a) in answers.items()
            )
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join("\n" + json.dumps(line) for line in lines))  # a kill may have cut the last


def examine(critic: Critic, name: str, candidates: Sequence[Candidate]) -> Examination:
    """Ask a Critic every control question that can be made of candidates that show what they say.

    The candidates themselves are asked as `true`. Those of one task, in order, are one storyboard.
    """
    from goalreel.critics.controls import Control

    examiner = Examiner(name, control_count=lambda judged: len(KINDS) * judged)
    true = [Control("true", candidate) for candidate in candidates]
    examiner.record(true, critic.judge(candidates))
    while True:
        for candidate in candidates:
            examiner.note(candidate, Verdict(success=True))
        if not (controls := examiner.due()):
            return examiner.examination
        examiner.record(controls, critic.judge([control.candidate for control in controls]))


def read_examination(folder: Path, critic: str | None = None) -> Examination | None:
    """Read the examination of a critic, or of the last one; None where there is none.

    `folder` is `FOLDER` beside the storyboards. A line that was cut off by a kill is left out.
    """
    found = _read(folder)
    name = critic or next(reversed(found), None)
    return None if name is None or name not in found else _examination(name, found[name])


def _tried(ask: Ask, controls: Sequence["Control"]) -> Sequence[Answer]:
    """Ask control questions. Whatever goes wrong costs the run nothing."""
    try:
        answers = ask("judge", [control.candidate for control in controls])
        if len(answers) == len(controls):
            return answers
        problem = f"{len(controls)} questions but {len(answers)} answers"
    except Exception as e:  # noqa: BLE001  (a control is no part of the run)
        problem = f"{type(e).__name__}: {e}"
    log.info("control questions were not answered: %s", problem)
    return [Failure(stage="judge", message=problem)] * len(controls)


def _examination(critic: str, answers: dict[str, tuple[str, str]]) -> Examination:
    counts = Counter(list(answers.values()))  # another thread may add some

    def of(kind: str) -> Answers:
        return Answers(yes=counts[kind, "yes"], no=counts[kind, "no"], none=counts[kind, "none"])

    kinds = {kind: answers_to for kind in KINDS if (answers_to := of(kind)).asked}
    own = of("judged")
    return Examination(
        critic=critic, kinds=kinds, judged=own.asked, accepted=own.yes, unseen=counts["judged", "unseen"] > 0
    )


def _read(folder: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """Critic -> key of a question -> kind and answer, from all logs in a folder."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for path in find(folder, "*.jsonl"):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                    critic, key, kind, answer = (
                        str(entry[name]) for name in ("critic", "of", "kind", "answer")
                    )
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
                if kind in ("judged", *KINDS) and answer in ("yes", "no", "none", "unseen"):
                    found[critic] = found.pop(critic, {})  # the last one that was asked is the last
                    found[critic][key] = kind, answer
    return found
