"""A Critic's answers to control questions: if it looks, and how much that it accepts may be untrue.

`goalreel.critics.examiner` asks them; a run's are read from its logs.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from goalreel import claims, files
from goalreel.settings import Frozen
from goalreel.terms import ControlKind
from goalreel.types import WORDS, Storyboard, StoryboardStep, Word

type Interval = tuple[float, float]

LIMIT = 0.1
"""The most that may be untrue of what a Critic accepted, by the upper end of the interval, for its yes to be
called verified. Policies bear about one wrong demonstration in ten, and a hundred steps' questions show no
stricter limit."""
ENOUGH, KINDS_ENOUGH = 20, 3
"""Control questions whose answer is no, and kinds of them, at least: one easy kind examines nothing."""
HARDER = 2.0
"""Factor of the yes-rate on what is false, by judgement: an editor's own errors are harder to see.

Too small for nano's Critic, which accepted 29 of its editor's 125 wrong pictures and none of 87 controls. But
all rejected ones are taken for wrong, of which 55 of 151 were right (dev/LOG.md, 2026-11-30)."""
MOST_WEIGHT = 30
"""Weight of all questions in answers, at most: more easy ones tell no more of errors that are harder."""
_DRAWS = 4_000
BLIND_AT = 3
"""Answers after which one that is always yes is blind."""
FOLDER = "examination"
"""The logs' folder, beside the storyboards."""
KINDS: tuple[ControlKind, ...] = get_args(ControlKind.__value__)


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
        fooled = [
            f"{a.yes} {kind.replace('_', ' ')}" for kind, a in self.kinds.items() if a.yes and kind != "true"
        ]
        rate = f"It said yes to {false.yes} of {false.answered} false"
        if false.yes:
            rate += f" ({', '.join(fooled)})"
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


def word(step: StoryboardStep, examination: Examination | None) -> Word:
    """Name for a reader what a step is worth: its status, `verified` for an accepted one, or `in doubt`."""
    if step.in_doubt:
        return "in doubt"
    is_verified = step.status == "accepted" and verifies(step.claims.looks, examination)
    return "verified" if is_verified else step.status


def worst_word(board: Storyboard, examination: Examination | None) -> Word:
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


def read_examination(folder: Path, critic: str | None = None) -> Examination | None:
    """Read the examination of a critic, or of the last one; None where there is none.

    `folder` is `FOLDER` beside the storyboards. A line that was cut off by a kill is left out.
    """
    found = read_answers(folder)
    name = critic or next(reversed(found), None)
    return None if name is None or name not in found else examination_of(name, found[name])


def examination_of(critic: str, answers: dict[str, tuple[str, str]]) -> Examination:
    """Count a critic's answers: key of a question -> kind and answer."""
    counts = Counter(list(answers.values()))  # another thread may add some

    def of(kind: str) -> Answers:
        return Answers(yes=counts[kind, "yes"], no=counts[kind, "no"], none=counts[kind, "none"])

    kinds = {kind: answers_to for kind in KINDS if (answers_to := of(kind)).asked}
    own = of("judged")
    unseen = counts["judged", "unseen"] > 0
    return Examination(critic=critic, kinds=kinds, judged=own.asked, accepted=own.yes, unseen=unseen)


def read_answers(folder: Path) -> dict[str, dict[str, tuple[str, str]]]:
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
