"""Instructions and sub-goals in words: from one seed a scene and what is asked for; sentences, and back."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.errors import InputError
from goalreel.tabletop.scene import (
    DIRECTIONS,
    HALF,
    KINDS,
    TEXTS,
    GoalKind,
    SceneLayout,
    SubGoal,
    TabletopScene,
    colour,
    find_spot,
    inside,
    is_bowl,
    sample_scene,
    shows,
)

_OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "inside": (
        "place the {object} into the {target}",
        "drop the {object} into the {target}",
        "move the {object} into the {target}",
    ),
    "on": (
        "place the {object} on top of the {target}",
        "put the {object} on the {target}",
        "set the {object} on top of the {target}",
    ),
    "left_of": (
        "place the {object} to the left of the {target}",
        "put the {object} on the left side of the {target}",
    ),
    "right_of": (
        "place the {object} to the right of the {target}",
        "put the {object} on the right side of the {target}",
    ),
    "in_front_of": (
        "place the {object} in front of the {target}",
        "bring the {object} in front of the {target}",
    ),
    "behind": ("place the {object} behind the {target}", "put the {object} behind the {target}"),
    "out_of": ("remove the {object} from the {target}", "clear the {target}", "empty the {target}"),
    "sort": (
        "sort the blocks by colour",
        "put every block that has a bowl of its own colour into that bowl",
        "sort the {objects} into the bowls of their own colour",
    ),
    "tower": (
        "build a tower with the {base} at the bottom, the {middle} in the middle and the {top} on top",
        "stack the {middle} on the {base} and the {top} on the {middle}",
    ),
    "clear_all": ("clear all the bowls", "empty every bowl", "take the blocks out of the bowls"),
}
PARAPHRASES = {k: (TEXTS[k], *more) if k in TEXTS else more for k, more in _OTHER_WORDS.items()}
"""Mission -> templates; the first is the plainest. `objects` is a list in words."""


def listed(names: list[str]) -> str:
    """Write names as `a, the b and the c`, without the first `the`."""
    head = ", the ".join(names[:-1])
    return f"{head} and the {names[-1]}" if head else names[-1]


JOINS = 4


def join(clauses: list[str], style: int) -> str:
    """Join clauses into one instruction, in one of JOINS ways, without a full stop at the end."""
    if len(clauses) == 1:
        return clauses[0]
    if style == 1:
        last = ", and finally " if len(clauses) > 2 else ", then "
        return f"first {', then '.join(clauses[:-1])}{last}{clauses[-1]}"
    if style == 3:
        return ". Then ".join([clauses[0].capitalize(), *clauses[1:]])
    return (", then " if style == 0 else "; then ").join(clauses)


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
        scene = sample_scene(rng, int(rng.integers(max(3, count), 7)), bowls=int(rng.integers(1, 4)))
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
        if goal.kind == "on":
            tower = self.stack(goal.target)
            in_bowl = any(goal.target in self.content(bowl) for bowl in self.bowls)
            return tower[-1] == goal.target and len(tower) < TALLEST and not in_bowl
        return abs(self.layout[goal.target][2] - HALF) < 0.001


def sample_missions(
    rng: np.random.Generator, scene: TabletopScene, layout: SceneLayout, count: int
) -> list[Mission] | None:
    """Draw missions with `count` sub-goals in all from `layout` on; None if the scene does not offer them."""
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
        return [SubGoal(kind, block, str(rng.choice([t for t in targets if t != block])))]

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


STATES: dict[str, str] = {
    "inside": "the {object} is in the {target}",
    "on": "the {object} is on top of the {target}",
    "left_of": "the {object} is to the left of the {target}",
    "right_of": "the {object} is to the right of the {target}",
    "in_front_of": "the {object} is in front of the {target}",
    "behind": "the {object} is behind the {target}",
    "out_of": "the {object} is out of the {target}",
}
"""State that holds once a sub-goal is reached."""

_JOINTS = re.compile(r"first|then|and|finally|[\s,;.]+", re.IGNORECASE)
_THING = r"[a-z]+ (?:block|bowl)"

type Templates = Mapping[GoalKind, Sequence[str]]

_ORDERS: Templates = {kind: [TEXTS[kind]] for kind in KINDS}
_WANTED: Templates = {kind: [STATES[kind]] for kind in KINDS}
_CLAUSES: Templates = {kind: [t for t in PARAPHRASES[kind] if "{object}" in t] for kind in KINDS}


def state_of(goal: SubGoal) -> str:
    """Say the state that a sub-goal brings about, as a clause: `the red block is in the blue bowl`."""
    return STATES[goal.kind].format(object=goal.object, target=goal.target)


def order_of(goal: SubGoal, names: Sequence[str], warning: str = "") -> str:
    """Write the order to an image editor; `names` are all things on the table."""
    others = ", ".join(f"the {name}" for name in names if name != goal.object)
    return (
        f"{goal.text[0].upper()}{goal.text[1:]}. {warning}The arm ends up empty and out of the way. "
        f"Nothing else changes: {others}, the table, the background, the camera and the light."
    )


def read_order(prompt: str, names: Sequence[str]) -> SubGoal:
    """Read the sub-goal that an order begins with; raise an InputError if this table cannot have it."""
    goals, _ = _search(prompt.partition(".")[0], _ORDERS)
    if len(goals) != 1:
        raise InputError(
            f"not an order for one block, such as 'put the red block in the blue bowl': {prompt!r}"
        )
    return _checked(goals[0], names)


def read_wanted(text: str, names: Sequence[str]) -> list[SubGoal]:
    """Read the sub-goals of which a wanted state, or an instruction, speaks.

    Raises:
        InputError: a part of it is neither, or speaks of things that this table does not have.
    """
    for templates in (_WANTED, _CLAUSES):
        goals, rest = _search(text, templates)
        if goals and not _JOINTS.sub("", rest):
            return [_checked(goal, names) for goal in goals]
    raise InputError(f"this table offers {', '.join(names)}; cannot make out {text!r}")


def read_goals(text: str) -> list[SubGoal]:
    """Read every sub-goal that a text asks for or states, in order; empty where it speaks of none."""
    return _search(text, _CLAUSES)[0] or _search(text, _WANTED)[0]


def _search(text: str, templates: Templates) -> tuple[list[SubGoal], str]:
    """Find every clause in the order of the text, and what is left of the text without them."""
    goals: dict[int, SubGoal] = {}
    for kind, phrases in templates.items():
        for phrase in phrases:
            pattern = phrase.format(object=f"(?P<object>{_THING})", target=f"(?P<target>{_THING})")
            clause = re.compile(rf"\b{pattern}\b", re.IGNORECASE)
            for match in clause.finditer(text):
                goals[match.start()] = SubGoal(kind, match["object"].lower(), match["target"].lower())
            text = clause.sub(lambda m: " " * len(m[0]), text)
    return [goals[start] for start in sorted(goals)], text


def _checked(goal: SubGoal, names: Sequence[str]) -> SubGoal:
    for name in (goal.object, goal.target):
        if name not in names:
            raise InputError(f"there is no {name} here, but: {', '.join(names)}")
    needs_bowl = goal.kind in ("inside", "out_of")
    fits = is_bowl(goal.target) if needs_bowl else goal.kind != "on" or not is_bowl(goal.target)
    if is_bowl(goal.object) or goal.object == goal.target or not fits:
        raise InputError(f"cannot {goal.text}: only blocks move, into bowls, onto blocks or beside either")
    return goal
