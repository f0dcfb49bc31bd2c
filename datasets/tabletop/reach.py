"""From two pictures, the scene now and the scene wanted, to the robot's actions. It knows nothing of ROS.

The ROS follower and the closed loop of TabletopBench act by it; in its place stands your own policy: anything
that takes a goal image.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.tabletop.arm import HOME_TIP
from goalreel.datasets.tabletop.env import STATE_NAMES, Tabletop
from goalreel.datasets.tabletop.expert import OPEN, SPEED, TURN, carry
from goalreel.datasets.tabletop.readback import read_back
from goalreel.datasets.tabletop.scene import SceneLayout, TabletopScene
from goalreel.datasets.tabletop.second_look import read_after
from goalreel.datasets.tabletop.turns import read_turns
from goalreel.image import Image

MOVED = 0.02
"""A block farther than this from where the goal image shows it has to be moved (m)."""
AT_HOME = 0.005
"""The arm hides nothing when its tip is this near to its home (m)."""
STILL = 0.002
"""Least change of the state (rad, m) between two readings of an arm that moves."""
ASIDE = np.array([-0.3, 0.5, 0.025])
"""Off the table: where a block is kept that the picture does not show."""

type ArmAction = NDArray[np.float32]

_TIP = slice(STATE_NAMES.index("x"), STATE_NAMES.index("x") + 3)
_YAW = STATE_NAMES.index("yaw")


@dataclass(frozen=True)
class SceneReading:
    """What a picture shows: where the things are (m), and how the blocks are turned (rad)."""

    layout: SceneLayout
    turns: dict[str, float]

    @classmethod
    def read(cls, picture: Image, scene: TabletopScene) -> Self:
        """Read a picture of the scene's own camera.

        Raises:
            ValueError: it is not square.
        """
        return cls.of(picture, read_back(picture.pixels, scene), scene)

    @classmethod
    def read_after(cls, picture: Image, scene: TabletopScene, now: Self) -> Self:
        """Read a picture in which one block at most should be elsewhere than `now`; errors as `read`."""
        return cls.of(picture, read_after(picture.pixels, scene, now.layout, now.turns), scene)

    @classmethod
    def of(cls, picture: Image, layout: SceneLayout, scene: TabletopScene) -> Self:
        return cls(layout, read_turns(picture.pixels, layout, scene.camera))


@dataclass(frozen=True)
class BlockMotion:
    """Which block goes where, and the actions (5,) that take it there."""

    block: str
    actions: list[ArmAction]


class Reacher:
    """Moves one block at a time until the scene looks like the goal image.

    Of the scene it knows which blocks and bowls there are, not where: that it reads off the pictures.
    """

    def __init__(self, scene: TabletopScene) -> None:
        self._scene = scene
        self._rehearsal = Tabletop(scene)

    def motion(self, live: Image, goal: Image) -> BlockMotion | None:
        """What to do next; None when the scene looks like the goal.

        Raises:
            ValueError: a picture cannot be read, or shows no block.
        """
        now = SceneReading.read(live, self._scene)
        wanted = SceneReading.read_after(goal, self._scene, now)
        away = {
            block: float(np.linalg.norm(now.layout[block] - wanted.layout[block]))
            for block in now.turns.keys() & wanted.turns.keys()
        }
        if not away:
            raise ValueError("the pictures have no block in common")
        block = max(away, key=lambda b: away[b])
        return BlockMotion(block, self._rehearse(now, wanted, block)) if away[block] > MOVED else None

    def _rehearse(self, now: SceneReading, wanted: SceneReading, block: str) -> list[ArmAction]:
        """The expert's actions on a table of our own that is laid out as the camera sees it."""
        table = self._rehearsal
        table.reset()
        for name in table.blocks:
            table.place(name, now.layout.get(name, ASIDE), now.turns.get(name, 0.0))
        table.settle(0.2)
        actions = []
        for action, _ in carry(table, block, lambda: (wanted.layout[block], wanted.turns[block])):
            actions.append(action)
            table.step(action)
        return actions


def at_home(state: NDArray[np.floating]) -> bool:
    """Whether the arm is out of the camera's way. `state` (12,) as `STATE_NAMES` says."""
    return bool(np.linalg.norm(state[_TIP] - HOME_TIP) < AT_HOME)


def still(state: NDArray[np.floating], before: NDArray[np.floating]) -> bool:
    """Whether the arm has come to rest, which is some ticks after its last command."""
    return bool(np.abs(state - before).max() < STILL)


def homeward(state: NDArray[np.floating]) -> ArmAction:
    """One action (5,) towards home from an arm that is still, the hand open."""
    away = HOME_TIP - state[_TIP]
    step = away * min(1.0, SPEED / float(np.linalg.norm(away)))
    turn = np.clip(-state[_YAW], -TURN, TURN)
    return np.array([*step, turn, OPEN], np.float32)
