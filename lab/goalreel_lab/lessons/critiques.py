"""Critiques of an editor's own pictures and of made ones, about half of them right, scored by reading them
back; what is in doubt is left out."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import batched

from goalreel.datasets.corpora.critic_rows import CritiqueRow, candidate_of
from goalreel.image import Image
from goalreel.scoring import PictureScores
from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.truth import task_id_of
from goalreel_lab.lessons.edits import order
from goalreel_lab.lessons.judged import Draw
from goalreel_lab.lessons.mistakes import MADE, Made, make, vary
from goalreel_lab.lessons.prompts import terse
from goalreel_lab.lessons.steps import Done, walk
from goalreel_lab.scoring import SimulatorScorer, success_of

_STREAM = 8
_BATCH = 32


def critique_rows(
    seeds: Iterable[int], draw: Draw, size: int = 128, variety: float = 0.0
) -> Iterator[CritiqueRow]:
    """Make up to four rows for each sub-goal.

    Two are what the editor made of its terse and of its explicit order, as a first and a second attempt. The
    others are made candidates, of whichever kind, right or wrong, there are fewer of. They have one order or
    the other. A training seed with a held-out composition gives no rows.

    Raises:
        ValueError: the editor did not give one picture a prompt.
    """
    for some in batched(walk(seeds, size, _STREAM, variety), _BATCH):
        orders = [(terse(done.goal, done.rng), order(done)) for done in some]
        requests = [(done, prompt) for done, both in zip(some, orders, strict=True) for prompt in both]
        drawn = draw([done.source for done, _ in requests], [prompt for _, prompt in requests])
        pictures = list(batched(drawn, 2))
        for done, both, pair in zip(some, orders, pictures, strict=True):
            yield from _of(done, both, pair)


def _of(done: Done, orders: tuple[str, str], pictures: tuple[Image | None, ...]) -> Iterator[CritiqueRow]:
    drawn_rows = [_row(done, orders, n, p) for n, p in enumerate(pictures) if p is not None]
    rows = [row for row in drawn_rows if row is not None]
    right = sum(row.success for row in rows)
    wrong = len(rows) - right
    for success in [True] * max(wrong - right, 0) + [False] * max(right - wrong, 0) or [True, False]:
        mistake = _made(done, success)
        row = None if mistake is None else _row(done, orders, int(done.rng.integers(2)), mistake.image)
        if row is not None and row.success == success:
            rows.append(row)
    yield from rows


def _made(done: Done, success: bool) -> Made | None:
    if success:
        return vary(done)
    mistakes = (make(done, MADE[i]) for i in done.rng.permutation(len(MADE)))
    return next((picture for picture in mistakes if picture is not None), None)


def _row(done: Done, orders: tuple[str, str], attempt: int, picture: Image) -> CritiqueRow | None:
    """Make the row of a picture from the order of its attempt; None where its truth is in doubt."""
    row = CritiqueRow(
        task_id=task_id_of(done.origin.seed, done.origin.view),
        step=done.origin.done,
        attempt=attempt,
        source=done.source,
        candidate=picture.resized(done.source.size),
        drawn=False,
        instruction=state_of(done.goal),
        first_prompt=orders[0],
        prompt=orders[attempt],
        success=False,
        semantics=0,
        quality=0,
    )
    (scores,) = SimulatorScorer().score([candidate_of(row)])
    success = success_of(scores)
    return None if scores is None or success is None else _scored(row, scores, success)


def _scored(row: CritiqueRow, scores: PictureScores, success: bool) -> CritiqueRow:
    return replace(row, success=success, semantics=scores.semantics, quality=scores.quality)
