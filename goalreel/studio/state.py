"""A storyboard as the lines of its log leave it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from goalreel.errors import InputError
from goalreel.settings import Frozen
from goalreel.studio.events import BoardStatus
from goalreel.terms import OnUnverified, Role
from goalreel.types import Attempt, Failure, Step, Task

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
    """Who drew and judged it."""
    result: Attempt | None = None
    """None while nobody has judged it."""
    opinion: bool | None = None
    """Whether a person accepts it."""
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


class BoardStep(Frozen):
    """A step of a storyboard under way."""

    id: str
    step: Step
    planner: str | None
    """Who wrote its words; None for a person."""
    rounds: tuple[int, ...]
    """The events that asked for pictures of it, the last one counts."""
    attempts: tuple[DrawnAttempt, ...] = ()
    chosen: int | None = None
    """The attempt that is its goal image."""
    todo: Literal["render", "variants"] | None = None
    """What is still to be drawn."""
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
        """Where an attempt of a round is among all attempts; the last one, if it was drawn anew."""
        places = [n for n, a in enumerate(self.attempts) if (a.round, a.number) == (round_number, attempt)]
        return places[-1] if places else None


class StudioState(Frozen):
    """A storyboard under way."""

    number: int
    """Of the last event."""
    created: datetime
    updated: datetime
    task: Task
    """Its pictures are stand-ins."""
    max_attempts: int
    variants: int
    on_unverified: OnUnverified
    preset: str | None
    """Whose models make it; None for those that the server was started with."""
    plan_round: int
    """The event that asked for the plan."""
    status: BoardStatus = "running"
    started: datetime | None = None
    """When models began to work; None while they do not."""
    seconds: float = 0.0
    """How long they worked before."""
    models: Mapping[Role, str] = {}
    """Of the last work."""
    steps: tuple[BoardStep, ...] = ()
    failure: Failure | None = None
    trouble: str = ""
    """What ended the last work besides the models, in one line; empty: nothing did."""

    @property
    def image(self) -> str | None:
        """The name of the scene's picture."""
        return None if self.task.image is None else self.task.image.frame

    @property
    def needs_plan(self) -> bool:
        """Whether the Planner is to be asked."""
        return not self.steps and self.failure is None

    def place(self, step: str) -> int:
        """Where the step with this id is.

        Raises:
            InputError: nowhere.
        """
        for number, candidate in enumerate(self.steps):
            if candidate.id == step:
                return number
        raise InputError(f"there is no step {step}: look at the storyboard as it is now")

    def source(self, place: int) -> str | None:
        """The name of the picture that a step is drawn from."""
        goals = (step.goal for step in reversed(self.steps[:place]))
        return next((goal for goal in goals if goal is not None), self.image)

    def opinion(self, place: int, attempt: DrawnAttempt) -> bool | None:
        """Whether a person accepts an attempt for the words and the picture before the step, as they are now.

        None: nobody said so of these.
        """
        step = self.steps[place].step
        judged = (attempt.opinion_name, attempt.opinion_instruction, attempt.opinion_source)
        return attempt.opinion if judged == (step.name, step.instruction, self.source(place)) else None

    def stale(self, place: int, attempt: DrawnAttempt) -> tuple[str, ...]:
        """Why an attempt is not of the step's words, or not of the picture before it, as they are now."""
        step = self.steps[place]
        if self.opinion(place, attempt):
            return ()
        changed = (attempt.name, attempt.instruction) != (step.step.name, step.step.instruction)
        moved = attempt.source != self.source(place)
        return (*([WORDS_CHANGED] if changed else ()), *([SOURCE_CHANGED] if moved else ()))

    def stale_goal(self, place: int) -> tuple[str, ...]:
        """Why the goal image of a step is stale; empty where it is not."""
        step = self.steps[place]
        return (
            () if step.goal is None or step.chosen is None else self.stale(place, step.attempts[step.chosen])
        )

    def next_open(self) -> int | None:
        """The first step that is still to be drawn."""
        return next((n for n, s in enumerate(self.steps) if s.todo and s.step.prompt is not None), None)

    def with_step(self, place: int, *steps: BoardStep) -> "StudioState":
        """The same with other steps in a step's place."""
        return self.model_copy(update={"steps": (*self.steps[:place], *steps, *self.steps[place + 1 :])})
