"""From two pictures, the scene now and the scene wanted, to the robot's actions. It knows nothing of ROS.

The ROS follower and the closed loop of TabletopBench act by it; in its place stands your own policy: anything
that takes a goal image.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.tabletop import expert, readback
from goalreel.tabletop.env import HOME_TIP, STATE_NAMES, Tabletop
from goalreel.tabletop.scene import (
    HALF,
    LEVEL,
    Floats,
    SceneLayout,
    SubGoal,
    TabletopScene,
    find_spot,
    free,
    inside,
    is_bowl,
)

MOVED = 0.03
"""A block farther than this from where the goal image shows it has to be moved (m). Pictures drawn one after
the other drift by less."""
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
    """Contents of a picture: places of the things (m), and turns of the blocks (rad)."""

    layout: SceneLayout
    turns: dict[str, float]

    @classmethod
    def read(cls, picture: Image, scene: TabletopScene, before: Self | None = None) -> Self:
        """Read a square picture of the scene's own camera; at most one block has moved since `before`."""
        layout = (
            readback.read_back(picture.pixels, scene)
            if before is None
            else readback.read_after(picture.pixels, scene, before.layout, before.turns)
        )
        return cls(layout, readback.read_turns(picture.pixels, layout, scene.camera))


@dataclass(frozen=True)
class BlockMotion:
    """Which block goes where, and the actions (5,) that take it there."""

    block: str
    actions: list[ArmAction]


class Reacher:
    """Moves a block until it is where the goal image shows it.

    Of the scene it knows which blocks and bowls there are, not where: that it reads off the pictures.
    """

    def __init__(self, scene: TabletopScene) -> None:
        self._scene = scene
        self._rehearsal = Tabletop(scene)
        self._seen: SceneReading | None = None
        self._goal: Image | None = None
        self._block: str | None = None

    def motion(self, live: Image, goal: Image) -> BlockMotion | None:
        """Plan the next motion; None when the block to move is where the goal shows it.

        For one goal image one block is moved: the one farthest from where it is shown, of those that nothing
        stands on. What stands on a block, or in a bowl, goes to the middle of where that is now.

        Raises:
            ValueError: a picture cannot be read, or shows no block.
        """
        now = self._look(live)
        target = SceneReading.read(goal, self._scene, now)
        blocks = now.turns.keys() & target.turns.keys()
        if not blocks:
            raise ValueError("the pictures have no block in common")
        if goal != self._goal:
            self._goal, self._block = goal, None
        movable = [b for b in blocks if self._block in (b, None) and free(now.layout, b)]
        places = {b: _place(now.layout, target.layout[b], b) for b in movable}
        away = {b: float(np.linalg.norm(now.layout[b] - place)) for b, place in places.items()}
        block = max(away, key=away.__getitem__, default=None)
        if block is None or away[block] <= MOVED:
            return None
        self._block = block
        return BlockMotion(block, self._rehearse(now, block, places[block], target.turns[block]))

    def _look(self, live: Image) -> SceneReading:
        """Read the scene now; what a tower hides is where it was last seen."""
        now = SceneReading.read(live, self._scene, self._seen)
        if self._seen is not None:
            now = SceneReading(self._seen.layout | now.layout, self._seen.turns | now.turns)
        self._seen = now
        return now

    def _rehearse(self, now: SceneReading, block: str, place: Floats, turn: float) -> list[ArmAction]:
        """Run the expert on a table of our own, laid out as the camera sees it, and give its actions."""
        table = self._rehearsal
        table.reset()
        for name in table.blocks:
            table.place(name, now.layout.get(name, ASIDE), now.turns.get(name, 0.0))
        table.settle(0.2)
        actions = []
        for action, _ in expert.carry(table, block, lambda: (place, turn)):
            actions.append(action)
            table.step(action)
        return actions


def _place(now: SceneLayout, position: Floats, block: str) -> Floats:
    """Choose where a block goes, (3,) in m, pictured at `position`: to the middle of what it is in or on."""
    moved = now | {block: position}
    for bowl in filter(is_bowl, now):
        if inside(moved, block, bowl):
            return find_spot(now, SubGoal("inside", block, bowl))[0]
    # What is shown a block higher stands on one, however far off centre it looks.
    below = {b: position - now[b] for b in now.keys() - {block} if not is_bowl(b)}
    off = {b: float(np.linalg.norm(d[:2])) for b, d in below.items() if abs(d[2] - 2 * HALF) < LEVEL}
    base = min(off, key=off.__getitem__, default=None)
    if base is not None and off[base] < 2 * HALF:
        return find_spot(now, SubGoal("on", block, base))[0]
    return position


def at_home(state: NDArray[np.floating]) -> bool:
    """Tell whether the arm is out of the camera's way. `state` (12,) is named by `STATE_NAMES`."""
    return bool(np.linalg.norm(state[_TIP] - HOME_TIP) < AT_HOME)


def still(state: NDArray[np.floating], state_before: NDArray[np.floating]) -> bool:
    """Tell whether the arm has come to rest, which is some ticks after its last command."""
    return bool(np.abs(state - state_before).max() < STILL)


def homeward(state: NDArray[np.floating]) -> ArmAction:
    """Make one action (5,) towards home for an arm that is still, the hand open."""
    away = HOME_TIP - state[_TIP]
    step = away * min(1.0, expert.SPEED / float(np.linalg.norm(away)))
    return np.array([*step, np.clip(-state[_YAW], -expert.TURN, expert.TURN), expert.OPEN], np.float32)
