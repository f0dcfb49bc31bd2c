"""Long-horizon instructions: from one seed a scene, what is asked for, and its ordered sub-goals."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from goalreel.tabletop.sim.phrases import JOINS, PARAPHRASES, join, listed
from goalreel.tabletop.sim.predicates import DIRECTIONS, GoalKind, SubGoal, inside, shows
from goalreel.tabletop.sim.scene import HALF, SceneLayout, TabletopScene, colour, is_bowl, sample_scene
from goalreel.tabletop.sim.spots import find_spot

MAX_GOALS = 5
ROOM = 0.004
"""Spare room demanded of every place in a plan, so that the expert's millimetres do not matter (m)."""
TALLEST = 3


@dataclass(frozen=True)
class Mission:
    """One clause of an instruction: its words, its kind (a key of PARAPHRASES) and its sub-goals."""

    kind: str
    text: str
    goals: tuple[SubGoal, ...]


@dataclass(frozen=True)
class TabletopEpisode:
    """Everything that follows from a seed: the scene, and what is asked for in it."""

    seed: int
    scene: TabletopScene
    instruction: str
    missions: tuple[Mission, ...]

    @property
    def goals(self) -> tuple[SubGoal, ...]:
        """List the ordered sub-goals, 1 to 5. None holds before its turn; at the end all hold."""
        return tuple(goal for mission in self.missions for goal in mission.goals)


def sample_episode(seed: int) -> TabletopEpisode:
    """Make the episode of a seed; the same for ever, on any machine with this numpy bit generator.

    >>> sample_episode(3).instruction == sample_episode(3).instruction
    True
    """
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, MAX_GOALS + 1))
    while True:
        blocks = int(rng.integers(max(3, count), 7))
        scene = sample_scene(rng, blocks, bowls=int(rng.integers(1, 4)))
        missions = None if scene is None else sample_missions(rng, scene, scene.layout(), count)
        if scene is not None and missions is not None:
            text = join([m.text for m in missions], int(rng.integers(JOINS)))
            return TabletopEpisode(seed, scene, text, tuple(missions))


class _Draft:
    """The layout as the plan unfolds, and which blocks must not be moved any more."""

    def __init__(self, scene: TabletopScene, layout: SceneLayout) -> None:
        self.layout = layout
        self.bowls = [o.name for o in scene.bowls]
        self.blocks = [o.name for o in scene.blocks]
        self.fixed: set[str] = set()

    def content(self, bowl: str) -> list[str]:
        return [b for b in self.blocks if inside(self.layout, b, bowl)]

    def stack(self, name: str) -> list[str]:
        """List the blocks over the same place, lowest first."""
        centre = self.layout[name][:2]
        over = [b for b in self.blocks if np.linalg.norm(self.layout[b][:2] - centre) < 0.03]
        return sorted(over, key=lambda b: self.layout[b][2])

    def free(self) -> list[str]:
        """List the blocks that may be moved: not yet used, nothing on top."""
        return [b for b in self.blocks if b not in self.fixed and self.stack(b)[-1] == b]

    def add(self, goal: SubGoal) -> bool:
        """Carry the goal out on the layout; False, without a change, if it cannot be or already holds."""
        if goal.object not in self.free() or shows(self.layout, goal) or not self._fits(goal):
            return False
        spot, room = find_spot(self.layout, goal)
        if room < ROOM:
            return False
        self.layout = self.layout | {goal.object: spot}
        self.fixed |= {goal.object, goal.target}
        return shows(self.layout, goal)

    def _fits(self, goal: SubGoal) -> bool:
        if goal.kind == "inside":
            return not self.content(goal.target)
        if goal.kind == "out_of":
            return goal.object in self.content(goal.target)
        if is_bowl(goal.target):
            return goal.kind in DIRECTIONS
        tower = self.stack(goal.target)
        height = self.layout[goal.target][2]
        if goal.kind == "on":
            return tower[-1] == goal.target and len(tower) < TALLEST and not _in_bowl(self, goal.target)
        return abs(height - HALF) < 0.001


def _in_bowl(draft: _Draft, block: str) -> bool:
    return any(block in draft.content(bowl) for bowl in draft.bowls)


def sample_missions(
    rng: np.random.Generator, scene: TabletopScene, layout: SceneLayout, count: int
) -> list[Mission] | None:
    """Draw missions with `count` sub-goals in all, beginning with the things where `layout` says.

    None when the scene does not offer them.
    """
    draft = _Draft(scene, layout)
    missions: list[Mission] = []
    for _ in range(40):
        missing = count - sum(len(m.goals) for m in missions)
        if missing == 0:
            return missions if all(shows(draft.layout, g) for m in missions for g in m.goals) else None
        kind = str(rng.choice(list(_PROPOSE), p=_WEIGHTS))
        goals = _PROPOSE[kind](rng, draft)
        draft_before = (draft.layout, set(draft.fixed))
        if goals and len(goals) <= missing and all(draft.add(g) for g in goals):
            missions.append(_phrase(rng, goals, kind))
        else:
            draft.layout, draft.fixed = draft_before
    return None


def _phrase(rng: np.random.Generator, goals: list[SubGoal], kind: str) -> Mission:
    if kind in ("sort", "clear_all"):
        slots = {"objects": listed([g.object for g in goals])}
    elif kind == "tower":
        slots = {"base": goals[0].target, "middle": goals[0].object, "top": goals[1].object}
    else:
        kind = goals[0].kind
        slots = {"object": goals[0].object, "target": goals[0].target}
    return Mission(kind, str(rng.choice(PARAPHRASES[kind])).format(**slots), tuple(goals))


def _one(
    *kinds: GoalKind, bowls: bool, blocks: bool
) -> Callable[[np.random.Generator, _Draft], list[SubGoal]]:
    """Make a function that proposes a sub-goal of one of the kinds, with targets of the given sorts."""

    def propose(rng: np.random.Generator, draft: _Draft) -> list[SubGoal]:
        movable = draft.free()
        targets = [*(draft.bowls if bowls else ()), *(draft.blocks if blocks else ())]
        if not movable:
            return []
        block = str(rng.choice(movable))
        kind = kinds[int(rng.integers(len(kinds)))]
        target = str(rng.choice([t for t in targets if t != block]))
        return [SubGoal(kind, block, target)]

    return propose


def _take_out(rng: np.random.Generator, draft: _Draft) -> list[SubGoal]:
    full = [b for b in draft.bowls if draft.content(b)]
    if not full:
        return []
    bowl = str(rng.choice(full))
    return [SubGoal("out_of", block, bowl) for block in draft.content(bowl)]


def _clear_all(rng: np.random.Generator, draft: _Draft) -> list[SubGoal]:
    goals = [SubGoal("out_of", block, bowl) for bowl in draft.bowls for block in draft.content(bowl)]
    return goals if len(goals) > 1 else []


def _sort(rng: np.random.Generator, draft: _Draft) -> list[SubGoal]:
    bowls = {colour(b): b for b in draft.bowls}
    goals = [SubGoal("inside", b, bowls[colour(b)]) for b in draft.blocks if colour(b) in bowls]
    return goals if len(goals) > 1 else []


def _tower(rng: np.random.Generator, draft: _Draft) -> list[SubGoal]:
    movable = draft.free()
    if len(movable) < 3:
        return []
    base, middle, top = (str(b) for b in rng.permutation(movable)[:3])
    return [SubGoal("on", middle, base), SubGoal("on", top, middle)]


_PROPOSE: dict[str, Callable[[np.random.Generator, _Draft], list[SubGoal]]] = {
    "inside": _one("inside", bowls=True, blocks=False),
    "on": _one("on", bowls=False, blocks=True),
    "beside": _one("left_of", "right_of", "in_front_of", "behind", bowls=True, blocks=True),
    "out_of": _take_out,
    "clear_all": _clear_all,
    "sort": _sort,
    "tower": _tower,
}
_WEIGHTS = (0.24, 0.16, 0.24, 0.12, 0.06, 0.10, 0.08)
