"""(source, candidate, instruction, prompt) -> verdict: as many right pictures as wrong ones."""

from collections.abc import Iterable, Iterator

from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.variety import Variety
from goalreel_lab.lessons.edits import order
from goalreel_lab.lessons.grounding import Change, compare, verdict_of
from goalreel_lab.lessons.mistakes import MADE, Made, make, relabel, vary
from goalreel_lab.lessons.prompts import terse
from goalreel_lab.lessons.rows import Mistake, VerdictRow
from goalreel_lab.lessons.steps import Done, walk

_STREAM = 3


def verdict_rows(
    seeds: Iterable[int], size: int = 128, variety: Variety = 0.0, relabelled: float = 0.0
) -> Iterator[VerdictRow]:
    """Make a right and a wrong candidate for each sub-goal.

    A training seed with a held-out composition gives none.

    Half of the right ones are the target, the others have the block elsewhere within tolerance. The wrong one
    has the first mistake, in random order, that the scene offers. With `relabelled`, that share of the wrong
    ones are the target itself, asked about as another sub-goal's (`mistakes.relabel`), where the scene offers
    one: for training alone, as TabletopBench's candidates stay the same.
    """
    for done in walk(seeds, size, _STREAM, variety):
        right = vary(done) if done.rng.random() < 0.5 else Made(done.target, done.reached)
        yield verdict_row(done, right, None)
        other = relabel(done) if relabelled and done.rng.random() < relabelled else None
        if other is not None:
            yield verdict_row(other, Made(done.target, done.reached), "relabelled")
        elif wrong := _wrong(done):
            yield verdict_row(done, *wrong)


def _wrong(done: Done) -> tuple[Made, Mistake] | None:
    """Make a candidate with the first mistake, in random order, that the scene offers."""
    for i in done.rng.permutation(len(MADE)):
        if mistake := make(done, MADE[i]):
            return mistake, MADE[i]
    return None


def verdict_row(
    done: Done,
    fault: Made,
    mistake: Mistake | None,
    prompt: str | None = None,
    change: Change | None = None,
) -> VerdictRow:
    """Make the row of a candidate.

    Args:
        prompt: drawn from both registers if None.
        change: what the candidate shows; told by its layout if None.

    Raises:
        ValueError: the candidate is right and should not be, or the other way round.
    """
    if change is None:
        change = compare(done.layout, fault.layout, done.goal, fault.misshapen)
    verdict = verdict_of(done.layout, fault.layout, done.reached, done.goal, change)
    if verdict.success != (mistake is None):
        raise ValueError(
            f"seed {done.origin.seed}, step {done.origin.done}: {mistake}, but {verdict.reasoning}"
        )
    if prompt is None:
        prompt = prompt_for(done)
    return VerdictRow(
        source=done.source,
        candidate=fault.image,
        instruction=state_of(done.goal),
        prompt=prompt,
        goal=done.goal,
        verdict=verdict,
        mistake=mistake,
        origin=done.origin,
    )


def prompt_for(done: Done) -> str:
    """Write an order for the step, in either register."""
    return terse(done.goal, done.rng) if done.rng.random() < 0.5 else order(done)
