"""Ways in which a robot carries a sub-goal out, or fails to: the expert, and what goes wrong with it.

What came of an execution is what the simulator says of its frames, whatever it was meant to be.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np

from goalreel.image import Image
from goalreel.loop import whole_state
from goalreel.tabletop.env import HOME_TIP, STATE_NAMES, TabletopState, teleport
from goalreel.tabletop.expert import OPEN, Move, carry, pick_and_place
from goalreel.tabletop.grammar import JOINS, PARAPHRASES, join, sample_episode, state_of
from goalreel.tabletop.readback import STILL
from goalreel.tabletop.scene import HALF, SceneLayout, SubGoal, find_spot, free, room_at, shows
from goalreel_lab.corpora.composition import held_out
from goalreel_lab.corpora.edits import CLEARLY, TRIES, BlockPlace, Made, alternatives, hits, misses
from goalreel_lab.corpora.grounding import Change, compare, whole_verdict
from goalreel_lab.corpora.plans import Done, completed, walk
from goalreel_lab.corpora.prompts import hidden
from goalreel_lab.corpora.rows import Mistake, Origin, VerdictRow
from goalreel_lab.corpora.verdicts import sure, verdict_row
from goalreel_lab.variety import Variety

type Fault = Literal["nothing_moved", "dropped", "wrong_object", "wrong_place", "near_miss", "also_moved"]
FAULTS: tuple[Fault, ...] = get_args(Fault.__value__)
type LiveStage = Literal["waiting", "carrying", "hovering", "released", "home"]

HOME = 0.05
"""Nearer to its home than this the arm is out of the way (m): the next step begins with this very frame, its
goal image is drawn from it, and no nano model knows a table with an arm over it."""
SHOVE = (CLEARLY + 0.005, 0.09)
"""Distance by which a neighbour is shoved (m)."""
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
        angle, far = done.rng.uniform(-np.pi, np.pi), done.rng.uniform(*SHOVE)
        spot = layout[block] + far * np.array([np.cos(angle), np.sin(angle), 0])
        stands = abs(layout[block][2] - HALF) < 0.005 and free(layout, block)
        if stands and room_at(layout, SubGoal("out_of", block, done.goal.target), spot) >= 0:
            env.place(block, spot, env.block_yaw(block) + float(done.rng.uniform(-0.4, 0.4)))
            return pick_and_place(env, done.goal)
    return None


_FAILING: Mapping[Fault, Callable[[Done], Iterator[Move] | None]] = {
    "nothing_moved": _nothing_moved,
    "dropped": _dropped,
    "wrong_object": _wrong_object,
    "wrong_place": _wrong_place,
    "near_miss": _near_miss,
    "also_moved": _also_moved,
}


FAILING = 0.4
"""Share of the sub-goals that are carried out badly."""
UNDERWAY: tuple[LiveStage, ...] = ("waiting", "carrying", "hovering", "released")
LAST = 3
"""The end is one of so many last moments: the hand comes to rest."""
_STREAM = 5


def live_rows(seeds: Iterable[int], size: int = 128, variety: Variety = 0.0) -> Iterator[VerdictRow]:
    """Carry every sub-goal out once, well or badly: a row for one or two moments on the way, and the end.

    A training seed with a held-out composition gives none. An end that a picture cannot tell, such as a block
    shifted a little, is left out.
    """
    for done in walk(seeds, size, _STREAM, variety):
        if done.rng.random() < FAILING:
            for i in done.rng.permutation(len(FAULTS)):
                if badly := failed(done, FAULTS[i]):
                    yield from _rows(done, badly, FAULTS[i], underway=1)
                    break
        else:
            well = carried_out(done, precise=done.rng.random() < 0.5)
            # An expert that fails all the same has put the block into a wrong place.
            yield from _rows(done, well, "wrong_place", underway=2)


def _rows(done: Done, moments: Sequence[LiveMoment], fault: Fault, underway: int) -> Iterator[VerdictRow]:
    for i in done.rng.permutation(len(UNDERWAY))[:underway]:
        stage = UNDERWAY[i]
        some = [m for m in moments[:-LAST] if STAGES[m.phase] == stage]
        frame = frame_of(done, some[int(done.rng.integers(len(some)))])
        if frame.stage == stage:
            yield verdict_row(done, frame.made, stage, change=frame.change)
    end = frame_of(done, moments[-1 - int(done.rng.integers(LAST))])
    if end.stage == "home" and plain(done.layout, end.layout, [done.goal]):
        wrong = None if end.success(done.goal) else fault
        yield verdict_row(done, end.made, wrong, change=end.change)


def plain(layout_before: SceneLayout, now: SceneLayout, goals: Sequence[SubGoal]) -> bool:
    """Tell whether a picture can show what has moved, and which of the sub-goals hold.

    Stricter than for an editor's pictures: what is to be learned has moved by CLEARLY, as made mistakes have.
    """
    shifts = [np.linalg.norm(at - layout_before[name]) for name, at in now.items()]
    return all(sure(now, goal) for goal in goals) and not any(STILL < shift < CLEARLY for shift in shifts)


EXPERT = 0.2
"""Share of the sub-goals that the expert carries out, anywhere within tolerance; others are teleported."""
WORKING = 0.08
"""Share of the wrong ends at which the arm is still at work."""
KEPT, CHANGED, CALLED = 0.45, 0.4, 0.2
"""Shares of the sub-goals of a relabelled end that stay, or have another place for the block; and how
often one is added for a block that stayed."""
_WHOLE_STREAM = 10


@dataclass(frozen=True)
class TaskCompletion:
    """A whole task: its words, its sub-goals in order, and the layout that they want."""

    task: str
    goals: tuple[SubGoal, ...]
    after: SceneLayout

    @classmethod
    def of(cls, walked: Sequence[Done]) -> Self:
        """Tell it of an episode."""
        task = sample_episode(walked[0].origin.seed).instruction
        return cls(task, tuple(done.goal for done in walked), walked[-1].reached)


def whole_rows(
    seeds: Iterable[int], size: int = 128, variety: Variety = 0.0, relabelled: float = 0.0
) -> Iterator[VerdictRow]:
    """Make a right end of every episode, and one that is wrong in one way.

    A training seed with a held-out composition gives none. Neither does an episode that cannot be teleported
    to its end, or one where a picture of either end would not tell. `relabelled` is the share of the wrong
    ones that are the right end, asked about sub-goals of which some hold and some do not. One wrong way in
    many teaches slowly to look at every sub-goal. It is for training alone.
    """
    for episode, walked in completed(walk(seeds, size, _WHOLE_STREAM, variety)):
        rng = np.random.default_rng([episode.seed, _WHOLE_STREAM])
        other = bool(relabelled) and rng.random() < relabelled
        right, wrong = _right(walked, rng), (_relabelled if other else _wrong)(walked, rng)
        if right and wrong:
            yield from (right, wrong)


def _right(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    for moment in (_end(walked, rng), LiveMoment(walked[-1].after, "retreat")):
        row = None if moment is None else _row(walked, moment, None)
        if row is not None:
            return row
    return None


def _wrong(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    """Make the first mistake, in random order, that the episode offers."""
    if rng.random() < WORKING:
        return _at_work(walked, rng)
    mistakes: tuple[Fault | Literal["undone"], ...] = (*FAULTS, "undone")
    for i in rng.permutation(len(mistakes)):
        mistake, at = mistakes[i], int(rng.integers(len(walked)))
        moment = _undone(walked, at) if mistake == "undone" else _end(walked, rng, at, mistake)
        row = None if moment is None else _row(walked, moment, mistake)
        if row is not None:
            return row
    return None


def _end(
    walked: Sequence[Done], rng: np.random.Generator, at: int = -1, fault: Fault | None = None
) -> LiveMoment | None:
    """Go to the end of the episode, sub-goal `at` with a fault; None where it does not get there."""
    env, moments = walked[0].env, [LiveMoment(walked[0].before, "retreat")]
    for number, done in enumerate(walked):
        env.set_state(moments[-1].state)
        now = replace(done, before=moments[-1].state, layout=env.layout())
        some = failed(now, fault) if fault and number == at else _done(now, rng)
        if some is None:
            return None
        moments = some
    return moments[-min(len(moments), 1 + int(rng.integers(LAST)))]


def _done(now: Done, rng: np.random.Generator) -> list[LiveMoment] | None:
    if rng.random() < EXPERT:
        return carried_out(now, precise=False)
    try:
        return [LiveMoment(teleport(now.env, now.goal), "retreat")]
    except ValueError:
        return None


def _undone(walked: Sequence[Done], at: int) -> LiveMoment | None:
    """Do everything, then undo sub-goal `at`."""
    last = walked[-1]
    moments = failed(replace(walked[at], before=last.after, layout=last.reached), "wrong_place")
    return None if moments is None else moments[-1]


def _at_work(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    moments = carried_out(walked[-1], precise=False)[:-LAST]
    frame = _frame(walked, moments[int(rng.integers(len(moments)))])
    return (
        None if frame.stage == "home" else _verdict_row(walked, frame, frame.stage, TaskCompletion.of(walked))
    )


def _relabelled(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    """Ask other sub-goals about the exact end; None where that is right, or cannot be told."""
    frame = _frame(walked, LiveMoment(walked[-1].after, "retreat"))
    goals = _others(walked, frame.layout, rng)
    if not goals or held_out(goals) or not plain(walked[0].layout, frame.layout, goals):
        return None
    sentences = [str(rng.choice(PARAPHRASES[g.kind])).format(object=g.object, target=g.target) for g in goals]
    targets = {g.object: find_spot(frame.layout, g)[0] for g in goals if not shows(frame.layout, g)}
    task = join(sentences, int(rng.integers(JOINS)))
    row = _verdict_row(walked, frame, "relabelled", TaskCompletion(task, goals, walked[-1].reached | targets))
    return None if row.verdict.success else row


def _others(walked: Sequence[Done], layout: SceneLayout, rng: np.random.Generator) -> tuple[SubGoal, ...]:
    """List the episode's sub-goals in another order.

    Some stay, some are left out, and some have another place for the block. Now and then there is one for a
    block that stayed.
    """
    moved = [walked[i] for i in rng.permutation(len(walked))]
    stayed = [b for b in walked[0].env.blocks if b not in {done.goal.object for done in walked}]
    goals: list[SubGoal | None] = []
    for done in moved:
        choice = rng.random()
        if choice < KEPT:
            goals.append(done.goal)
        elif choice < KEPT + CHANGED:
            goals.append(_false(done, done.goal.object, layout))
    if stayed and rng.random() < CALLED:
        goals.append(_false(moved[0], str(rng.choice(stayed)), layout))
    return tuple(goal for goal in goals if goal is not None)


def _false(done: Done, block: str, layout: SceneLayout) -> SubGoal | None:
    return next((goal for goal in alternatives(done, [block]) if not shows(layout, goal)), None)


def _row(walked: Sequence[Done], moment: LiveMoment, mistake: Mistake | None) -> VerdictRow | None:
    """Make the row of an end; None if a picture cannot tell, or the end is not the one that was meant."""
    frame = _frame(walked, moment)
    is_plain = frame.stage == "home" and plain(walked[0].layout, frame.layout, [done.goal for done in walked])
    row = _verdict_row(walked, frame, mistake, TaskCompletion.of(walked)) if is_plain else None
    return row if row is not None and row.verdict.success == (mistake is None) else None


def _frame(walked: Sequence[Done], moment: LiveMoment) -> LiveFrame:
    """Take the frame, with changes counted from the episode's start."""
    return frame_of(replace(walked[-1], layout=walked[0].layout), moment)


def _verdict_row(
    walked: Sequence[Done], frame: LiveFrame, mistake: Mistake | None, whole: TaskCompletion
) -> VerdictRow:
    first = walked[0]
    return VerdictRow(
        source=first.source,
        candidate=frame.image,
        instruction=whole_state(whole.task, [state_of(goal) for goal in whole.goals]),
        prompt=whole.task,
        goal=whole.goals[-1],
        verdict=whole_verdict(first.layout, frame.layout, whole.after, whole.goals, frame.change),
        mistake=mistake,
        origin=Origin(first.origin.seed, 0, held_out([d.goal for d in walked]), first.origin.view),
    )
