"""Episodes that people have accepted, as worked examples in words for a model that watches. Pure."""

import re
from collections.abc import Sequence
from typing import Literal

from goalreel.files import digest
from goalreel.planners.chat.interleave import plain
from goalreel.types import Frozen, Recording

MOST = 3
"""Examples with one recording."""


class ExemplarSegment(Frozen):
    """A step as people left it, in the fields of a watching model's answer, but in seconds."""

    start_s: float
    end_s: float
    name: str
    outcome: Literal["done", "failed"]


class Exemplar(Frozen):
    """An accepted episode."""

    episode: int
    numbers: str
    """What its recording is known by: `numbers_of`."""
    instruction: str
    length_s: float
    segments: tuple[ExemplarSegment, ...]

    @property
    def answer(self) -> str:
        """The JSON that a watching model would have answered."""
        return plain(self.model_dump_json(include={"segments"}))


def numbers_of(recording: Recording) -> str:
    """What a recording is known by, whatever dataset it is in: its times, state and action.

    One of which only the times are recorded is known by its id too.
    """
    numbers = [values.tobytes() for values in (recording.state, recording.action)]
    return digest(recording.timestamps.tobytes(), *numbers, "" if any(numbers) else recording.id)


def likest(exemplars: Sequence[Exemplar], instruction: str, recording: Recording) -> tuple[Exemplar, ...]:
    """At most MOST exemplars, those first whose instructions share the most words; never `recording` itself.

    Of equally like ones, the lower episode comes first.
    """
    if not exemplars:
        return ()
    wanted, itself = _words(instruction), numbers_of(recording)
    others = [one for one in exemplars if one.numbers != itself]
    ranked = sorted(others, key=lambda one: (-_likeness(wanted, _words(one.instruction)), one.episode))
    return tuple(ranked[:MOST])


def digest_of(exemplars: Sequence[Exemplar]) -> str | None:
    """What tells these exemplars from others; None where there are none."""
    return digest(*(one.model_dump_json() for one in exemplars))[:16] if exemplars else None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard's: the share of all their words that both have."""
    return len(one & other) / max(1, len(one | other))
