"""Details of a step: texts beside its words, and who said them.

The four texts are the aspects of DeMiAn (arXiv 2605.17077); the cause of a failure and whether it can be
mended are AgiBot World 2026's `error_cause` and `restorable`.
"""

from collections.abc import Collection, Iterator
from typing import Annotated, Literal, Self, get_args

from pydantic import Field

from goalreel.claims import NOBODY, PERSON, RULE, UNKNOWN
from goalreel.errors import InputError
from goalreel.settings import Frozen

type Aspect = Literal["motion", "pose", "scene", "reasoning"]
type DetailName = Aspect | Literal["failure"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect.__value__)
DETAILS: tuple[DetailName, ...] = (*ASPECTS, "failure")
WATCHED: tuple[DetailName, ...] = ("scene", "reasoning", "failure")
"""Those that a model which watches is asked for; of failures rules and people tell too."""


class Detail(Frozen):
    """A text, who wrote it, and who checked it: as in `goalreel.claims.Claim`."""

    text: Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]
    by: str = UNKNOWN
    checked: str = NOBODY


class FailureDetail(Detail):
    """Reason why a step failed: `text` is the cause."""

    restorable: bool | None = None
    """True if the robot could still repair it; None where nobody knows."""


class Details(Frozen):
    """The details of a step; None is one that nobody told."""

    motion: Detail | None = None
    """Motion of hand and arm, without a word for an object."""
    pose: Detail | None = None
    """The hand and the arm's numbers at the step's last frame."""
    scene: Detail | None = None
    """Things that are seen, and their places."""
    reasoning: Detail | None = None
    """Purpose of the step, towards the instruction."""
    failure: FailureDetail | None = None
    """Cause of a failed step alone."""

    def items(self) -> Iterator[tuple[str, Detail]]:
        """The details that were told, in order."""
        return ((name, detail) for name, detail in self if detail is not None)

    def lines(self) -> Iterator[str]:
        """The details for a reader, each in one line."""
        for name, detail in self.items():
            restorable = detail.restorable if isinstance(detail, FailureDetail) else None
            note = "" if restorable is None else ", restorable" if restorable else ", not restorable"
            yield f"{name.capitalize()}: {detail.text}{note} (by {detail.by}, checked by {detail.checked})"

    def named(self, planner: str | None) -> Self:
        """The same with the planner's name in the place of `unknown`."""
        unnamed = {name: detail for name, detail in self.items() if planner and detail.by == UNKNOWN}
        named = {name: detail.model_copy(update={"by": planner}) for name, detail in unnamed.items()}
        return self.model_copy(update=named)

    def filled(self, other: "Details") -> Self:
        """The same with the details of `other` where this has none, or a rule's."""
        model_details = {name for name, detail in self.items() if detail.by != RULE}
        return self.model_copy(update={name: d for name, d in other.items() if name not in model_details})

    def without(self, names: Collection[str]) -> "Details | None":
        """Without these, but for what a person wrote; None where nothing is left."""
        gone = [name for name, detail in self.items() if name in names and detail.by != PERSON]
        remaining = self.model_copy(update=dict.fromkeys(gone))
        return None if remaining == Details() else remaining


def by_rule(text: str | None) -> Detail | None:
    """A text that a rule wrote, if any."""
    return None if text is None else Detail(text=text, by=RULE)


def parse_details(text: str | None) -> tuple[DetailName, ...]:
    """Read names with commas between them, in their usual order; raise InputError if there is no such detail.

    >>> parse_details("pose, motion")
    ('motion', 'pose')
    """
    kinds = {word.strip() for word in (text or "").split(",")} - {""}
    if unknown := sorted(kinds.difference(DETAILS)):
        raise InputError(f"there is no detail {unknown[0]!r}: --details takes {', '.join(DETAILS)}")
    return tuple(name for name in DETAILS if name in kinds)
