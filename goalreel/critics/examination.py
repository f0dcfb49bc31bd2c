"""The examination of a Critic: its answers to control questions, and what they say of its "yes".

Among the pictures that it accepted, some are untrue. With p the share of true pictures among all that it
judged, s its yes-rate on true and f its yes-rate on false ones, it accepts a = p s + (1 - p) f, and of these
the share u = f (s - a) / (a (s - f)) is untrue. Control questions bound f and s, and the run's own pictures
bound a. No assumption is made on p: the interval of u holds all values that fit these bounds.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from goalreel.claims import PERSON, Claim
from goalreel.settings import Frozen
from goalreel.types import WORDS, Word

if TYPE_CHECKING:
    from goalreel.types import Storyboard, StoryboardStep

type ControlKind = Literal[
    "blank",
    "unchanged",
    "earlier_goal",
    "later_words",
    "opposite_words",
    "other_thing",
    "other_change",
    "damaged",
    "true",
]
"""Kinds of control questions, roughly the easiest first; the true answer is no, but for `true`."""
type Interval = tuple[float, float]

LIMIT = 0.1
"""The most that may be untrue of what a Critic accepted, by the upper end of the interval, for its yes to be
called verified. Policies trained on demonstrations bear about one wrong in ten; a stricter limit could not be
shown with the control questions of a hundred steps."""
ENOUGH = 20
"""Control questions whose answer is no, at least."""
KINDS_ENOUGH = 3
"""Kinds of them, at least: one easy kind examines nothing."""
HARDER = 1.5
"""Factor of the highest yes-rate on what is false: an editor's own errors are harder to see than controls.

Chosen by judgement, not measured. Of what nano's Critic accepted in three runs of about 400 steps, 2.5, 2.7
and 4.6 % was untrue, and in the last of them it answered all 26 picture controls rightly."""
BLIND_AT = 3
"""Answers after which one that is always yes is blind."""


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


class Examination(Frozen):
    """A Critic's answers to control questions, beside its verdicts on the run's own pictures."""

    critic: str
    """Its name, as `Claim.checked` has it."""
    kinds: Mapping[ControlKind, Answers] = {}
    judged: int = 0
    """Pictures of the run that it gave a verdict on, compared with the words."""
    accepted: int = 0
    """Those of them that it accepted."""
    unseen: bool = False
    """True if its server showed that it was not given the pictures (`Verdict.unseen`)."""

    @cached_property
    def on_false(self) -> Answers:
        """Answers to questions whose true answer is no."""
        return _sum(answers for kind, answers in self.kinds.items() if kind != "true")

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
        return binomial_interval(self.on_false.yes, self.on_false.yes + self.on_false.no)

    @cached_property
    def no_on_true(self) -> Interval:
        """95 % interval of the no-rate on what is true."""
        return binomial_interval(self.on_true.no, self.on_true.yes + self.on_true.no)

    @cached_property
    def untrue(self) -> Interval:
        """95 % interval of the share of accepted pictures that are untrue; (0, 1) where nothing is known."""
        if not self.accepted:
            return 0.0, 1.0
        false, true = self.on_false, self.on_true
        least_a, most_a = binomial_interval(self.accepted, self.judged, 0.01)
        least_f, most_f = binomial_interval(false.yes, false.yes + false.no, 0.04)
        least_s, _ = binomial_interval(true.yes, true.yes + true.no, 0.01)
        most_f *= HARDER
        highest = 1.0 if most_f >= least_a else _untrue(1.0, most_f, least_a)
        lowest = _untrue(least_s, least_f, most_a) if least_f < most_a < least_s else 0.0
        return min(lowest, highest), highest

    @property
    def blind(self) -> str:
        """Say in one line why the Critic cannot have looked; empty where nothing shows that."""
        false, true = self.on_false, self.on_true
        if self.unseen:
            return f"{self.critic} was not given the pictures, by its server's count of tokens"
        if (blank := self.kinds.get("blank")) and blank.yes:
            return f"{self.critic} accepted a blank picture"
        if false.yes >= BLIND_AT and not false.no:
            return f"{self.critic} said yes to each of {false.yes} things that are false"
        if true.no >= BLIND_AT and not true.yes:
            return f"{self.critic} said no to each of {true.no} things that are true"
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
        answered = {kind: a.yes + a.no for kind, a in self.kinds.items() if kind != "true" and a.yes + a.no}
        if (number := sum(answered.values())) < ENOUGH:
            return f"it answered {number} of at least {ENOUGH} control questions"
        if len(answered) < KINDS_ENOUGH:
            return f"its {number} control questions are of fewer than {KINDS_ENOUGH} kinds"
        return ""

    @property
    def passed(self) -> bool:
        """True if what the Critic accepted may be called verified."""
        return not self.open

    @property
    def line(self) -> str:
        """Result of the examination in one or two sentences, for a reader."""
        false, true, low, high = self.on_false, self.on_true, *self.untrue
        if self.too_few and not self.blind:
            return f"{self.critic} was not examined: {self.too_few}."
        rate = f"It said yes to {false.yes} of {false.yes + false.no} false"
        if said := true.yes + true.no:
            rate += f" and no to {true.no} of {said} true"
        rate += " control questions"
        if unread := false.none + true.none:
            rate += f" ({unread} without an answer)"
        result = f"did not pass its examination: {self.open}" if self.open else "passed its examination"
        return (
            f"{self.critic} {result}. {rate}; of {self.accepted} accepted pictures, {100 * low:.0f} to "
            f"{100 * high:.0f} % are untrue."
        )

    def summary(self) -> dict[str, Any]:
        """Everything as JSON values, with what is derived."""
        kinds = {kind: {"asked": a.asked, **a.model_dump()} for kind, a in self.kinds.items()}
        derived = ("yes_on_false", "no_on_true", "untrue", "passed", "blind", "open", "line")
        counts: dict[str, Any] = {"critic": self.critic, "judged": self.judged, "accepted": self.accepted}
        return {**counts, "kinds": kinds, **{name: getattr(self, name) for name in derived}}


def verifies(looks: Claim | None, examination: Examination | None) -> bool:
    """Return whether the checker of an accepted goal image makes it verified.

    That is a person who looked, or the Critic whose `examination` has passed.
    """
    checked = looks.checked if looks else None
    passed = examination is not None and examination.passed and examination.critic == checked
    return passed or checked == PERSON


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


def _untrue(s: float, f: float, a: float) -> float:
    return f * (s - a) / (a * (s - f)) if f else 0.0


def _sum(parts: Iterable[Answers]) -> Answers:
    each = list(parts)
    return Answers(yes=sum(a.yes for a in each), no=sum(a.no for a in each), none=sum(a.none for a in each))


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
