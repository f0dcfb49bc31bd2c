"""Episodes that people have accepted, as worked examples in words for a watching model."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from goalreel.files import digest
from goalreel.settings import Frozen

if TYPE_CHECKING:
    from goalreel.types import Recording

LIMIT = 3
"""Examples for one recording."""


class ExemplarSegment(Frozen):
    """A step that people accepted, in the fields of a watching model's answer, but in seconds."""

    start_s: float
    end_s: float
    name: str
    outcome: Literal["done", "failed"]


class Exemplar(Frozen):
    """An accepted episode."""

    episode: int
    numbers: str
    """The digest of its recording: `numbers_of`."""
    instruction: str
    length_s: float
    segments: tuple[ExemplarSegment, ...]

    @property
    def answer(self) -> str:
        """The JSON that a watching model should answer."""
        from goalreel.chat.interleave import plain

        return plain(self.model_dump_json(include={"segments"}))


def numbers_of(recording: "Recording") -> str:
    """A digest that identifies a recording in any dataset, from its times, states and actions.

    The id counts too where only the times are recorded.
    """
    numbers = [values.tobytes() for values in (recording.state, recording.action)]
    return digest(recording.timestamps.tobytes(), *numbers, "" if any(numbers) else recording.id)


def likest(exemplars: Sequence[Exemplar], instruction: str, recording: "Recording") -> tuple[Exemplar, ...]:
    """At most LIMIT exemplars of other recordings, first those whose instructions share the most words.

    Of equally similar ones, the lower episode comes first.
    """
    if not exemplars:
        return ()
    target, numbers = _words(instruction), numbers_of(recording)
    others = [exemplar for exemplar in exemplars if exemplar.numbers != numbers]
    ranked = sorted(others, key=lambda e: (-_similarity(target, _words(e.instruction)), e.episode))
    return tuple(ranked[:LIMIT])


def digest_of(exemplars: Sequence[Exemplar]) -> str | None:
    """A digest of these exemplars; None where there are none."""
    return digest(*(exemplar.model_dump_json() for exemplar in exemplars))[:16] if exemplars else None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _similarity(a: frozenset[str], b: frozenset[str]) -> float:
    """The Jaccard index: the share of all their words that both have."""
    return len(a & b) / max(1, len(a | b))
