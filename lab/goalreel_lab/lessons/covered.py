"""What the arm, and what it holds, hides from a camera: by rays to an object's corners."""

from collections.abc import Collection
from itertools import product

import numpy as np

from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.mjcf import FIXED
from goalreel.tabletop.scene import BOWL_HEIGHT, BOWL_RADIUS, HALF, Floats, SceneLayout, is_bowl

# isort: split
import mujoco

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
        and np.mean([_behind(env, camera, at + corner, arm) for corner in _points(name)]) >= MOSTLY
    )


def _points(name: str) -> Floats:
    return _RIM if is_bowl(name) else _CUBE


def _arm(env: Tabletop) -> frozenset[int]:
    """List the arm's bodies: all that hang from its base."""
    root = env.model.body_rootid[env.model.site_bodyid[env.model.site("tcp").id]]
    return frozenset(np.flatnonzero(env.model.body_rootid == root).tolist())


def _behind(env: Tabletop, camera: Floats, point: Floats, arm: frozenset[int]) -> bool:
    """Tell whether the first thing between camera and point is one of the bodies `arm`."""
    geom = np.array([-1], np.int32)
    distance = mujoco.mj_ray(env.model, env.data, camera, point - camera, None, 1, -1, geom)
    return 0 <= distance < 1 and int(env.model.geom_bodyid[geom[0]]) in arm
