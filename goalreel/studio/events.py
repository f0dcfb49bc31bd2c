"""What happens to a storyboard, as typed events: each a numbered line of its log.

Pictures are names of files beside the log. In a `Task` or an `Attempt` a stand-in bears the name.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from goalreel.serving.storyboards import JobStatus
from goalreel.settings import Frozen
from goalreel.studio.edits import BoardEdit
from goalreel.terms import OnUnverified, Role
from goalreel.types import Attempt, Failure, Step, Task

type BoardStatus = JobStatus | Literal["interrupted"]
"""`interrupted`: the server ended while models were at work."""


class Submitted(Frozen):
    """The first line: what is to be made a storyboard of."""

    kind: Literal["submitted"] = "submitted"
    task: Task
    max_attempts: Annotated[int, Field(ge=1)]
    variants: Annotated[int, Field(ge=1)] = 1
    on_unverified: OnUnverified = "continue"
    preset: str | None = None
    """Whose models make it; None for those that the server was started with."""


class WorkBegun(Frozen):
    """Models are at work from here on."""

    kind: Literal["begun"] = "begun"
    models: Mapping[Role, str]
    """How claims name them."""
    reopen: bool = False
    """Whether a plan that failed is made again, and steps that failed or are stale are drawn again."""


class PlanMade(Frozen):
    """The Planner has answered."""

    kind: Literal["planned"] = "planned"
    round: int
    """The number of the event that asked for it."""
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]


class PlanFailed(Frozen):
    """There is no plan."""

    kind: Literal["plan_failed"] = "plan_failed"
    round: int
    failure: Failure


class DrawnPicture(Frozen):
    """The Editor has drawn a picture of a step."""

    kind: Literal["drawn"] = "drawn"
    step: str
    round: int
    """The number of the event that asked for the step's pictures."""
    attempt: Annotated[int, Field(ge=0)]
    """Its number in the round, from 0."""
    prompt: str
    seed: int
    source: str | None
    """The picture that it was drawn from."""
    picture: str
    """As the Editor gave it, before its background was corrected."""
    name: str
    """The step's name and instruction, as they were then."""
    instruction: str


class AttemptEnded(Frozen):
    """A picture is judged, or did not come about."""

    kind: Literal["attempt"] = "attempt"
    step: str
    round: int
    attempt: Annotated[int, Field(ge=0)]
    source: str | None
    name: str
    instruction: str
    result: Attempt


class StepEnded(Frozen):
    """The loop is done with a step."""

    kind: Literal["step"] = "step"
    step: str
    round: int
    attempt: int | None
    """Which of the round's attempts is its goal image; None where none has a picture."""


class PersonsChange(Frozen):
    """A person's change."""

    kind: Literal["changed"] = "changed"
    by: Annotated[str, Field(min_length=1, max_length=80)]
    edit: BoardEdit


class WorkEnded(Frozen):
    """No model is at work any more."""

    kind: Literal["finished"] = "finished"
    status: BoardStatus
    trouble: str = ""
    """What ended it besides the models, as a picture that is not on the disk any more; empty: nothing did."""


type BoardNews = Annotated[
    Submitted
    | WorkBegun
    | PlanMade
    | PlanFailed
    | DrawnPicture
    | AttemptEnded
    | StepEnded
    | PersonsChange
    | WorkEnded,
    Field(discriminator="kind"),
]


class BoardEvent(Frozen):
    """A line of a log."""

    number: Annotated[int, Field(ge=1)]
    """1 for the first line."""
    at: AwareDatetime
    """UTC."""
    what: BoardNews
