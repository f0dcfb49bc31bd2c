"""Scorers of pictures, by name: a registry that packages fill, and chat models as judges.

A package adds one as it adds a kind of model (`models.registry`), under `goalreel.scorers`. Its module, which
is imported when a name asks for it, registers what builds the scorer with `@register_scorer("mine")`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from goalreel.datasets.corpora.trajectories import SuccessOf, succeeds
from goalreel.errors import InputError
from goalreel.extras import install_beside
from goalreel.models import load, names
from goalreel.types import Scorer

GROUP = "goalreel.scorers"
type BuildScorer = Callable[[], Scorer]


@dataclass(frozen=True, slots=True)
class ScorerKind:
    """A scorer that is called by one word."""

    name: str
    build: BuildScorer
    success_of: SuccessOf
    """True if a picture with its scores has succeeded."""


_kinds: dict[str, ScorerKind] = {}


def register_scorer(name: str, success_of: SuccessOf = succeeds) -> Callable[[BuildScorer], BuildScorer]:
    """Register the decorated function as what builds the scorer `name`."""

    def register(build: BuildScorer) -> BuildScorer:
        _kinds[name] = ScorerKind(name, build, success_of)
        return build

    return register


def find_scorer(name: str) -> ScorerKind | None:
    """The registered scorer `name`, or None; raise an InputError if its package cannot be imported."""
    for entry in metadata.entry_points(group=GROUP, name=name) if name not in _kinds else ():
        try:
            entry.load()
        except (ImportError, AttributeError) as e:
            raise InputError(f"the scorer {name!r} of {entry.value} cannot be imported: {e}") from e
    return _kinds.get(name)


def build_scorer(name: str) -> Scorer:
    """The scorer `name`: a registered one such as `simulator`, or a chat model as the judge (VIEScore).

    Raises:
        UserError, OSError, ModuleNotFoundError: there is no such scorer, or it cannot be built.
    """
    if (kind := find_scorer(name)) is not None:
        return kind.build()
    from goalreel.critics.viescore import VieScore

    try:
        return VieScore(load.build_chat(name, role="critic"))
    except InputError as e:
        if names.ModelName.parse(name).kind:
            raise
        if name == "simulator":
            raise InputError(f"the scorer simulator comes with goalreel-lab: {install_beside('lab')}") from e
        known = sorted({*_kinds, *metadata.entry_points(group=GROUP).names})
        use = " or ".join([*known, "a chat model such as openai:MODEL@URL"])
        raise InputError(f"no scorer {name!r}: use {use}") from e
