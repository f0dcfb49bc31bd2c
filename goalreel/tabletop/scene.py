"""The objects on the table: how they look, what is true of where they are, and where one may be set down."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

HALF = 0.025
"""Half the edge of a block (m)."""
BOWL_RADIUS = 0.072
"""Outer radius of a bowl's rim (m)."""
BOWL_HEIGHT = 0.04
BOWL_FLOOR = 0.008
BOWL_LIP = 0.009
"""Depth to which the rim's colour reaches inside (m)."""
WORKSPACE = ((0.37, 0.67), (-0.27, 0.27))
"""Area in which objects may stand, ((x_min, x_max), (y_min, y_max)) in m."""

COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (0.86, 0.10, 0.10),
    "orange": (0.98, 0.48, 0.03),
    "yellow": (0.98, 0.86, 0.10),
    "green": (0.10, 0.62, 0.18),
    "blue": (0.10, 0.30, 0.88),
    "purple": (0.55, 0.16, 0.66),
}

type Paint = tuple[float, float, float]
"""A colour, 0-1 each."""
type Floats = NDArray[np.float64]
type SceneLayout = dict[str, Floats]
"""Object name -> position (3,) in m: a block's centre, the centre of a bowl's foot (z = 0)."""


@dataclass(frozen=True)
class Placed:
    """An object at the start of an episode; its name is `COLOUR block` or `COLOUR bowl`."""

    name: str
    x: float
    y: float
    z: float = 0.0
    yaw: float = 0.0
    paint: Paint | None = None
    """A shade of the colour that its name says, if not the plain one."""

    @property
    def rgb(self) -> Paint:
        return COLOURS[colour(self.name)] if self.paint is None else self.paint


@dataclass(frozen=True)
class Look:
    """Table texture and light. `pattern` is MuJoCo's builtin texture, `speckle` the share of marks on it,
    `tint` the light's colour, `glaze` what bowls are inside."""

    table: Paint
    shade: Paint
    pattern: str
    repeat: int
    speckle: float
    brightness: float
    light: tuple[float, float]
    tint: Paint = (1.0, 1.0, 1.0)
    glaze: Paint = (0.96, 0.95, 0.92)


@dataclass(frozen=True)
class TabletopScene:
    """Blocks, bowls and look of one episode; nothing in it moves."""

    blocks: tuple[Placed, ...]
    bowls: tuple[Placed, ...]
    look: Look
    camera: str = "front"
    """The fixed camera that its pictures are taken with."""

    def layout(self) -> SceneLayout:
        """Give the position of everything at the start."""
        return {o.name: np.array([o.x, o.y, o.z]) for o in (*self.blocks, *self.bowls)}


def colour(name: str) -> str:
    """Take the colour word of an object's name."""
    return name.split()[0]


def is_bowl(name: str) -> bool:
    return name.endswith(" bowl")


TABLES = {
    "oak": ((0.76, 0.63, 0.48), (0.72, 0.59, 0.44)),
    "walnut": ((0.46, 0.36, 0.29), (0.42, 0.33, 0.26)),
    "slate": ((0.36, 0.39, 0.42), (0.33, 0.36, 0.39)),
    "linen": ((0.84, 0.82, 0.77), (0.79, 0.77, 0.72)),
    "sage": ((0.60, 0.65, 0.58), (0.56, 0.61, 0.54)),
}


def sample_look(rng: np.random.Generator) -> Look:
    """Draw a table and a light, pale and grey enough that every object colour stands out."""
    table, shade = TABLES[str(rng.choice(list(TABLES)))]
    pattern = str(rng.choice(["flat", "checker", "gradient"]))
    return Look(
        table=table,
        shade=shade,
        pattern=pattern,
        repeat=int(rng.integers(4, 14)) if pattern == "checker" else 1,
        speckle=float(rng.uniform(0.01, 0.06)) if pattern == "flat" else 0.0,
        brightness=float(rng.uniform(0.85, 1.1)),
        light=(float(rng.uniform(0.1, 0.9)), float(rng.uniform(-0.6, 0.6))),
    )


def sample_scene(rng: np.random.Generator, blocks: int, bowls: int) -> TabletopScene | None:
    """Draw colours, poses, table and light; None when the objects did not fit.

    A bowl takes a block's colour half of the time, and starts with a block in it one time in four.
    """
    block_colours = rng.permutation(list(COLOURS))[:blocks]
    matching = rng.permutation(block_colours)[: rng.binomial(bowls, 0.5)]
    rest = [c for c in rng.permutation(list(COLOURS)) if c not in matching]
    bowl_colours = rng.permutation([*matching, *rest[: bowls - len(matching)]])
    circles: list[tuple[float, float, float]] = []
    placed_bowls, placed_blocks = list[Placed](), list[Placed]()
    for name in bowl_colours:
        if (at := _free(rng, circles, BOWL_RADIUS + 0.010)) is None:
            return None
        placed_bowls.append(Placed(f"{name} bowl", *at))
    loaded = [b for b in placed_bowls if rng.random() < 0.25]
    for name in block_colours:
        yaw = float(rng.uniform(-0.6, 0.6))
        home = next((b for b in loaded if colour(b.name) != name), None)
        if home is not None:
            loaded.remove(home)
            placed_blocks.append(Placed(f"{name} block", home.x, home.y, BOWL_FLOOR + HALF, yaw))
            continue
        if (at := _free(rng, circles, 0.050)) is None:
            return None
        placed_blocks.append(Placed(f"{name} block", *at, HALF, yaw))
    order = rng.permutation(len(placed_blocks))
    return TabletopScene(tuple(placed_blocks[i] for i in order), tuple(placed_bowls), sample_look(rng))


def _free(
    rng: np.random.Generator, circles: list[tuple[float, float, float]], radius: float
) -> tuple[float, float] | None:
    """Draw a place `radius` clear of the circles, and add it to them; None when there was none to find."""
    for _ in range(200):
        (x, y) = (float(rng.uniform(low + 0.02, high - 0.02)) for low, high in WORKSPACE)
        if all(np.hypot(x - a, y - b) > radius + r for a, b, r in circles):
            circles.append((x, y, radius))
            return x, y
    return None


type GoalKind = Literal["inside", "on", "left_of", "right_of", "in_front_of", "behind", "out_of"]
KINDS: tuple[GoalKind, ...] = get_args(GoalKind.__value__)

DIRECTIONS = {
    "left_of": np.array([0.0, -1.0]),
    "right_of": np.array([0.0, 1.0]),
    "in_front_of": np.array([1.0, 0.0]),
    "behind": np.array([-1.0, 0.0]),
}
"""World (x, y) direction from the target to the object."""

BESIDE_MIN, BESIDE_MAX, BESIDE_SLACK = 0.06, 0.20, 0.04
"""`left_of` and its like hold from 6 to 20 cm along the direction and within 4 cm across it."""

LEVEL = 0.012
"""Heights that differ by less are the same (m)."""

TEXTS = {
    "inside": "put the {object} in the {target}",
    "on": "stack the {object} on the {target}",
    "left_of": "move the {object} to the left of the {target}",
    "right_of": "move the {object} to the right of the {target}",
    "in_front_of": "move the {object} in front of the {target}",
    "behind": "move the {object} behind the {target}",
    "out_of": "take the {object} out of the {target}",
}
"""The canonical sub-task sentence of every kind."""


@dataclass(frozen=True)
class SubGoal:
    """One thing that must become true: `kind` of the block `object` with respect to `target`."""

    kind: GoalKind
    object: str
    target: str

    @property
    def text(self) -> str:
        return TEXTS[self.kind].format(object=self.object, target=self.target)


def inside(layout: SceneLayout, block: str, bowl: str) -> bool:
    """Tell whether the block's centre is within the bowl, and so low that it does not stick out."""
    p, q = layout[block], layout[bowl]
    return bool(np.linalg.norm(p[:2] - q[:2]) < 0.8 * BOWL_RADIUS and p[2] < BOWL_HEIGHT + HALF)


def on(layout: SceneLayout, block: str, base: str) -> bool:
    """Tell whether the block rests on the base, off centre by less than 3 cm."""
    p, q = layout[block], layout[base]
    return bool(np.linalg.norm(p[:2] - q[:2]) < 1.2 * HALF and abs(p[2] - q[2] - 2 * HALF) < LEVEL)


def displacement(layout: SceneLayout, other: SceneLayout, name: str) -> float:
    """Compute how far a thing is from where it is in another layout (m)."""
    return float(np.linalg.norm(layout[name] - other[name]))


def free(layout: SceneLayout, block: str) -> bool:
    """Tell whether nothing stands on the block."""
    return not any(on(layout, other, block) for other in layout if other != block)


def beside(layout: SceneLayout, block: str, target: str, kind: str) -> bool:
    """Tell whether the block stands on the table, next to the target in the direction `kind`."""
    offset = layout[block][:2] - layout[target][:2]
    along = float(offset @ DIRECTIONS[kind])
    across = float(np.abs(offset - along * DIRECTIONS[kind]).max())
    near = BESIDE_MIN <= along <= BESIDE_MAX and across <= BESIDE_SLACK
    return bool(near and abs(layout[block][2] - HALF) < LEVEL)


def shows(layout: SceneLayout, goal: SubGoal) -> bool:
    """Tell whether the layout satisfies the sub-goal."""
    if goal.kind == "inside":
        return inside(layout, goal.object, goal.target)
    if goal.kind == "on":
        return on(layout, goal.object, goal.target)
    if goal.kind == "out_of":
        return not inside(layout, goal.object, goal.target) and resting(layout, goal.object)
    return beside(layout, goal.object, goal.target, goal.kind)


def resting(layout: SceneLayout, block: str) -> bool:
    """Tell whether the block stands on the table, in a bowl or on another block."""
    if abs(layout[block][2] - HALF) < LEVEL:
        return True
    others = [name for name in layout if name != block]
    return any(inside(layout, block, o) if is_bowl(o) else on(layout, block, o) for o in others)


BLOCK_CLEARANCE = 0.090
"""Least distance between centres, so that open fingers fit beside a neighbour (m)."""
BOWL_CLEARANCE = BOWL_RADIUS + 0.043
REACH = 0.03
"""Margin around the starting area in which a block may be set down (m)."""


def find_spot(layout: SceneLayout, goal: SubGoal) -> tuple[NDArray[np.float64], float]:
    """Find where the block's centre should come to rest, (3,), and the room to spare there in m.

    It is the first place with 2 cm to spare, else the roomiest; below 0 something stands too close.
    """
    best, room = None, -np.inf
    for place in spots(layout, goal):
        clearance = room_at(layout, goal, place)
        if clearance > room:
            best, room = place, clearance
        if room >= 0.02:
            break
    assert best is not None
    return best, float(room)


def spots(layout: SceneLayout, goal: SubGoal) -> Iterator[NDArray[np.float64]]:
    """Yield places that satisfy the goal, best first."""
    target = layout[goal.target]
    if goal.kind == "inside":
        yield np.array([*target[:2], BOWL_FLOOR + HALF])
    elif goal.kind == "on":
        yield target + np.array([0, 0, 2 * HALF])
    elif goal.kind == "out_of":
        grid = product(np.arange(0.38, 0.68, 0.03), np.arange(-0.27, 0.28, 0.03), [HALF])
        # Nearest first, but rather towards the front camera than hidden behind the bowl.
        yield from sorted(map(np.array, grid), key=lambda p: np.linalg.norm(p[:2] - target[:2]) - 0.5 * p[0])
    else:
        nearest = BOWL_CLEARANCE + 0.005 if is_bowl(goal.target) else BLOCK_CLEARANCE + 0.005
        for distance in np.arange(nearest, nearest + 0.055, 0.01):
            yield np.array([*(target[:2] + distance * DIRECTIONS[goal.kind]), HALF])


def room_at(layout: SceneLayout, goal: SubGoal, place: NDArray[np.float64]) -> float:
    """The metres from a place (3,) for the goal's block to its neighbours, and to the end of its reach."""
    room = min(min(v - low, high - v) for v, (low, high) in zip(place[:2], WORKSPACE, strict=True)) + REACH
    for name, at in layout.items():
        stacked = goal.kind in ("inside", "on") and np.linalg.norm(at[:2] - layout[goal.target][:2]) < 0.03
        if name != goal.object and not stacked:
            clearance = BOWL_CLEARANCE if is_bowl(name) else BLOCK_CLEARANCE
            room = min(room, float(np.linalg.norm(place[:2] - at[:2])) - clearance)
    return float(room)
