"""Words for a sub-goal: the state it brings about, and the order to the editor in two registers.

Left, right, front and back are as the front camera sees the table.
"""

from collections.abc import Collection
from itertools import product
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.grammar import ROOM, state_of
from goalreel.tabletop.mjcf import FIXED
from goalreel.tabletop.scene import (
    BOWL_HEIGHT,
    BOWL_RADIUS,
    HALF,
    Floats,
    SceneLayout,
    SubGoal,
    is_bowl,
    room_at,
    spots,
)
from goalreel.types import Step

# isort: split
import mujoco

NAMES = {
    "inside": "{object} in {target}",
    "on": "{object} on {target}",
    "left_of": "{object} left of {target}",
    "right_of": "{object} right of {target}",
    "in_front_of": "{object} in front of {target}",
    "behind": "{object} behind {target}",
    "out_of": "{object} out of {target}",
}
TERSE: dict[str, tuple[str, ...]] = {
    "inside": (
        "put the {object} in the {target}",
        "put the {object} in the bowl",
        "put the block in the {target}",
        "drop the block in the bowl",
        "put the {object} over there",
    ),
    "on": (
        "stack the {object} on the {target}",
        "stack the {object} on the other block",
        "put a block on the {target}",
        "stack the blocks",
        "put the {object} up there",
    ),
    "left_of": (
        "move the {object} left of the {target}",
        "move the {object} to the left",
        "move the block left of the {target}",
        "put the {object} next to the {target}",
        "put the {object} over there",
    ),
    "right_of": (
        "move the {object} right of the {target}",
        "move the {object} to the right",
        "move the block right of the {target}",
        "put the {object} next to the {target}",
        "put the {object} over there",
    ),
    "in_front_of": (
        "move the {object} in front of the {target}",
        "move the {object} to the front",
        "move the block in front of the {target}",
        "put the {object} next to the {target}",
        "put the {object} over there",
    ),
    "behind": (
        "move the {object} behind the {target}",
        "move the {object} to the back",
        "move the block behind the {target}",
        "put the {object} next to the {target}",
        "put the {object} over there",
    ),
    "out_of": (
        "take the {object} out of the {target}",
        "take the {object} out",
        "empty the {target}",
        "take the block out of the bowl",
        "put the {object} over there",
    ),
}
"""Kind -> orders as they are first said: the first is plain, the others leave something out."""

UNMOVED = "table, the camera and the light"
"""Things that no order moves."""
COLUMNS = ("far left", "left", "centre", "right", "far right")
ROWS = ("back", "middle", "front")
_AROUND = 0.01 * np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]])
_ROW_EDGES, _COLUMN_EDGES = (0.47, 0.57), (-0.18, -0.06, 0.06, 0.18)


def step_of(goal: SubGoal, prompt: str) -> Step:
    """Make the step as a Planner says it, with an order of either register."""
    name = NAMES[goal.kind].format(object=goal.object, target=goal.target)
    return Step(name=name, instruction=state_of(goal), prompt=prompt)


def terse(goal: SubGoal, rng: np.random.Generator) -> str:
    """Draw one of several short orders; it may leave open which block, which place or which side."""
    template = str(rng.choice(TERSE[goal.kind]))
    return sentence(template.format(object=goal.object, target=goal.target))


def explicit(goal: SubGoal, layout_before: SceneLayout, after: SceneLayout, warning: str = "") -> str:
    """Write an order that leaves nothing open: what, from where to where, and what must stay.

    `layout_before` and `after` hold the block's place now and wanted. `warning`: what to mind, as sentences.
    """
    start, end = zone(layout_before[goal.object]), zone(after[goal.object])
    way = f"from the {start} to the {end}" if start != end else f"within the {end}"
    stay = ", the ".join([*(name for name in layout_before if name != goal.object), UNMOVED])
    sentences = (sentence(goal.text), warning, f"It goes {way}.", f"Leave the {stay} as they are.")
    return " ".join(s for s in sentences if s)


def zone(at: NDArray[np.float64]) -> str:
    """Name a fifteenth of the table, such as `front far left`, from a position (3,) in m."""
    row, column = np.searchsorted(_ROW_EDGES, at[0]), np.searchsorted(_COLUMN_EDGES, at[1])
    return f"{ROWS[row]} {COLUMNS[column]}"


def zones(layout: SceneLayout, goal: SubGoal) -> dict[str, NDArray[np.float64]]:
    """Find the zones with room for the goal's block, the roomiest first, each with its roomiest place (3,).

    No place is nearer than a centimetre to its zone's border.
    """
    inner = [p for p in spots(layout, goal) if len({zone(p + by) for by in _AROUND}) == 1]
    free_zones = [(room, p) for p in inner if (room := room_at(layout, goal, p)) >= ROOM]
    places: dict[str, NDArray[np.float64]] = {}
    for _, place in sorted(free_zones, key=itemgetter(0), reverse=True):
        places.setdefault(zone(place), place)
    return places


def sentence(clause: str) -> str:
    """Add a capital and a full stop."""
    return f"{clause[0].upper()}{clause[1:]}."


# isort: split

MOSTLY = 0.6
"""Share of an object's points behind the arm from which it cannot be told any more where it is."""
_CUBE = HALF * np.array(list(product((-1, 1), repeat=3)), np.float64)
_ANGLES = np.linspace(0, 2 * np.pi, 8, endpoint=False)
_RIM = np.stack([BOWL_RADIUS * np.cos(_ANGLES), BOWL_RADIUS * np.sin(_ANGLES), np.full(8, BOWL_HEIGHT)], 1)


def hidden(env: Tabletop, layout: SceneLayout, in_hand: Collection[str]) -> tuple[str, ...]:
    """Name the objects that the arm, or what it holds, hides from the scene's camera, in layout order."""
    camera = np.array(FIXED[env.scene.camera].position)
    arm = _arm(env) | {env.model.body(name).id for name in in_hand}
    return tuple(
        name
        for name, at in layout.items()
        if name not in in_hand
        and np.mean([_behind(env, camera, at + corner, arm) for corner in (_RIM if is_bowl(name) else _CUBE)])
        >= MOSTLY
    )


def _arm(env: Tabletop) -> frozenset[int]:
    """List the arm's bodies: all that hang from its base."""
    root = env.model.body_rootid[env.model.site_bodyid[env.model.site("tcp").id]]
    return frozenset(np.flatnonzero(env.model.body_rootid == root).tolist())


def _behind(env: Tabletop, camera: Floats, point: Floats, arm: frozenset[int]) -> bool:
    """Tell whether the first thing between camera and point is one of the bodies `arm`."""
    geom = np.array([-1], np.int32)
    distance = mujoco.mj_ray(env.model, env.data, camera, point - camera, None, 1, -1, geom)
    return 0 <= distance < 1 and int(env.model.geom_bodyid[geom[0]]) in arm
