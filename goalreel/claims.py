"""The claims of a step: when it happened, what happened, how that looks, and that it came off; its details.

Pictures are facts and words are guesses, so each claim names its maker and its checker. So do the details,
texts beside the step's words. Four of them are the aspects of DeMiAn (arXiv 2605.17077); the cause of a
failure and whether it can be mended are AgiBot World 2026's `error_cause` and `restorable`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self, get_args

from pydantic import Field

from goalreel.errors import InputError
from goalreel.settings import Frozen
from goalreel.terms import ROLES, Role

if TYPE_CHECKING:
    from goalreel.types import Storyboard, StoryboardStep

type ClaimName = Literal["when", "what", "looks", "came_off"]
CLAIM_NAMES: tuple[ClaimName, ...] = ("when", "what", "looks", "came_off")
TITLES: Mapping[ClaimName, str] = {
    "when": "When",
    "what": "Words",
    "looks": "Goal image",
    "came_off": "Outcome",
}
"""The claims for a reader."""
RULE, ROWS, RECORDING, PERSON, OPERATOR = "rule", "rows", "recording", "person", "operator"
CARRIED = "labelled episodes"
NOBODY, PICTURE_CHECKS, UNKNOWN = "nobody", "picture checks", "unknown"
_NO_MODELS = {
    "kinematic": RULE,
    "rows": ROWS,
    "examples": CARRIED,
    "hindsight": RECORDING,
    "difference": PICTURE_CHECKS,
}
"""The names that stand for no model."""
type Makers = Mapping[Role, str]
"""Names of the planner, the editor and the critic."""


type Aspect = Literal["motion", "pose", "scene", "reasoning"]
type DetailName = Aspect | Literal["failure"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect.__value__)
DETAILS: tuple[DetailName, ...] = (*ASPECTS, "failure")
WATCHED: tuple[DetailName, ...] = ("scene", "reasoning", "failure")
"""Those that a model which watches is asked for; of failures rules and people tell too."""


class Claim(Frozen):
    """The maker and the checker of a claim, and reasons for doubt."""

    by: str = UNKNOWN
    """`rule`, `rows` (labels of the data), `labelled episodes` (carried over from them), `recording` (a
    frame), `model NAME`, `person`, `unknown`, or `operator` (who told a robot's node that a step is done)."""
    checked: str = NOBODY
    """`nobody`, `picture checks`, `model NAME`, `person`, `operator` or `unknown`."""
    doubts: tuple[str, ...] = ()
    """Reasons for doubt, one line each; what a checker objected to is among them."""

    @property
    def line(self) -> str:
        """Maker and checker for a reader, and whether it is in doubt: a checker may have refused it."""
        check = "not checked" if self.checked == NOBODY else f"checked by {self.checked}"
        return f"by {self.by}, {check}{', in doubt' if self.doubts else ''}"


class Claims(Frozen):
    """The claims of a step; None is one that it does not make."""

    when: Claim | None = None
    """Its segment; None without one."""
    what: Claim = Claim()
    """Its words."""
    looks: Claim | None = None
    """Its goal image; None without one."""
    came_off: Claim | None = None
    """Its outcome in the recording; None where it was not recorded."""

    def items(self) -> Iterator[tuple[ClaimName, Claim]]:
        """The claims that the step makes, in order."""
        for name in CLAIM_NAMES:
            if (claim := getattr(self, name)) is not None:
                yield name, claim

    def named(self, makers: Makers) -> "Claims":
        """The same with the names of models in the place of `unknown`."""
        claims: dict[str, Claim] = {}
        for name, claim in self.items():
            by, checked = makers.get("editor" if name == "looks" else "planner"), makers.get("critic")
            named = {"by": by if claim.by == UNKNOWN else None}
            named |= {"checked": checked if claim.checked == UNKNOWN else None}
            claims[name] = claim.model_copy(update={key: who for key, who in named.items() if who})
        return self.model_copy(update=claims)

    def by_person(self, made: Collection[ClaimName], checked: Collection[ClaimName]) -> "Claims":
        """The same, where a person has made some of the claims and checked others: those are in no doubt."""
        claims: dict[str, Claim] = {
            name: claim.model_copy(
                update={"checked": PERSON, "doubts": ()} | ({"by": PERSON} if name in made else {})
            )
            for name, claim in self.items()
            if name in made or name in checked
        }
        return self.model_copy(update=claims)


class Detail(Frozen):
    """A text, who wrote it, and who checked it: as in `Claim`."""

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


def claims_of(step: "StoryboardStep") -> Claims:
    """Derive a step's claims from its parts, which do not name the models: these are `unknown`."""
    attempt = None if step.chosen is None else step.attempts[step.chosen]
    doubts, confirmed = step.step.doubts, Claim()
    looks = None
    if attempt is not None:
        image, verdict, failure = attempt.image, attempt.verdict, attempt.failure
        recorded = step.status == "observed" or (image is not None and image.recorded)
        if verdict is None:
            objection = (f"the critic failed: {failure.line}",) if failure else ()
            looks = Claim(doubts=objection)
        else:
            objection = () if verdict.success else (verdict.reasoning.strip() or "the critic refused it",)
            looks = Claim(checked=PICTURE_CHECKS if verdict.pictures_only else UNKNOWN, doubts=objection)
            if recorded and not verdict.pictures_only:
                confirmed = looks
        looks = looks.model_copy(update={"by": RECORDING if recorded else UNKNOWN})
    maker = step.step.by or UNKNOWN
    what = Claim(by=maker, checked=confirmed.checked if not confirmed.doubts else NOBODY, doubts=doubts)
    if step.segment is None:
        return Claims(what=what, looks=looks)
    # A rule has found a predicted step in the recording; any other was read off it by who planned it.
    placed = Claim(by=maker if step.alignment is None else RULE)
    outcome = {"checked": confirmed.checked, "doubts": (*doubts, *confirmed.doubts)}
    return Claims(when=placed, what=what, looks=looks, came_off=placed.model_copy(update=outcome))


def makers(name_of: Callable[[Role], object]) -> Makers:
    """Name the models for claims: by role, from their names; a role without a name is left out."""
    names = {role: name_of(role) for role in ROLES}
    return {r: _NO_MODELS.get(n, f"model {n}") for r, n in names.items() if isinstance(n, str) and n}


def attributed(board: "Storyboard", names: Makers) -> "Storyboard":
    """The storyboard with models' names (`makers`) in claims and details, where these are `unknown`."""
    steps: list[StoryboardStep] = []
    for step in board.steps:
        inner, details = step.step, step.step.details
        if details is not None:
            inner = inner.model_copy(update={"details": details.named(names.get("planner"))})
        steps.append(step.model_copy(update={"claims": step.claims.named(names), "step": inner}))
    end = board.end
    if end is not None and end.by == UNKNOWN:
        end = end.model_copy(update={"by": names.get("critic", UNKNOWN)})
    return board.model_copy(update={"steps": tuple(steps), "end": end})


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


type ClaimTotals = dict[str, dict[str, dict[str, int]]]


def count(steps: "Iterable[StoryboardStep]") -> ClaimTotals:
    """Count claims by maker and by checker: claim -> `by` or `checked` -> who -> number of steps.

    `doubted`, if any, is the part of `checked` that is in doubt, such as what a checker refused.
    """
    return _count(item for step in steps for item in step.claims.items())


def count_details(steps: "Iterable[StoryboardStep]") -> ClaimTotals:
    """Count the details of steps as `count` does their claims."""
    details = (step.step.details for step in steps)
    return _count(item for detail in details if detail is not None for item in detail.items())


def _count(items: Iterable[tuple[str, Claim | Detail]]) -> ClaimTotals:
    counts: ClaimTotals = {}
    for name, item in items:
        one = {"by": {item.by: 1}, "checked": {item.checked: 1}}
        if isinstance(item, Claim) and item.doubts:
            one["doubted"] = {item.checked: 1}
        add_counts(counts, {name: one})
    return counts


def add_counts(total: ClaimTotals, part: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
    """Add the counts of `part` to those of `total`."""
    for name, keys in part.items():
        for key, values in keys.items():
            sums = total.setdefault(name, {}).setdefault(key, {})
            for value, number in values.items():
                sums[value] = sums.get(value, 0) + number
