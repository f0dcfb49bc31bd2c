"""A storyboard as the lines of its log leave it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from goalreel.boards.step import EditedBoard, EditedStep
from goalreel.settings import Frozen
from goalreel.studio.events import BoardStatus
from goalreel.terms import OnUnverified, Role
from goalreel.types import Attempt

type EditedPart = Literal["words", "prompt"]
WORDS_CHANGED = "The words were changed after this picture was made."
SOURCE_CHANGED = "The picture that this one was drawn from is another one now."


class Basis(NamedTuple):
    """The words of a step and the picture before it, for which a picture is drawn or judged."""

    name: str
    instruction: str
    source: str | None
    """The name of the picture."""


class DrawnAttempt(Frozen):
    """A picture of a step, or the attempt at one."""

    round: int
    """The number of the event that asked for it."""
    number: int
    """Within the round."""
    prompt: str
    seed: int
    basis: Basis
    """The words and the picture that it was drawn for."""
    raw: str | None
    """The picture as the Editor gave it."""
    models: Mapping[Role, str]
    """The models that drew and judged it."""
    result: Attempt | None = None
    """None while nobody has judged it."""
    opinion: bool | None = None
    """A person accepts, or refuses, it."""
    opinion_basis: Basis | None = None
    """The words and the picture that the person judged it for."""

    @property
    def picture(self) -> str | None:
        """The name of its picture."""
        if self.result is None:
            return self.raw
        return None if self.result.image is None else self.result.image.frame


class BoardStep(EditedStep[DrawnAttempt]):
    """A step of a storyboard under way."""

    planner: str | None
    """The model that wrote its words; None for a person."""
    rounds: tuple[int, ...]
    """The events that asked for pictures of it, the last one counts."""
    todo: Literal["render", "variants"] | None = None
    """The pictures that are still to be drawn."""
    variants_left: int = 0
    edited: frozenset[EditedPart] = frozenset()

    @property
    def round(self) -> int:
        """The event that asked for its pictures last."""
        return self.rounds[-1]

    @property
    def goal(self) -> str | None:
        """The name of its goal image."""
        return None if self.chosen is None or self.step.prompt is None else self.attempts[self.chosen].picture

    def place(self, round_number: int, attempt: int) -> int | None:
        """Find an attempt of a round among all attempts; the last one, if it was drawn anew."""
        places = [n for n, a in enumerate(self.attempts) if (a.round, a.number) == (round_number, attempt)]
        return places[-1] if places else None


class StudioState(EditedBoard[BoardStep]):
    """A storyboard under way."""

    number: int
    """The last event."""
    created: datetime
    updated: datetime
    max_attempts: int
    variants: int
    on_unverified: OnUnverified
    preset: str | None
    """The preset that makes it; None for the models that the server was started with."""
    plan_round: int
    """The event that asked for the plan."""
    status: BoardStatus = "running"
    started: datetime | None = None
    """The time at which models began to work; None while they do not."""
    seconds: float = 0.0
    """Time of work before."""
    models: Mapping[Role, str] = {}
    """The models of the last work."""
    trouble: str = ""
    """The cause of the last end besides the models, in one line; empty: there is none."""

    @property
    def image(self) -> str | None:
        """The name of the scene's picture."""
        return None if self.task.image is None else self.task.image.frame

    @property
    def needs_plan(self) -> bool:
        """The Planner is still to be asked."""
        return not self.steps and self.failure is None

    def source(self, place: int) -> str | None:
        """The name of the picture that a step is drawn from."""
        goals = (step.goal for step in reversed(self.steps[:place]))
        return next((goal for goal in goals if goal is not None), self.image)

    def basis(self, place: int) -> Basis:
        """The words of a step and the picture before it, as they are now."""
        words = self.steps[place].step
        return Basis(words.name, words.instruction, self.source(place))

    def opinion(self, place: int, attempt: DrawnAttempt) -> bool | None:
        """Say what a person thinks of an attempt, for the words and the picture before it as they are now.

        None: nobody has said anything of these.
        """
        return attempt.opinion if attempt.opinion_basis == self.basis(place) else None

    def stale(self, place: int, attempt: DrawnAttempt) -> tuple[str, ...]:
        """List why an attempt is not of the step's words, or the picture before it, as they are now."""
        if self.opinion(place, attempt):
            return ()
        now = self.basis(place)
        words = () if attempt.basis[:2] == now[:2] else (WORDS_CHANGED,)
        return words if attempt.basis.source == now.source else (*words, SOURCE_CHANGED)

    def stale_goal(self, place: int) -> tuple[str, ...]:
        """List why the goal image of a step is stale; empty where it is not."""
        step = self.steps[place]
        return (
            () if step.goal is None or step.chosen is None else self.stale(place, step.attempts[step.chosen])
        )

    def next_open(self) -> int | None:
        """The first step that is still to be drawn."""
        return next((n for n, s in enumerate(self.steps) if s.todo and s.step.prompt is not None), None)
