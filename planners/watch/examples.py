"""Labelled episodes as worked examples in words for a watching model."""

import json
from collections.abc import Sequence

from goalreel.chat.interleave import plain
from goalreel.planners.examples.example import Example, numbers_of
from goalreel.planners.examples.slots import words
from goalreel.types import Recording

LIMIT = 3
"""Examples for one recording."""


def answer(example: Example) -> str:
    """The JSON that a watching model should answer, but with seconds in the place of frames."""
    segments = [
        {
            "start_s": round(segment.start / example.fps, 1),
            "end_s": round(segment.end / example.fps, 1),
            "name": step.name,
            "outcome": step.outcome,
        }
        for step, segment in zip(example.steps, example.segments, strict=True)
    ]
    return plain(json.dumps({"segments": segments}, ensure_ascii=False, separators=(",", ":")))


def likest(examples: Sequence[Example], instruction: str, recording: Recording) -> tuple[Example, ...]:
    """At most LIMIT examples of other recordings, first those whose instructions share the most words.

    Equally similar ones stay in their order.
    """
    if not examples:
        return ()
    target, numbers = frozenset(words(instruction)), numbers_of(recording)
    others = [example for example in examples if example.numbers != numbers]
    return tuple(sorted(others, key=lambda e: -_similarity(target, frozenset(words(e.instruction))))[:LIMIT])


def _similarity(a: frozenset[str], b: frozenset[str]) -> float:
    """The Jaccard index: the share of all their words that both have."""
    return len(a & b) / max(1, len(a | b))
