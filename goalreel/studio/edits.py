"""What a person changes in a storyboard, as typed requests; each becomes a line of its log."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from goalreel.datasets.corrections.events import StepId, Words, one_line
from goalreel.settings import Frozen

type Phrase = Annotated[Words, AfterValidator(one_line)]
type AttemptNumber = Annotated[int, Field(ge=0, lt=2**31)]
MAX_VARIANTS = 8


class WordsEdit(Frozen):
    """Other words of a step; None leaves them."""

    kind: Literal["change"] = "change"
    step: StepId
    name: Phrase | None = None
    instruction: Phrase | None = None
    prompt: Phrase | None = None
    auxiliary_text: Phrase | None = None


class AddEdit(Frozen):
    """A new step before another; None: at the end. Words that are missing are its name."""

    kind: Literal["add"] = "add"
    name: Phrase
    instruction: Phrase | None = None
    prompt: Phrase | None = None
    before: StepId | None = None


class DeleteEdit(Frozen):
    """Remove a step."""

    kind: Literal["delete"] = "delete"
    step: StepId


class MoveEdit(Frozen):
    """Put a step before another; None: at the end."""

    kind: Literal["move"] = "move"
    step: StepId
    before: StepId | None = None


class DrawEdit(Frozen):
    """Draw a step again, by another prompt if there is one, and with `rest` all that follow.

    With `variants` so many pictures are drawn of this step alone, from which a person chooses.
    """

    kind: Literal["draw"] = "draw"
    step: StepId
    prompt: Phrase | None = None
    rest: bool = True
    variants: Annotated[int, Field(ge=0, le=MAX_VARIANTS)] = 0


class ChooseEdit(Frozen):
    """Take an attempt's picture as the goal image. It stays as verified as the Critic left it."""

    kind: Literal["choose"] = "choose"
    step: StepId
    attempt: AttemptNumber


class JudgeEdit(Frozen):
    """Accept or refuse an attempt's picture, whatever the Critic said; to accept also chooses it."""

    kind: Literal["judge"] = "judge"
    step: StepId
    attempt: AttemptNumber
    accept: bool


class ContinueEdit(Frozen):
    """Go on from a later real picture: the first `done` steps are done, and the rest is planned anew."""

    kind: Literal["continue"] = "continue"
    image: str
    """In a request base64 or a data URL; in a log the picture's name."""
    done: Annotated[int, Field(ge=0, lt=1000)]


class UndoEdit(Frozen):
    """Take back the last change that stands."""

    kind: Literal["undo"] = "undo"


class RedoEdit(Frozen):
    """Make the change again that was taken back last."""

    kind: Literal["redo"] = "redo"


type StepChange = (
    WordsEdit | AddEdit | DeleteEdit | MoveEdit | DrawEdit | ChooseEdit | JudgeEdit | ContinueEdit
)
"""A change of what a storyboard is."""
type BoardEdit = Annotated[
    WordsEdit
    | AddEdit
    | DeleteEdit
    | MoveEdit
    | DrawEdit
    | ChooseEdit
    | JudgeEdit
    | ContinueEdit
    | UndoEdit
    | RedoEdit,
    Field(discriminator="kind"),
]
"""All that a person can do. (With an alias among its members pydantic does not name the field at fault.)"""
