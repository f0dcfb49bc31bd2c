"""The simulated table as a robot and its camera meet it, with a snapshot of the table for every picture.

MuJoCo's contexts belong to the thread that made them, so one private thread does all of the work. Every
method is safe from any thread.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.tabletop.env import HOME_TIP, Tabletop, TabletopState, teleport
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.scene import SceneLayout, SubGoal, shows

CAMERA = "front"
MAX_SNAPSHOTS = 10_000
"""Pictures whose snapshots are stored, about 3 kB each."""
AT_HOME = 0.02
"""The arm is out of the way when its tip is at most this far from its home (m)."""


@dataclass(frozen=True)
class TableSnapshot:
    """The complete state of the table at one time."""

    state: TabletopState
    layout: SceneLayout
    held_blocks: frozenset[str]
    arm_home: bool

    def holds(self, goal: SubGoal) -> bool:
        """True if the sub-goal is true and the hand has released the block."""
        return shows(self.layout, goal) and goal.object not in self.held_blocks


@dataclass(frozen=True)
class ControlResult:
    """The robot's state (12,) after a control step, as STATE_NAMES says, and the picture if one was taken."""

    observation: NDArray[np.float32]
    picture: Image | None


class World:
    """The scene of a seed, its robot, and a second table on which sub-goals are imagined."""

    def __init__(self, seed: int, size: int = 256) -> None:
        self.episode = sample_episode(seed)
        self.size = size
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tabletop")
        self._snapshots: OrderedDict[bytes, TableSnapshot] = OrderedDict()
        self._real, self._imagination = self._do(lambda: (self._table(), self._table()))
        self.names: tuple[str, ...] = (*self._real.blocks, *self._real.bowls)

    def tick(self, action: NDArray[np.floating], *, look: bool) -> ControlResult:
        """Carry out one action (5,) for 0.1 simulated seconds, then take a picture if `look` is set."""

        def run() -> ControlResult:
            observation = self._real.step(action)
            return ControlResult(observation, self._picture(self._real) if look else None)

        return self._do(run)

    def now(self) -> TableSnapshot:
        """Give the present state of the table."""
        return self._do(lambda: _snapshot(self._real))

    def snapshot_of(self, picture: Image | None) -> TableSnapshot:
        """Give the table's state in a picture made here; for any other picture, the present state."""
        snapshot = None if picture is None else self._snapshots.get(_digest(picture))
        return snapshot or self.now()

    def imagine(self, start: TableSnapshot, goal: SubGoal | None) -> Image:
        """Render the exact picture after a sub-goal, from `start` on, with the arm at home.

        Without a goal nothing is moved.

        Raises:
            ValueError: the sub-goal cannot be reached from there in one move.
        """

        def run() -> Image:
            table = self._imagination
            table.set_state(start.state)
            if goal is None or start.holds(goal):
                table.home()
                table.settle(0.4)
            else:
                teleport(table, goal)
            return self._picture(table)

        return self._do(run)

    def close(self) -> None:
        """Free the renderers, in the thread that made them."""
        self._do(self._real.close)
        self._do(self._imagination.close)
        self._thread.shutdown()

    def _do[Result](self, run: Callable[[], Result]) -> Result:
        return self._thread.submit(run).result()

    def _table(self) -> Tabletop:
        return Tabletop(self.episode.scene)

    def _picture(self, table: Tabletop) -> Image:
        picture = Image(table.render(CAMERA, self.size))
        key = _digest(picture)
        self._snapshots[key] = _snapshot(table)
        self._snapshots.move_to_end(key)
        if len(self._snapshots) > MAX_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return picture


def _snapshot(table: Tabletop) -> TableSnapshot:
    held_blocks = frozenset(b for b in table.blocks if table.grasped(b))
    away = np.linalg.norm(table.observation()[7:10] - HOME_TIP)
    return TableSnapshot(table.get_state(), table.layout(), held_blocks, bool(away < AT_HOME))


def _digest(picture: Image) -> bytes:
    return hashlib.blake2b(picture.pixels.tobytes(), digest_size=16).digest()
