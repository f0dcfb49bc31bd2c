"""What a corpus is made of: one row a question to an agent, with the true answer and where it came from."""

from dataclasses import dataclass
from typing import Literal

from goalreel.datasets.corpora.rows import Lesson
from goalreel.image import Image
from goalreel.tabletop.scene import SubGoal
from goalreel.tabletop.variety import PLAIN, View
from goalreel.types import Plan, Verdict

type Register = Literal["terse", "explicit"]
"""How a prompt speaks: as a Planner first says it, or with colour, place and what must stay."""
type Mistake = Literal[
    "nothing_moved",
    "wrong_object",
    "wrong_place",
    "also_moved",
    "vanished",
    "deformed",
    "near_miss",
    "relabelled",
    "editor",
    "dropped",
    "waiting",
    "carrying",
    "hovering",
    "released",
    "undone",
]
"""What is wrong with a candidate; `relabelled`: it is the true target of another sub-goal than is asked for;
`editor`: a real mistake of a trained editor. The last six are a robot's: a block that it lost, what it was
about when it was not done yet, and a sub-goal that it undid again."""


@dataclass(frozen=True)
class Origin:
    """Enough to make the row's scene again, by `walk` as its maker calls it: the episode's seed, and how many
    of its sub-goals are done."""

    seed: int
    done: int
    held_out: tuple[str, ...] = ()
    """Names of the compositions in the row that training never shows; empty in a training row."""
    view: View = PLAIN
    """How the episode is seen."""


@dataclass(frozen=True)
class PlanRow:
    """A question to the Planner with its answer: (frame, instruction) -> plan."""

    image: Image
    instruction: str
    plan: Plan
    thinking: str
    """What is said before the plan."""
    goals: tuple[SubGoal, ...]
    origin: Origin


@dataclass(frozen=True)
class ContinuationRow:
    """A question to the Planner under way with its answer: what was done -> the plan for the rest.

    `origin.done` sub-goals are behind.
    """

    lesson: Lesson
    goals: tuple[SubGoal, ...]
    """Of the whole episode."""
    origin: Origin


@dataclass(frozen=True)
class EditRow:
    """A request to the editor with its answer: (source, prompt) -> goal image."""

    source: Image
    prompt: str
    register: Register
    instruction: str
    """What must become true, as the step says it."""
    goal: SubGoal
    target: Image
    origin: Origin


@dataclass(frozen=True)
class VerdictRow:
    """A question to the Critic with its answer: (source, candidate, instruction, prompt) -> verdict.

    The verdict gives its reason and, where it rejects, a better prompt. Of a row about a whole task `goal` is
    the last one.
    """

    source: Image
    candidate: Image
    instruction: str
    prompt: str
    goal: SubGoal
    verdict: Verdict
    mistake: Mistake | None
    origin: Origin
