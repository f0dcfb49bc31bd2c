"""The examination of a Critic: control questions, mixed into its work on a run's own pictures.

They are asked after the run's own questions, so they change no answer to them. What was asked and answered is
kept in a log that is only ever appended to: a run that goes on asks nothing twice.
"""

import json
import logging
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from goalreel import claims, files, loop
from goalreel.errors import UserError
from goalreel.settings import Frozen
from goalreel.terms import ControlKind
from goalreel.types import (
    WORDS,
    Answer,
    Ask,
    Candidate,
    Critic,
    Plan,
    Request,
    Stage,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
    Word,
)

if TYPE_CHECKING:
    from goalreel.critics.controls import Control
    from goalreel.critics.known_true import KnownTrue

log = logging.getLogger(__name__)

type Interval = tuple[float, float]

LIMIT = 0.1
"""The most that may be untrue of what a Critic accepted, by the upper end of the interval, for its yes to be
called verified. Policies bear about one wrong demonstration in ten, and a hundred steps' questions show no
stricter limit."""
ENOUGH, KINDS_ENOUGH = 20, 3
"""Control questions whose answer is no, and kinds of them, at least: one easy kind examines nothing."""
HARDER = 1.5
"""Factor of the yes-rate on what is false, by judgement: an editor's own errors are harder to see.

Too small for nano's Critic, which accepted 62 of its editor's 166 wrong pictures and 8 of 115 controls. But
all rejected ones are taken for wrong, of which 75 of 179 were right (dev/LOG.md, 2026-11-30)."""
MOST_WEIGHT = 30
"""Weight of all questions in answers, at most: more easy ones tell no more of errors that are harder."""
_DRAWS = 4_000
BLIND_AT = 3
"""Answers after which one that is always yes is blind."""
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
_TASKS, _WAITING = 16, 64
"""Tasks whose accepted pictures are remembered, the last that were asked about, and judged candidates that
wait to become a question, the newest first: their tasks are under way."""


class Answers(Frozen):
    """Answers to one kind of control question."""

    yes: int = 0
    no: int = 0
    none: int = 0
    """Questions without a readable answer. They count as neither."""

    @property
    def asked(self) -> int:
        """Number of questions."""
        return self.yes + self.no + self.none

    @property
    def answered(self) -> int:
        """Number of questions with a yes or a no."""
        return self.yes + self.no


class Examination(Frozen):
    """A Critic's answers to control questions, beside its verdicts on the run's own pictures."""

    critic: str
    """Its name, as `Claim.checked` has it."""
    kinds: Mapping[ControlKind, Answers] = {}
    judged: int = 0
    """Pictures of the run that it compared with the words."""
    accepted: int = 0
    """Those of them that it accepted."""
    unseen: bool = False
    """Its server showed that it was not given the pictures (`Verdict.unseen`)."""

    @property
    def shown(self) -> str:
        """Its name for a reader, without options."""
        return self.critic.partition("?")[0]

    @cached_property
    def on_false(self) -> Answers:
        """Answers to questions whose true answer is no."""
        each = [answers for kind, answers in self.kinds.items() if kind != "true"]
        total = {name: sum(getattr(answers, name) for answers in each) for name in Answers.model_fields}
        return Answers(**total)

    @cached_property
    def on_true(self) -> Answers:
        """Answers to questions whose true answer is yes."""
        return self.kinds.get("true", Answers())

    @property
    def asked(self) -> int:
        """Number of control questions."""
        return self.on_false.asked + self.on_true.asked

    @cached_property
    def yes_on_false(self) -> Interval:
        """95 % interval of the yes-rate on what is false."""
        return binomial_interval(self.on_false.yes, self.on_false.answered)

    @cached_property
    def no_on_true(self) -> Interval:
        """95 % interval of the no-rate on what is true."""
        return binomial_interval(self.on_true.no, self.on_true.answered)

    @cached_property
    def untrue(self) -> Interval:
        """95 % interval of the share of accepted pictures that are untrue; (0, 1) where nothing is known.

        Each end is a quantile of draws of all counts at once, each drawn as Clopper and Pearson's end on its
        side. Of a wrong picture the upper end knows the chance to be accepted, and takes all rejected ones
        for wrong: that gives the number of wrong ones among the accepted. Without an answer to what is true
        nothing is known from below, so all of the 5 % are left out above.
        """
        false, true, rejected = self.on_false, self.on_true, self.judged - self.accepted
        if not self.accepted or not false.answered:
            return 0.0, 1.0
        rng = np.random.default_rng(0)
        weight = min(1.0, MOST_WEIGHT / false.answered)
        f = np.minimum(HARDER * _draws(rng, weight * false.yes + 1, weight * false.no), 1 - 1e-6)
        wrong = rng.poisson(rng.gamma(rejected + 1, size=_DRAWS) * f / (1 - f))
        tail = 0.025 if true.yes else 0.05
        highest = min(1.0, float(np.quantile(wrong, 1 - tail)) / self.accepted)
        f, s = _draws(rng, false.yes, false.no + 1), _draws(rng, true.yes, true.no + 1)
        a = _draws(rng, self.accepted + 1, rejected)
        share = np.where((f < a) & (a < s), f * (s - a) / (a * np.maximum(s - f, 1e-6)), 0.0)
        lowest = float(np.quantile(rng.poisson(share * self.accepted), tail)) / self.accepted
        return min(lowest, highest), highest

    @property
    def blind(self) -> str:
        """Say in one line why the Critic cannot have looked; empty where nothing shows that."""
        false, true = self.on_false, self.on_true
        if self.unseen:
            return f"{self.shown} was not given the pictures, by its server's count of tokens"
        if (blank := self.kinds.get("blank")) and blank.yes:
            return f"{self.shown} accepted a blank picture"
        if false.yes >= BLIND_AT and not false.no:
            return f"{self.shown} said yes to each of {false.yes} things that are false"
        if true.no >= BLIND_AT and not true.yes:
            return f"{self.shown} said no to each of {true.no} things that are true"
        return ""

    @property
    def open(self) -> str:
        """Say in words why its yes is not called verified; empty where it is."""
        if reason := self.blind or self.too_few:
            return reason
        return f"more than {LIMIT:.0%} of what it accepted may be untrue" if self.untrue[1] > LIMIT else ""

    @property
    def too_few(self) -> str:
        """Say what is missing from an examination; empty where enough was asked."""
        number = self.on_false.answered
        if number < ENOUGH:
            return f"it answered {number} of at least {ENOUGH} control questions"
        if sum(kind != "true" and a.answered > 0 for kind, a in self.kinds.items()) < KINDS_ENOUGH:
            return f"its {number} control questions are of fewer than {KINDS_ENOUGH} kinds"
        return ""

    @property
    def passed(self) -> bool:
        """Acceptance by the Critic may be called verified."""
        return not self.open

    @property
    def line(self) -> str:
        """Result of the examination in one or two sentences, for a reader."""
        false, true, low, high = self.on_false, self.on_true, *self.untrue
        if self.too_few and not self.blind:
            return f"{self.shown} was not examined: {self.too_few}."
        rate = f"It said yes to {false.yes} of {false.answered} false"
        if true.answered:
            rate += f" and no to {true.no} of {true.answered} true"
        rate += " control questions"
        if unread := false.none + true.none:
            rate += f" ({unread} without an answer)"
        result = f"did not pass its examination: {self.open}" if self.open else "passed its examination"
        return (
            f"{self.shown} {result}. {rate}; "
            f"of {self.accepted} accepted pictures, {100 * low:.0f} to {100 * high:.0f} % are untrue."
        )

    def summary(self) -> dict[str, Any]:
        """Everything as JSON values, with what is derived."""
        kinds = {kind: {"asked": a.asked, **a.model_dump()} for kind, a in self.kinds.items()}
        derived = ("yes_on_false", "no_on_true", "untrue", "passed", "blind", "open", "line")
        counts: dict[str, Any] = {"critic": self.critic, "judged": self.judged, "accepted": self.accepted}
        return {**counts, "kinds": kinds, **{name: getattr(self, name) for name in derived}}


def verifies(looks: claims.Claim | None, examination: Examination | None) -> bool:
    """Tell whether a person checked an accepted goal image, or the Critic that passed `examination`."""
    checked = looks.checked if looks else None
    passed = examination is not None and examination.passed and examination.critic == checked
    return passed or checked == claims.PERSON


def word(step: "StoryboardStep", examination: Examination | None) -> Word:
    """Name for a reader what a step is worth: its status, `verified` for an accepted one, or `in doubt`."""
    if step.in_doubt:
        return "in doubt"
    is_verified = step.status == "accepted" and verifies(step.claims.looks, examination)
    return "verified" if is_verified else step.status


def worst_word(board: "Storyboard", examination: Examination | None) -> Word:
    """Name the least that a step of a storyboard, or its end, is worth; `text` if all is in words."""
    if board.failure is not None:
        return "failed"
    words = {word(step, examination) for step in board.steps}
    if board.end_doubt:
        words.add("in doubt")
    return next((known for known in WORDS if known in words), "text")


def _draws(rng: np.random.Generator, yes: float, no: float) -> NDArray[np.float64]:
    """Draw a rate of yes by counts, (_DRAWS,): 0 where there is no yes, else 1 where there is no no."""
    return rng.beta(yes, no, _DRAWS) if yes and no else np.full(_DRAWS, float(yes > 0))


def binomial_interval(hits: int, count: int, tail: float = 0.025) -> Interval:
    """Clopper and Pearson's interval of a rate, with `tail` of the probability left out on either side.

    >>> [round(end, 3) for end in binomial_interval(0, 20)]
    [0.0, 0.168]
    >>> binomial_interval(0, 0)
    (0.0, 1.0)
    """
    low = 0.0 if hits == 0 else 1 - _upper_end(count - hits, count, tail)
    return low, 1.0 if hits == count else _upper_end(hits, count, tail)


def _upper_end(hits: int, count: int, tail: float) -> float:
    """The rate at which `hits` or fewer of `count` have the probability `tail`."""
    k = np.arange(hits + 1)
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, count + 1)))))
    ways = logs[count] - logs[k] - logs[count - k]
    low, high = hits / count, 1.0
    for _ in range(40):
        rate = (low + high) / 2
        chance = np.exp(ways + k * math.log(rate) + (count - k) * math.log1p(-rate)).sum()
        low, high = (rate, high) if chance > tail else (low, rate)
    return high


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
            if isinstance(request, Candidate) and loop.TASK in request.instruction:
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


def read_examination(folder: Path, critic: str | None = None) -> Examination | None:
    """Read the examination of a critic, or of the last one; None where there is none.

    `folder` is `FOLDER` beside the storyboards. A line that was cut off by a kill is left out.
    """
    found = _read(folder)
    name = critic or next(reversed(found), None)
    return None if name is None or name not in found else _examination(name, found[name])


def _examination(critic: str, answers: dict[str, tuple[str, str]]) -> Examination:
    counts = Counter(list(answers.values()))  # another thread may add some

    def of(kind: str) -> Answers:
        return Answers(yes=counts[kind, "yes"], no=counts[kind, "no"], none=counts[kind, "none"])

    kinds = {kind: answers_to for kind in KINDS if (answers_to := of(kind)).asked}
    own = of("judged")
    unseen = counts["judged", "unseen"] > 0
    return Examination(critic=critic, kinds=kinds, judged=own.asked, accepted=own.yes, unseen=unseen)


def _read(folder: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """Critic -> key of a question -> kind and answer, from all logs in a folder."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for path in files.find(folder, "*.jsonl"):
        with files.check_file(path).open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                    fields = [str(entry[name]) for name in ("critic", "of", "kind", "answer")]
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
                critic, key, kind, answer = fields
                if kind in ("judged", *KINDS) and answer in ("yes", "no", "none", "unseen"):
                    found[critic] = found.pop(critic, {})  # the last one that was asked is the last
                    found[critic][key] = kind, answer
    return found
