"""What stands on the table and how it looks: a frozen description, before any physics."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HALF = 0.025
"""Half the edge of a block (m)."""
BOWL_RADIUS = 0.072
"""Outer radius of a bowl's rim (m)."""
BOWL_HEIGHT = 0.04
BOWL_FLOOR = 0.008
BOWL_LIP = 0.009
"""How far down the inside the rim's colour reaches (m)."""
WORKSPACE = ((0.37, 0.67), (-0.27, 0.27))
"""Where objects may stand, ((x_min, x_max), (y_min, y_max)) in m."""

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
    placed_bowls = []
    placed_blocks = []
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
    """Draw a place `radius` clear of the circles, which it joins; None when there was none to find."""
    for _ in range(200):
        (x, y) = (float(rng.uniform(low + 0.02, high - 0.02)) for low, high in WORKSPACE)
        if all(np.hypot(x - a, y - b) > radius + r for a, b, r in circles):
            circles.append((x, y, radius))
            return x, y
    return None
