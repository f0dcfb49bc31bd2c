"""A storyboard as the lines of its log leave it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from goalreel.boards.step import EditedBoard, EditedStep
from goalreel.settings import Frozen
from goalreel.studio.events import BoardStatus
from goalreel.terms import OnUnverified, Role
from goalreel.types import Attempt

type EditedPart = Literal["words", "prompt"]
WORDS_CHANGED = "The words were changed after this picture was made."
SOURCE_CHANGED = "The picture that this one was drawn from is another one now."


class DrawnAttempt(Frozen):
    """A picture of a step, or the attempt at one."""

    round: int
    """The number of the event that asked for it."""
    number: int
    """Within the round."""
    prompt: str
    seed: int
    source: str | None
    raw: str | None
    """The picture as the Editor gave it."""
    name: str
    """The step's name and instruction, as they were when it was drawn."""
    instruction: str
    models: Mapping[Role, str]
    """The models that drew and judged it."""
    result: Attempt | None = None
    """None while nobody has judged it."""
    opinion: bool | None = None
    """A person accepts, or refuses, it."""
    opinion_name: str = ""
    """The words that the person judged it by."""
    opinion_instruction: str = ""
    opinion_source: str | None = None
    """The picture before the step, as it was then."""

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

    def opinion(self, place: int, attempt: DrawnAttempt) -> bool | None:
        """Say what a person thinks of an attempt, for the words and the picture before it as they are now.

        None: nobody has said anything of these.
        """
        step = self.steps[place].step
        judged = (attempt.opinion_name, attempt.opinion_instruction, attempt.opinion_source)
        return attempt.opinion if judged == (step.name, step.instruction, self.source(place)) else None

    def stale(self, place: int, attempt: DrawnAttempt) -> tuple[str, ...]:
        """List why an attempt is not of the step's words, or the picture before it, as they are now."""
        step = self.steps[place]
        if self.opinion(place, attempt):
            return ()
        changed = (attempt.name, attempt.instruction) != (step.step.name, step.step.instruction)
        moved = attempt.source != self.source(place)
        return (*([WORDS_CHANGED] if changed else ()), *([SOURCE_CHANGED] if moved else ()))

    def stale_goal(self, place: int) -> tuple[str, ...]:
        """List why the goal image of a step is stale; empty where it is not."""
        step = self.steps[place]
        return (
            () if step.goal is None or step.chosen is None else self.stale(place, step.attempts[step.chosen])
        )

    def next_open(self) -> int | None:
        """The first step that is still to be drawn."""
        return next((n for n, s in enumerate(self.steps) if s.todo and s.step.prompt is not None), None)
