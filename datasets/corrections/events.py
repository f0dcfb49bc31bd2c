"""Changes of a person in an episode, as typed events: each a line of the episode's log.

A step is named by an id that no other change touches. Frames are counted from 0 within the episode; pictures
are references as records keep them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from goalreel.boards.step import ChooseAttempt, DeleteStep, Phrase, RedoChange, StepId, UndoChange, Who
from goalreel.claims import Aspect
from goalreel.settings import Frozen
from goalreel.types import Segment, Step, Storyboard, Text

type FrameNumber = Annotated[int, Field(ge=0, lt=2**31)]
type Issue = Literal["wrong_object", "wrong_time", "missing", "extra", "wrong_picture"]
type Opinion = Literal["accept", "reject", "unsure"]
type Seconds = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class BeginLog(Frozen):
    """The record that the changes behind this line are made to; again where `annotate` wrote another one."""

    kind: Literal["begin"] = "begin"
    record: Text
    """SHA-256 of the record."""
    recording: str | None
    """Fingerprint of the recording that it tells of."""
    length: Annotated[int, Field(ge=1)]
    """Frames of the episode."""
    board: Storyboard


class MoveBoundary(Frozen):
    """Move one boundary; the edge of a step that adjoins moves along."""

    kind: Literal["move"] = "move"
    step: StepId
    edge: Literal["start", "end"]
    frame: FrameNumber
    """For `end` the first frame behind the step."""


class PlaceStep(Frozen):
    """Say where a step is that was found nowhere."""

    kind: Literal["place"] = "place"
    step: StepId
    start: FrameNumber
    end: FrameNumber


class SplitStep(Frozen):
    """Cut a step in two; the second begins at `frame`."""

    kind: Literal["split"] = "split"
    step: StepId
    frame: FrameNumber


class MergeSteps(Frozen):
    """Join a step and the next one: the words are the first's, the goal image is the second's."""

    kind: Literal["merge"] = "merge"
    step: StepId


class InsertStep(Frozen):
    """Add a step where none is."""

    kind: Literal["insert"] = "insert"
    start: FrameNumber
    end: FrameNumber
    name: Phrase


class RenameStep(Frozen):
    """Other words. Those that are missing follow from a new name; with the same name they stay."""

    kind: Literal["rename"] = "rename"
    step: StepId
    name: Phrase
    instruction: Phrase | None = None
    prompt: Phrase | None = None


class SetOutcome(Frozen):
    """Say that the recording shows the step done, or tried in vain."""

    kind: Literal["outcome"] = "outcome"
    step: StepId
    outcome: Literal["done", "failed"]


class DescribeStep(Frozen):
    """Set a detail of a step (`goalreel.claims`)."""

    kind: Literal["describe"] = "describe"
    step: StepId
    detail: Aspect | Literal["failure"]
    text: Phrase | None
    """None removes it."""
    restorable: bool | None = None
    """The robot could still mend the failure."""


UNNAMED = "new step"
"""The name of a step until somebody words it."""


class TakenStep(Frozen):
    """A step as another episode has it, and its frames in this one."""

    step: Step
    segment: Segment


class CopySteps(Frozen):
    """Take the steps of another episode in the place of all steps."""

    kind: Literal["copy"] = "copy"
    episode: FrameNumber
    steps: tuple[TakenStep, ...] = ()
    """The server fills them in."""


class CarrySteps(Frozen):
    """Carry the steps of labelled episodes over, in the place of all steps; one of many such changes."""

    kind: Literal["carry"] = "carry"
    act: Text
    """All changes of one act have it, and no others."""
    steps: tuple[TakenStep, ...] = ()
    refused: Text | None = None
    """The reason why the steps stay as they are."""


class TakeFrame(Frozen):
    """Take a frame of the recording as the goal image."""

    kind: Literal["frame"] = "frame"
    step: StepId
    camera: Text
    frame: FrameNumber


class BlankGoal(Frozen):
    """Leave a step without a goal image."""

    kind: Literal["blank"] = "blank"
    step: StepId


class FlagIssue(Frozen):
    """Say, or take back, what is wrong with a step, or with the episode (`step` None)."""

    kind: Literal["issue"] = "issue"
    step: StepId | None
    issue: Issue
    on: bool


LOOK_S = 1.0
"""Seconds that an episode is on the screen, at least, before a verdict on it counts as one of somebody who
looked: reading a name and comparing it with a picture takes three or four fixations of the eye."""
FIXATION_S = 0.3
"""The same of one goal image: one fixation."""


class Looked(Frozen):
    """An episode on a person's screen before they gave their verdict."""

    seconds: Seconds = 0.0
    frames: Annotated[tuple[tuple[FrameNumber, FrameNumber], ...], Field(max_length=200)] = ()
    """Frames of the recording, as spans with both ends."""
    pictures: Annotated[Mapping[StepId, Seconds], Field(max_length=500)] = {}
    """Seconds of each step's goal image."""

    @property
    def enough(self) -> bool:
        """True if the verdict is one of a person who looked."""
        return self.seconds >= LOOK_S

    def shows(self, frame: int) -> bool:
        """Return whether a frame was on the screen."""
        return any(first <= frame <= last for first, last in self.frames)


class GiveVerdict(Frozen):
    """Say what the episode as it is now is worth."""

    kind: Literal["verdict"] = "verdict"
    verdict: Opinion
    unseen: Annotated[bool, Field(exclude_if=lambda unseen: not unseen)] = False
    """Given to many episodes at once, without looking."""
    act: Annotated[str, Field(exclude_if=lambda act: not act)] = ""
    """Name of the act, as `CarrySteps.act`."""
    looked: Annotated[Looked | None, Field(exclude_if=lambda looked: looked is None)] = None
    """None of an act, and of a verdict from before this was kept, which counts as one of who looked."""

    @property
    def blind(self) -> bool:
        """True if nobody looked."""
        return self.unseen or (self.looked is not None and not self.looked.enough)


class AcceptStep(Frozen):
    """Say that one step as it is now is right, after a look at it; a change of the step takes that back."""

    kind: Literal["accept"] = "accept"
    step: StepId
    looked: Looked = Looked()


# Plain unions: of nested aliases pydantic names no field at fault.
_Placing = MoveBoundary | PlaceStep | SplitStep | MergeSteps | InsertStep | DeleteStep | CopySteps
_Wording = RenameStep | SetOutcome | DescribeStep
StepEdit = _Placing | _Wording | ChooseAttempt | TakeFrame | BlankGoal
"""A person's change of what the steps are."""
PageCorrection = StepEdit | FlagIssue | AcceptStep | GiveVerdict | UndoChange | RedoChange
"""Everything that a page may ask for; the others are the server's own to add."""
Correction = PageCorrection | CarrySteps

WORDS: Mapping[Issue, str] = {
    "wrong_object": "wrong object",
    "wrong_time": "wrong time",
    "missing": "something is missing",
    "extra": "an extra step",
    "wrong_picture": "wrong picture",
}
"""An issue as a reader has it."""
_TOLD: Mapping[str, str] = {
    "move": "{edge}s at frame {frame}",
    "place": "placed at frames {start} to {end}",
    "split": "split at frame {frame}",
    "merge": "merged with the next step",
    "insert": "“{name}” inserted at frames {start} to {end}",
    "delete": "deleted",
    "rename": "words set to “{name}”",
    "outcome": "has the outcome “{outcome}”",
    "describe": "has the {detail} “{text}”",
    "copy": "the steps of episode {episode} were copied",
    "frame": "has frame {frame} as its goal image",
    "blank": "left without a goal image",
    "accept": "accepted",
    "verdict": "the verdict “{verdict}”",
}


def describe(change: Correction, names: Mapping[str, str]) -> str:
    """Describe a change for a reader; `names` has the steps that there are."""
    match change:
        case DescribeStep(text=None, detail=detail):
            told = f"has no {detail}"
        case ChooseAttempt(attempt=attempt):
            told = f"has attempt {attempt + 1} as its goal image"
        case CarrySteps(refused=refused):
            told = f"not carried over: {refused}" if refused else "steps carried over from labelled episodes"
        case GiveVerdict(blind=True, verdict=verdict):
            told = f"the verdict “{verdict}”, without looking"
        case FlagIssue(issue=issue, on=on):
            told = WORDS[issue] if on else f"no longer {WORDS[issue]}"
        case _:
            told = _TOLD.get(change.kind, change.kind).format_map(dict(change))
    if isinstance(change, RenameStep) or not hasattr(change, "step"):
        return told
    if change.step is None:
        return f"the episode: {told}"
    return f"{f'“{names[change.step]}”' if change.step in names else 'a step that is gone'} {told}"


class LogEntry(Frozen):
    """A line of a log."""

    revision: Annotated[int, Field(ge=1)]
    """1 for the first line."""
    at: datetime
    """UTC."""
    by: Who
    """Who, as they call themselves."""
    change: Annotated[BeginLog | Correction, Field(discriminator="kind")]

    @property
    def number(self) -> int:
        """The revision, under the name that all logs have for it."""
        return self.revision

    @property
    def person(self) -> tuple[str, Correction] | None:
        """The person and their change; None where a record begins."""
        return None if isinstance(self.change, BeginLog) else (self.by, self.change)
