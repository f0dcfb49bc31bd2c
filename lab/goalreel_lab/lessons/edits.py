"""(source, prompt) -> goal image: every sub-goal once in each register."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from goalreel.tabletop.env import teleport
from goalreel.tabletop.grammar import state_of
from goalreel_lab.lessons.grounding import warnings_for
from goalreel_lab.lessons.prompts import explicit, terse, zones
from goalreel_lab.lessons.rows import EditRow, Register
from goalreel_lab.lessons.steps import Done, walk

WARNED = 0.5
"""Share of explicit orders that carry a warning, as a Critic's do."""
_STREAM = 2


def edit_rows(seeds: Iterable[int], size: int = 128, variety: float = 0.0) -> Iterator[EditRow]:
    """Make a terse and an explicit row for each sub-goal.

    A training seed with a held-out composition gives none.

    A block that leaves its bowl goes to any zone that has room: an editor has to draw where the order says.
    """
    for done in walk(seeds, size, _STREAM, variety):
        target = _anywhere(done) if done.goal.kind == "out_of" else done
        yield _row(target, "terse", terse(target.goal, target.rng))
        yield _row(target, "explicit", order(target))


def _anywhere(done: Done) -> Done:
    """Draw a zone that has room and make the step lead there; a full table leaves the step as it is."""
    goal, layout = done.goal, done.layout
    places = list(zones(layout, goal).values())
    if not places:
        return done
    done.env.set_state(done.before)
    after = teleport(done.env, goal, places[int(done.rng.integers(len(places)))])
    return replace(done, after=after, target=done.studio.look(done.env), reached=done.env.layout())


def order(done: Done) -> str:
    """Write the explicit order for a step, half of the time with a warning."""
    others = [name for name in done.layout if name != done.goal.object]
    warning = ""
    if done.rng.random() < WARNED:
        warning = str(done.rng.choice(warnings_for(done.goal, others, done.layout[done.goal.object])))
    return explicit(done.goal, done.layout, done.reached, warning)


def _row(done: Done, register: Register, prompt: str) -> EditRow:
    instruction = state_of(done.goal)
    return EditRow(done.source, prompt, register, instruction, done.goal, done.target, done.origin)
