"""(source, prompt) -> goal image: every sub-goal once in each register."""

from collections.abc import Iterable, Iterator

from goalreel.datasets.tabletop.lessons.grounding import warnings_for
from goalreel.datasets.tabletop.lessons.prompts import explicit, terse
from goalreel.datasets.tabletop.lessons.rows import EditRow, Register
from goalreel.datasets.tabletop.lessons.steps import Done, walk
from goalreel.datasets.tabletop.sentences import state_of

WARNED = 0.5
"""Share of explicit orders that carry a warning, as a Critic's do."""
_STREAM = 2


def edit_rows(seeds: Iterable[int], size: int = 128, variety: float = 0.0) -> Iterator[EditRow]:
    """A terse and an explicit row a sub-goal; none for a training seed with a held-out composition."""
    for done in walk(seeds, size, _STREAM, variety):
        yield _row(done, "terse", terse(done.goal, done.rng))
        yield _row(done, "explicit", order(done))


def order(done: Done) -> str:
    """The explicit order for a step, half of the time with a warning."""
    others = [name for name in done.layout if name != done.goal.object]
    warning = ""
    if done.rng.random() < WARNED:
        warning = str(done.rng.choice(warnings_for(done.goal, others, done.layout[done.goal.object])))
    return explicit(done.goal, done.layout, done.reached, warning)


def _row(done: Done, register: Register, prompt: str) -> EditRow:
    instruction = state_of(done.goal)
    return EditRow(done.source, prompt, register, instruction, done.goal, done.target, done.origin)
