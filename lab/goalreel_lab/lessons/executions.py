"""How a robot carries a sub-goal out, or fails to: the scripted expert, and what goes wrong with it.

What came of an execution is what the simulator says of its frames, whatever it was meant to be.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from goalreel.image import Image
from goalreel.tabletop.env import HOME_TIP, STATE_NAMES, TabletopState
from goalreel.tabletop.expert import OPEN, Move, carry, pick_and_place
from goalreel.tabletop.scene import HALF, Floats, SceneLayout, SubGoal, find_spot, free, room_at
from goalreel_lab.lessons.composition import held_out
from goalreel_lab.lessons.covered import hidden
from goalreel_lab.lessons.grounding import Change, compare
from goalreel_lab.lessons.mistakes import CLEARLY, TRIES, Made, alternatives
from goalreel_lab.lessons.nearby import BlockPlace, hits, misses
from goalreel_lab.lessons.steps import Done

type Fault = Literal["nothing_moved", "dropped", "wrong_object", "wrong_place", "near_miss", "also_moved"]
FAULTS: tuple[Fault, ...] = get_args(Fault.__value__)
type LiveStage = Literal["waiting", "carrying", "hovering", "released", "home"]

HOME = 0.05
"""Nearer to its home than this the arm is out of the way (m): the next step begins with this very frame, its
goal image is drawn from it, and no nano model knows a table with an arm over it."""
SHOVE = (CLEARLY + 0.005, 0.09)
"""How far a neighbour is shoved (m)."""
STAGES: Mapping[str, LiveStage] = {
    "reach": "waiting",
    "grasp": "waiting",
    "lift": "carrying",
    "move": "carrying",
    "place": "hovering",
    "retreat": "released",
}
"""Phase of the expert -> what the robot is about, away from home."""
TIP = slice(STATE_NAMES.index("x"), STATE_NAMES.index("x") + 3)
"""The measured fingertip in an observation."""


@dataclass(frozen=True)
class LiveMoment:
    """The table before one control step, or after the last."""

    state: TabletopState
    phase: str


@dataclass(frozen=True)
class LiveFrame:
    """A camera's picture of the robot at work, and what is true of it."""

    image: Image
    layout: SceneLayout
    change: Change
    stage: LiveStage

    def success(self, goal: SubGoal) -> bool:
        """Tell whether the goal holds, nothing else moved, the hand let go and the arm is home."""
        return self.change.success(goal)

    @property
    def made(self) -> Made:
        """Give the frame as a candidate."""
        return Made(self.image, self.layout)


def carried_out(done: Done, *, precise: bool) -> list[LiveMoment]:
    """Let the expert carry the sub-goal out.

    Unless `precise`, it aims anywhere within the sub-goal's tolerance where there is room.
    """
    done.env.set_state(done.before)
    goal = done.goal
    places = () if precise else hits(done.rng, done.layout, goal, TRIES)
    for spot, yaw in places:
        if room_at(done.layout, goal, spot) >= 0:
            return _run(done, _carried_to(done, (spot, yaw)))
    return _run(done, pick_and_place(done.env, goal))


def failed(done: Done, fault: Fault) -> list[LiveMoment] | None:
    """Carry the sub-goal out with this fault; None where the scene does not offer one."""
    done.env.set_state(done.before)
    moves = _FAILING[fault](done)
    return None if moves is None else _run(done, moves)


def frame_of(done: Done, moment: LiveMoment) -> LiveFrame:
    """Take the picture of a moment, and say what is true."""
    env = done.env
    env.set_state(moment.state)
    layout = env.layout()
    in_hand = tuple(block for block in env.blocks if env.grasped(block))
    home = float(np.linalg.norm(env.observation()[TIP] - HOME_TIP)) < HOME
    change = replace(
        compare(done.layout, layout, done.goal),
        held=in_hand,
        hidden=() if home else hidden(env, layout, in_hand),
        away=home and not in_hand,
    )
    return LiveFrame(done.studio.look(env), layout, change, "home" if home else STAGES[moment.phase])


def _run(done: Done, moves: Iterator[Move]) -> list[LiveMoment]:
    moments: list[LiveMoment] = []
    for action, phase in moves:
        moments.append(LiveMoment(done.env.get_state(), phase))
        done.env.step(action)
    return [*moments, LiveMoment(done.env.get_state(), "retreat")]


def _nothing_moved(done: Done) -> Iterator[Move]:
    return _letting_go(pick_and_place(done.env, done.goal), 0)


def _dropped(done: Done) -> Iterator[Move]:
    return _letting_go(pick_and_place(done.env, done.goal), int(done.rng.integers(2, 12)))


def _letting_go(moves: Iterator[Move], after: int) -> Iterator[Move]:
    """Open the hand `after` actions of lifting and carrying; with 0 it never closes."""
    frames_in_hand = 0
    for action, phase in moves:
        frames_in_hand += phase in ("lift", "move")
        if frames_in_hand >= after:
            action[4] = OPEN
        yield action, phase


def _wrong_object(done: Done) -> Iterator[Move] | None:
    others = [b for b in done.env.blocks if b not in (done.goal.object, done.goal.target)]
    same = [SubGoal(done.goal.kind, str(b), done.goal.target) for b in done.rng.permutation(others)]
    return _instead(done, [g for g in same if g.kind != "out_of"] + list(alternatives(done, others)))


def _wrong_place(done: Done) -> Iterator[Move] | None:
    return _instead(done, alternatives(done, [done.goal.object]))


def _instead(done: Done, goals: Iterator[SubGoal] | list[SubGoal]) -> Iterator[Move] | None:
    """Carry out the first of other sub-goals that can be."""
    for goal in goals:
        possible = free(done.layout, goal.object) and find_spot(done.layout, goal)[1] >= 0
        if possible and not held_out([goal]):
            return pick_and_place(done.env, goal)
    return None


def _near_miss(done: Done) -> Iterator[Move] | None:
    place = next(misses(done.rng, done.layout, done.goal, TRIES), None)
    return None if place is None else _carried_to(done, place)


def _carried_to(done: Done, place: BlockPlace) -> Iterator[Move]:
    return carry(done.env, done.goal.object, lambda: place)


def _also_moved(done: Done) -> Iterator[Move] | None:
    """Push a neighbour aside, then carry the sub-goal out."""
    env, layout = done.env, done.layout
    others = [b for b in env.blocks if b not in (done.goal.object, done.goal.target)]
    for block in map(str, done.rng.permutation(others)):
        spot = _aside(done, block)
        stands = abs(layout[block][2] - HALF) < 0.005 and free(layout, block)
        if stands and room_at(layout, SubGoal("out_of", block, done.goal.target), spot) >= 0:
            env.place(block, spot, env.block_yaw(block) + float(done.rng.uniform(-0.4, 0.4)))
            return pick_and_place(env, done.goal)
    return None


def _aside(done: Done, block: str) -> Floats:
    angle, far = done.rng.uniform(-np.pi, np.pi), done.rng.uniform(*SHOVE)
    return done.layout[block] + far * np.array([np.cos(angle), np.sin(angle), 0])


_FAILING: Mapping[Fault, Callable[[Done], Iterator[Move] | None]] = {
    "nothing_moved": _nothing_moved,
    "dropped": _dropped,
    "wrong_object": _wrong_object,
    "wrong_place": _wrong_place,
    "near_miss": _near_miss,
    "also_moved": _also_moved,
}
