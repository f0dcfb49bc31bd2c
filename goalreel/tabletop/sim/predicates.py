"""What is true of a layout: pure geometry over object positions, whether measured or read off a picture.

Left, right, in front and behind are as the FRONT CAMERA sees the table, facing the robot: in front is nearer
to the camera (world +x), left is the picture's left (world -y, the robot's own right).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from goalreel.tabletop.sim.scene import BOWL_HEIGHT, BOWL_RADIUS, HALF, SceneLayout, is_bowl

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
    """Tell whether the block's centre is within the bowl and below what would stick out of it."""
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
