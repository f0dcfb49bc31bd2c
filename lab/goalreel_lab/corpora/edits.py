"""(source, prompt) -> goal image: every sub-goal once in each register."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.tabletop.env import TabletopState, teleport
from goalreel.tabletop.grammar import ROOM, state_of
from goalreel.tabletop.scene import (
    BESIDE_MAX,
    BESIDE_SLACK,
    BOWL_FLOOR,
    BOWL_RADIUS,
    DIRECTIONS,
    HALF,
    KINDS,
    WORKSPACE,
    Floats,
    SceneLayout,
    SubGoal,
    find_spot,
    is_bowl,
    shows,
)
from goalreel_lab.corpora.composition import held_out
from goalreel_lab.corpora.grounding import Change, compare, warnings_for
from goalreel_lab.corpora.plans import Done, walk
from goalreel_lab.corpora.prompts import explicit, terse, zones
from goalreel_lab.corpora.rows import EditRow, Mistake, Register

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


SURE = 0.015
"""Distance of a chosen place from the predicate's limit (m): more than a picture's reading is off."""
BEYOND = 0.045
"""Largest distance of a near miss outside the limit (m)."""

type BlockPlace = tuple[Floats, float]
"""A block's centre (3,) in m and its yaw in rad."""


def hits(rng: np.random.Generator, layout: SceneLayout, goal: SubGoal, count: int) -> Iterator[BlockPlace]:
    """Yield places where the sub-goal holds, not only where the expert would put the block."""
    for _ in range(count):
        yield _hit(rng, layout[goal.target], goal), float(rng.uniform(-0.6, 0.6))


def misses(rng: np.random.Generator, layout: SceneLayout, goal: SubGoal, count: int) -> Iterator[BlockPlace]:
    """Yield places where it just does not hold; none for `out_of`, which has no near side."""
    if goal.kind == "out_of":
        return
    for _ in range(count):
        spot = _miss(rng, layout[goal.target], goal)
        # In full view of the front camera.
        if all(a - SURE <= v <= b + SURE for v, (a, b) in zip(spot[:2], WORKSPACE, strict=True)):
            yield spot, float(rng.uniform(-0.6, 0.6))


def _hit(rng: np.random.Generator, target: Floats, goal: SubGoal) -> Floats:
    if goal.kind == "inside":
        return _around(rng, target, rng.uniform(0, 0.012), BOWL_FLOOR + HALF)
    if goal.kind == "on":
        return _around(rng, target, rng.uniform(0, 0.010), target[2] + 2 * HALF)
    if goal.kind == "out_of":
        (x, y) = (rng.uniform(low, high) for low, high in WORKSPACE)
        return np.array([x, y, HALF])
    along = rng.uniform(_nearest(goal), BESIDE_MAX - SURE)
    return _beside(target, goal, along, rng.uniform(-1, 1) * (BESIDE_SLACK - SURE))


def _miss(rng: np.random.Generator, target: Floats, goal: SubGoal) -> Floats:
    if goal.kind == "inside":
        return _around(rng, target, BOWL_RADIUS + 1.5 * HALF + rng.uniform(0, BEYOND - SURE), HALF)
    if goal.kind == "on":
        return _around(rng, target, 2 * HALF + rng.uniform(0.008, BEYOND - SURE), HALF)
    outside = rng.uniform(SURE, BEYOND)
    if rng.random() < 0.5:
        return _beside(target, goal, BESIDE_MAX + outside, rng.uniform(-1, 1) * (BESIDE_SLACK - SURE))
    side = math.copysign(BESIDE_SLACK + outside, rng.uniform(-1, 1))
    return _beside(target, goal, rng.uniform(_nearest(goal), BESIDE_MAX - SURE), side)


def _nearest(goal: SubGoal) -> float:
    return (BOWL_RADIUS if is_bowl(goal.target) else HALF) + 1.5 * HALF + 0.002


def _around(rng: np.random.Generator, target: Floats, distance: float, height: float) -> Floats:
    angle = rng.uniform(-math.pi, math.pi)
    return np.array([target[0] + distance * math.cos(angle), target[1] + distance * math.sin(angle), height])


def _beside(target: Floats, goal: SubGoal, along: float, across: float) -> Floats:
    x, y = DIRECTIONS[goal.kind]
    offset = along * np.array([x, y]) + across * np.array([-y, x])
    return np.array([*(target[:2] + offset), HALF])


TRIES = 4
SAME = 0.004
"""Largest shift of a thing that was to stay (m)."""
CLEARLY = 0.05
"""Least shift of a thing that is said to have moved (m)."""
SEEN = 20
"""Pixels that must differ from the target by more than FAINT (of 255) at 128 px, in proportion at others."""
FAINT = 40
SHAPES = ((1.7, 0.6, 1.0), (0.6, 0.6, 1.7), (1.5, 1.5, 0.5), (0.55, 0.55, 0.55), (1.45, 1.45, 1.45))
"""Stretch of a deformed block along its axes."""


@dataclass(frozen=True)
class Made:
    """A picture and what it shows: where things are, less what is gone, and what is misshapen."""

    image: Image
    layout: SceneLayout
    misshapen: tuple[str, ...] = ()


def make(done: Done, mistake: Mistake) -> Made | None:
    """Make a candidate with this mistake; None where the scene does not offer one."""
    picture = _MAKERS[mistake](done)
    if picture is None or not _visible(picture.image, done.target):
        return None
    change = compare(done.layout, picture.layout, done.goal, picture.misshapen)
    return picture if fits(mistake, change, done.goal) else None


def fits(mistake: Mistake, change: Change, goal: SubGoal) -> bool:
    """Tell whether a change is this mistake and no other."""
    moved, others = goal.object in change.moved, change.others(goal)
    whole = not change.gone and not change.misshapen
    if mistake == "vanished":
        return bool(change.gone) and not others and not change.misshapen
    if mistake == "deformed":
        return bool(change.misshapen) and change.reached and not others and not change.gone
    if mistake == "also_moved":
        return whole and change.reached and bool(others)
    if change.reached or not whole:
        return False
    if mistake == "nothing_moved":
        return not change.moved
    return not moved and bool(others) if mistake == "wrong_object" else moved and not others


def relabel(done: Done) -> Done | None:
    """Find another sub-goal of the same scene, which the true target of this one does not show.

    It differs in one word alone: the relation, the target or the block (counterfactual relabelling,
    RoboReward, arXiv 2601.00675). None where no such sub-goal can be reached, or the two targets look alike.
    """
    near = _neighbours(done)
    for i in done.rng.permutation(len(near))[:TRIES]:
        done.env.set_state(done.before)
        try:
            after = teleport(done.env, near[i])
        except ValueError:
            continue
        target, reached = done.studio.look(done.env), done.env.layout()
        right = compare(done.layout, reached, near[i]).success(near[i])
        if right and _visible(done.target, target):
            return replace(done, goal=near[i], after=after, target=target, reached=reached)
    return None


def vary(done: Done) -> Made:
    """Make a right picture with the block elsewhere within tolerance; the target if none is found."""
    for spot, yaw in hits(done.rng, done.layout, done.goal, TRIES):
        picture = _put(done, done.before, spot, yaw)
        if picture and compare(done.layout, picture.layout, done.goal).success(done.goal):
            return picture
    return Made(done.target, done.reached)


def _nothing_moved(done: Done) -> Made:
    return Made(done.source, done.layout)


def _wrong_object(done: Done) -> Made | None:
    blocks = [b for b in done.env.blocks if b not in (done.goal.object, done.goal.target)]
    for block in done.rng.permutation(blocks)[:TRIES]:
        same = SubGoal(done.goal.kind, str(block), done.goal.target)
        if done.goal.kind != "out_of" and (picture := _teleported(done, done.before, same)):
            return picture
    return _elsewhere(done, done.before, blocks)


def _wrong_place(done: Done) -> Made | None:
    return _elsewhere(done, done.before, [done.goal.object])


def _also_moved(done: Done) -> Made | None:
    others = [b for b in done.env.blocks if b not in (done.goal.object, done.goal.target)]
    return _elsewhere(done, done.after, others)


def _near_miss(done: Done) -> Made | None:
    for spot, yaw in misses(done.rng, done.layout, done.goal, TRIES):
        picture = _put(done, done.before, spot, yaw)
        if picture and fits("near_miss", compare(done.layout, picture.layout, done.goal), done.goal):
            return picture
    return None


def _vanished(done: Done) -> Made:
    env, name = done.env, _culprit(done, [*done.env.blocks, *done.env.bowls])
    env.set_state(done.after)
    body = env.model.body(name).id
    geoms = np.flatnonzero(env.model.geom_bodyid == body)
    paint = env.model.geom_rgba[geoms, 3].copy()
    env.model.geom_rgba[geoms, 3] = 0
    image = done.studio.look(env)
    env.model.geom_rgba[geoms, 3] = paint
    return Made(image, {n: p for n, p in done.reached.items() if n != name})


def _deformed(done: Done) -> Made:
    env, name = done.env, _culprit(done, done.env.blocks)
    env.set_state(done.after)
    geom = env.model.geom(name).id
    stretch = np.array(SHAPES[int(done.rng.integers(len(SHAPES)))])
    env.model.geom_size[geom] = HALF * stretch
    env.data.geom_xpos[geom, 2] += HALF * (stretch[2] - 1)  # it still stands on what it stood on
    image = done.studio.look(env)
    env.model.geom_size[geom] = HALF
    return Made(image, done.reached, (name,))


_MAKERS: Mapping[Mistake, Callable[[Done], Made | None]] = {
    "nothing_moved": _nothing_moved,
    "wrong_object": _wrong_object,
    "wrong_place": _wrong_place,
    "also_moved": _also_moved,
    "vanished": _vanished,
    "deformed": _deformed,
    "near_miss": _near_miss,
}
MADE: tuple[Mistake, ...] = tuple(_MAKERS)
"""The mistakes that pictures are made for, those of TabletopBench; an editor's own come from `judged`."""


def _culprit(done: Done, names: tuple[str, ...] | list[str]) -> str:
    """Choose the block of the sub-goal half of the time, else any."""
    return done.goal.object if done.rng.random() < 0.5 else str(done.rng.choice(names))


def _elsewhere(done: Done, start: TabletopState, blocks: list[str]) -> Made | None:
    """Move one of the blocks somewhere it was not asked to go, as if by another sub-goal."""
    for goal in alternatives(done, blocks):
        if picture := _teleported(done, start, goal):
            return picture
    return None


def alternatives(done: Done, blocks: list[str]) -> Iterator[SubGoal]:
    """Yield sub-goals of these blocks that nobody asked for."""
    every = [
        goal
        for goal in _sub_goals(done, blocks)
        if is_bowl(goal.target) == (goal.kind == "inside") and goal.kind != "out_of"
    ]
    for i in done.rng.permutation(len(every))[:TRIES]:
        if every[i] != done.goal and not held_out(every[i : i + 1]):
            yield every[i]


def _neighbours(done: Done) -> list[SubGoal]:
    """List sub-goals one word away that hold neither before this one nor after it."""
    goal_names = vars(done.goal).values()
    return [
        goal
        for goal in _sub_goals(done, done.env.blocks)
        if sum(a != b for a, b in zip(vars(goal).values(), goal_names, strict=True)) == 1
        and find_spot(done.layout, goal)[1] >= ROOM
        and not (shows(done.layout, goal) or shows(done.reached, goal) or held_out([goal]))
    ]


def _sub_goals(done: Done, blocks: Sequence[str]) -> Iterator[SubGoal]:
    """Yield every sub-goal that makes sense for these blocks."""
    for block, target, kind in product(blocks, (*done.env.blocks, *done.env.bowls), KINDS):
        bowl = is_bowl(target)
        if target != block and not (kind == "on" if bowl else kind in ("inside", "out_of")):
            yield SubGoal(kind, block, target)


def _teleported(done: Done, start: TabletopState, goal: SubGoal) -> Made | None:
    """Take the picture after another sub-goal; None if it cannot be, hardly moves, or shifts other things."""
    done.env.set_state(start)
    layout_before = done.env.layout()
    try:
        teleport(done.env, goal)
    except ValueError:
        return None
    return _taken(done, layout_before, goal.object)


def _put(done: Done, start: TabletopState, spot: NDArray[np.float64], yaw: float) -> Made | None:
    """Take the picture with the sub-goal's block at a spot, if it stays there and shifts nothing else."""
    env, block = done.env, done.goal.object
    env.set_state(start)
    layout_before = env.layout()
    env.home()
    env.place(block, spot, yaw)
    env.settle(0.4)
    rests = env.still(block) and np.linalg.norm(env.layout()[block] - spot) < 2 * SAME
    return _taken(done, layout_before, block) if rests else None


def _taken(done: Done, layout_before: SceneLayout, moved: str) -> Made | None:
    now = done.env.layout()
    shifts = {name: float(np.linalg.norm(now[name] - layout_before[name])) for name in now}
    clear = shifts.pop(moved) > CLEARLY and max(shifts.values()) < SAME
    return Made(done.studio.look(done.env), now) if clear else None


def _visible(image: Image, target: Image) -> bool:
    away = np.abs(image.pixels.astype(int) - target.pixels).max(-1) > FAINT
    return bool(away.mean() >= SEEN / 128**2)
