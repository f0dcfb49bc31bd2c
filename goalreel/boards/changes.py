"""Changes that people make on every page; what a page adds stands with the page."""

from typing import Annotated, Literal

from pydantic import Field

from goalreel.boards.words import StepId
from goalreel.settings import Frozen


class DeleteStep(Frozen):
    """Remove a step."""

    kind: Literal["delete"] = "delete"
    step: StepId


class ChooseAttempt(Frozen):
    """Take an attempt's picture as the goal image; it stays as verified as the Critic left it."""

    kind: Literal["choose"] = "choose"
    step: StepId
    attempt: Annotated[int, Field(ge=0, lt=2**31)]


class UndoChange(Frozen):
    """Take back the last change that stands."""

    kind: Literal["undo"] = "undo"


class RedoChange(Frozen):
    """Make the change again that was taken back last."""

    kind: Literal["redo"] = "redo"
