"""The examination of a Critic: control questions, mixed into its work on a run's own pictures.

They are asked after the run's own questions, so they change no answer to them. What was asked and answered is
kept in a log that is only ever appended to: a run that goes on asks nothing twice.
"""

import json
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from goalreel import loop
from goalreel.critics.examination import BLIND_AT, KINDS, Examination, examination_of, read_answers
from goalreel.errors import UserError
from goalreel.terms import ControlKind
from goalreel.types import Answer, Ask, Candidate, Critic, Plan, Request, Stage, Task, Verdict

if TYPE_CHECKING:
    from goalreel.critics.controls import Control
    from goalreel.critics.known_true import KnownTrue

log = logging.getLogger(__name__)

_SHARES: dict[ControlKind, float] = dict.fromkeys(KINDS[:-1], 1.0) | {
    "blank": 0.25,
    "opposite_words": 0.5,
    "other_thing": 0.5,
    "damaged": 2.0,
}
"""Shares of the kinds among the questions whose answer is no: editors err in pictures more than in words."""
_TASKS, _WAITING = 16, 64
"""Tasks whose accepted pictures are remembered, the last that were asked about, and judged candidates that
wait to become a question, the newest first: their tasks are under way."""


def quota(judged: int) -> int:
    """Count the control questions for so many verdicts: one in five at first, then about 5 % of them.

    >>> quota(1), quota(100), quota(400), quota(4000)
    (1, 20, 29, 209)
    """
    return min(-(-judged // 5), max(20, 9 + judged // 20))  # with those whose answer is yes, 8 % at 400


@dataclass
class _TaskMemory:
    plan: Plan | None = None
    accepted: dict[int, Candidate] = field(default_factory=dict)


class Examiner:
    """Asks a Critic control questions, and counts its answers.

    It is middleware (`goalreel.middleware`): `Examiner(...)(ask)`. Elsewhere, `note` what is asked and
    answered, and `ask_due`. Critics that look at pictures alone (`Verdict.pictures_only`) are asked nothing.
    It may be used from several threads.
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
        """
        Args:
            critic: its name, as `Claim.checked` has it.
            folder: keeps the logs; None keeps nothing.
            writer: name of this process's log; each of several processes has its own.
            known_true: gives candidates that show what they say. Of those it asks at most one for each ten
                other questions, and `BLIND_AT` before that.
            control_count: verdicts -> control questions whose answer is no, both counted from the start.
        """
        self.critic, self._control_count, self._known_true = critic, control_count, known_true
        self._path = None if folder is None else folder / f"{writer}.jsonl"
        self._answers: dict[str, tuple[str, str]] = (
            {} if folder is None else read_answers(folder).get(critic, {})
        )
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
            if isinstance(request, Candidate) and loop.is_whole(request):
                return
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
        """Ask the control questions that are due, and keep the answers; what goes wrong costs nothing."""
        if not (controls := self.due()):
            return
        try:
            answers = ask("judge", [control.candidate for control in controls])
        except Exception as e:  # noqa: BLE001  (a control is no part of the run)
            log.info("control questions were not answered: %s: %s", type(e).__name__, e)
            answers = ()
        self.record(controls, answers)

    def due(self) -> list["Control"]:
        """The control questions that are to be asked now; each is handed out once."""
        controls: list[Control] = []
        with self._lock:
            limit = self._control_count(self._judged)
            while self._asked_false < limit and self._accepted:
                if control := self._next_false(self._accepted.pop()):
                    self._asked_false += 1
                    self._answers[control.key] = control.kind, "none"
                    controls.append(control)
        return [*controls, *iter(self._next_true, None)]

    def record(self, controls: Sequence["Control"], answers: Sequence[Answer]) -> None:
        """Keep the answers to control questions; all are unreadable where there is not one to each."""
        words = [("yes" if a.success else "no") if isinstance(a, Verdict) else "none" for a in answers]
        if len(words) != len(controls):
            words = ["none"] * len(controls)
        with self._lock:
            self._put({c.key: (c.kind, word) for c, word in zip(controls, words, strict=True)})
            blind = "" if self._warned else self.examination.blind
            self._warned |= bool(blind)
        if blind:
            log.warning("the critic is blind: %s. Nothing that it accepts is verified.", blind)

    @property
    def examination(self) -> Examination:
        """The Critic's answers so far."""
        return examination_of(self.critic, self._answers)

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

    def _next_true(self) -> "Control | None":
        """Find a question whose answer is yes, if one is due, near what was just judged.

        Frames are decoded without the lock.
        """
        from goalreel.critics.controls import Control

        while True:
            with self._lock:
                limit = min(self._control_count(self._judged), max(BLIND_AT, self._asked_false // 10))
                if self._asked_true >= limit or not self._seen:
                    return None
                self._asked_true += 1
                candidate = self._seen.pop()
                plan = self._tasks.get(candidate.task_id, _TaskMemory()).plan
            with suppress(UserError, OSError):  # a recording that cannot be read: the run will say so
                for control in (Control("true", known) for known in self._known_true(candidate, plan)):
                    with self._lock:
                        if control.key not in self._answers:
                            self._answers[control.key] = control.kind, "none"
                            return control
            with self._lock:
                self._asked_true -= 1

    def _put(self, answers: dict[str, tuple[str, str]]) -> None:
        self._answers |= answers
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                for key, (kind, answer) in answers.items():  # a new line first: a kill may have cut the last
                    line = {"critic": self.critic, "of": key, "kind": kind, "answer": answer}
                    file.write("\n" + json.dumps(line))


def examine(critic: Critic, name: str, candidates: Sequence[Candidate]) -> Examination:
    """Ask a Critic every control question that can be made of candidates that show what they say.

    The candidates themselves are asked as `true`. Those of one task, in order, are one storyboard.
    """
    from goalreel.critics.controls import Control

    examiner = Examiner(name, control_count=lambda judged: len(KINDS) * judged)
    examiner.record([Control("true", candidate) for candidate in candidates], critic.judge(candidates))
    while True:
        for candidate in candidates:
            examiner.note(candidate, Verdict(success=True))
        if not (controls := examiner.due()):
            return examiner.examination
        examiner.record(controls, critic.judge([control.candidate for control in controls]))
