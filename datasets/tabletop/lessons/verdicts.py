"""(source, candidate, instruction, prompt) -> verdict: as many right pictures as wrong ones."""

from collections.abc import Iterable, Iterator

from goalreel.datasets.tabletop.lessons.edits import order
from goalreel.datasets.tabletop.lessons.grounding import compare, verdict_of
from goalreel.datasets.tabletop.lessons.mistakes import MADE, Made, make, vary
from goalreel.datasets.tabletop.lessons.prompts import terse
from goalreel.datasets.tabletop.lessons.rows import Mistake, VerdictRow
from goalreel.datasets.tabletop.lessons.steps import Done, walk
from goalreel.datasets.tabletop.sentences import state_of

_STREAM = 3


def verdict_rows(seeds: Iterable[int], size: int = 128) -> Iterator[VerdictRow]:
    """A right and a wrong candidate a sub-goal; none for a training seed with a held-out composition.

    Half of the right ones are the target, the others have the block elsewhere within tolerance. The wrong one
    has the first mistake, in random order, that the scene offers.
    """
    for done in walk(seeds, size, _STREAM):
        right = vary(done) if done.rng.random() < 0.5 else Made(done.target, done.reached)
        yield verdict_row(done, right, None)
        for i in done.rng.permutation(len(MADE)):
            if wrong := make(done, MADE[i]):
                yield verdict_row(done, wrong, MADE[i])
                break


def verdict_row(done: Done, made: Made, mistake: Mistake | None, prompt: str | None = None) -> VerdictRow:
    """The row of a candidate with what its picture shows; the prompt is drawn from both registers if None.

    Raises:
        ValueError: the candidate is right and should not be, or the other way round.
    """
    change = compare(done.layout, made.layout, done.goal, made.misshapen)
    verdict = verdict_of(done.layout, made.layout, done.reached, done.goal, change)
    if verdict.success != (mistake is None):
        raise ValueError(
            f"seed {done.origin.seed}, step {done.origin.done}: {mistake}, but {verdict.reasoning}"
        )
    if prompt is None:
        prompt = terse(done.goal, done.rng) if done.rng.random() < 0.5 else order(done)
    return VerdictRow(
        source=done.source,
        candidate=made.image,
        instruction=state_of(done.goal),
        prompt=prompt,
        goal=done.goal,
        verdict=verdict,
        mistake=mistake,
        origin=done.origin,
    )
