"""Events of a storyboard, each a numbered line of its log: what models did, and what people changed.

Pictures are names of files beside the log. In a `Task` or an `Attempt` a stand-in bears the name.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator

from goalreel.boards.step import ChooseAttempt, DeleteStep, Phrase, RedoChange, StepId, UndoChange
from goalreel.claims import UNKNOWN
from goalreel.serving.errors import Wording
from goalreel.settings import Frozen
from goalreel.terms import OnRejected, Role
from goalreel.types import Attempt, Failure, Step, Task, Verdict

type BoardStatus = Literal["running", "done", "failed", "cancelled", "interrupted"]
"""`interrupted`: the server ended while models were at work."""


class WordsEdit(Frozen):
    """Other words of a step. The name or the claim alone stands for both, and the prompt follows them."""

    kind: Literal["change"] = "change"
    step: StepId
    name: Phrase | None = None
    instruction: Phrase | None = None
    prompt: Phrase | None = None
    auxiliary_text: Phrase | None = None


class AddEdit(Frozen):
    """A new step before another; None: at the end. Missing words follow from its name."""

    kind: Literal["add"] = "add"
    name: Phrase
    instruction: Phrase | None = None
    prompt: Phrase | None = None
    before: StepId | None = None


class MoveEdit(Frozen):
    """Put a step before another; None: at the end."""

    kind: Literal["move"] = "move"
    step: StepId
    before: StepId | None = None


class DrawEdit(Frozen):
    """Draw a step again, by another prompt if there is one, and with `rest` all that follow."""

    kind: Literal["draw"] = "draw"
    step: StepId
    prompt: Phrase | None = None
    rest: bool = True


class JudgeEdit(Frozen):
    """Accept or refuse an attempt's picture, whatever the Critic said; to accept also chooses it.

    It takes a picture that was on the person's screen for `LOOK_S` seconds.
    """

    kind: Literal["judge"] = "judge"
    step: StepId
    attempt: Annotated[int, Field(ge=0, lt=2**31)]
    accept: bool
    seconds: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, exclude_if=lambda s: s == 0)] = 0.0
    """Time that the page showed the picture."""


class ContinueEdit(Frozen):
    """Go on from a later real picture: the first `done` steps are done, and the rest is planned anew."""

    kind: Literal["continue"] = "continue"
    image: str
    """In a request base64 or a data URL; in a log the picture's name."""
    done: Annotated[int, Field(ge=0, lt=1000)]


class TaskEdit(Frozen):
    """Another instruction. A plan that is there stays; where there is none it is made anew."""

    kind: Literal["instruct"] = "instruct"
    instruction: Wording


type BoardEdit = Annotated[
    WordsEdit
    | TaskEdit
    | AddEdit
    | DeleteStep
    | MoveEdit
    | DrawEdit
    | ChooseAttempt
    | JudgeEdit
    | ContinueEdit
    | UndoChange
    | RedoChange,
    Field(discriminator="kind"),
]
"""Everything that a person can do."""
_TOLD: Mapping[str, str] = {
    "add": "added “{name}”",
    "delete": "removed a step",
    "move": "moved a step",
    "continue": "went on from a later picture, after {done} steps",
    "instruct": "set the task to “{instruction}”",
    "undo": "took back a change",
    "redo": "made a change again",
}


def describe(edit: BoardEdit) -> str:
    """Describe a change for a reader."""
    match edit:
        case WordsEdit():
            words = edit.model_dump(exclude={"kind", "step"}, exclude_none=True)
            return f"changed the {' and the '.join(name.replace('_', ' ') for name in words)}"
        case DrawEdit(prompt=prompt, rest=rest):
            text = "drew a step again" if prompt is None else "drew a step by another prompt"
            return f"{text}, and those after it" if rest else text
        case ChooseAttempt(attempt=attempt):
            return f"chose picture {attempt + 1}"
        case JudgeEdit(attempt=attempt, accept=accept):
            return f"{'accepted' if accept else 'refused'} picture {attempt + 1}"
    return _TOLD[edit.kind].format_map(dict(edit))


class Submitted(Frozen):
    """The first line: what is to be made a storyboard of."""

    kind: Literal["submitted"] = "submitted"
    task: Task
    max_attempts: Annotated[int, Field(ge=1)]
    on_rejected: OnRejected = "continue"

    @model_validator(mode="before")
    @classmethod
    def _without_preset(cls, data: Any) -> Any:
        """Earlier logs name a preset here."""
        return {key: data[key] for key in data if key != "preset"} if isinstance(data, dict) else data


class WorkBegun(Frozen):
    """Models are at work from here on."""

    kind: Literal["begun"] = "begun"
    models: Mapping[Role, str]
    """Their names in claims."""
    reopen: bool = False
    """A plan that failed is made again, and steps that failed or are stale are drawn again."""


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


class AttemptEvent(Frozen):
    """Something that happened to an attempt at a step's picture."""

    step: str
    round: int
    """The number of the event that asked for the step's pictures."""
    attempt: Annotated[int, Field(ge=0)]
    """Its number in the round, from 0."""
    source: str | None
    """The picture that it was drawn from."""
    name: str
    """The step's name and instruction, as they were then."""
    instruction: str


class DrawnPicture(AttemptEvent):
    """The Editor has drawn a picture of a step, whose background is not corrected yet."""

    kind: Literal["drawn"] = "drawn"
    prompt: str
    seed: int
    picture: str


class AttemptEnded(AttemptEvent):
    """A picture is judged, or did not come about."""

    kind: Literal["attempt"] = "attempt"
    result: Attempt


class StepEnded(Frozen):
    """The loop is done with a step."""

    kind: Literal["step"] = "step"
    step: str
    round: int
    attempt: int | None
    """The round's attempt that is its goal image; None where none has a picture."""


class EndJudged(Frozen):
    """The Critic was asked whether the whole instruction has come true, or cannot judge so long a task."""

    kind: Literal["end"] = "end"
    key: str
    """Stands for the words and pictures that it was asked about."""
    answer: Verdict | Failure | None
    """None where nobody was asked."""
    by: str = UNKNOWN
    """The critic."""


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
    """The cause of the end besides the models, as a picture that is gone; empty: there is none."""


type BoardNews = Annotated[
    Submitted
    | WorkBegun
    | PlanMade
    | PlanFailed
    | DrawnPicture
    | AttemptEnded
    | StepEnded
    | EndJudged
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

    @property
    def person(self) -> tuple[str, BoardEdit] | None:
        """The person and their change; None where models did something."""
        return (self.what.by, self.what.edit) if isinstance(self.what, PersonsChange) else None
