"""(frame at a task's start, frame at its end, all that should hold, the task) -> verdict: is all of it done?

The candidate is a camera's picture, as the ROS node asks about it once the last step is reached.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from goalreel.critics.task_check import whole_state
from goalreel.tabletop.env import teleport
from goalreel.tabletop.grammar import JOINS, PARAPHRASES, join, sample_episode, state_of
from goalreel.tabletop.scene import SceneLayout, SubGoal, find_spot, shows
from goalreel.tabletop.variety import Variety
from goalreel_lab.lessons.composition import held_out
from goalreel_lab.lessons.executions import (
    FAULTS,
    Fault,
    LiveFrame,
    LiveMoment,
    carried_out,
    failed,
    frame_of,
)
from goalreel_lab.lessons.grounding import whole_verdict
from goalreel_lab.lessons.live import LAST, plain
from goalreel_lab.lessons.mistakes import alternatives
from goalreel_lab.lessons.rows import Mistake, Origin, VerdictRow
from goalreel_lab.lessons.steps import Done, completed, walk

EXPERT = 0.2
"""Share of the sub-goals that the expert carries out, anywhere within tolerance; others are teleported."""
WORKING = 0.08
"""Share of the wrong ends at which the arm is still at work."""
KEPT, CHANGED, CALLED = 0.45, 0.4, 0.2
"""Of the sub-goals of a relabelled end: the share that stays, that has another place for its block; and how
often one is added for a block that stayed."""
_STREAM = 10


@dataclass(frozen=True)
class Whole:
    """What is asked about: the task in its words, its sub-goals in order, and the layout that they want."""

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
    for episode, walked in completed(walk(seeds, size, _STREAM, variety)):
        rng = np.random.default_rng([episode.seed, _STREAM])
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
    return None if frame.stage == "home" else _verdict_row(walked, frame, frame.stage, Whole.of(walked))


def _relabelled(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    """Ask other sub-goals about the exact end; None where that is right, or cannot be told."""
    frame = _frame(walked, LiveMoment(walked[-1].after, "retreat"))
    goals = _others(walked, frame.layout, rng)
    if not goals or held_out(goals) or not plain(walked[0].layout, frame.layout, goals):
        return None
    sentences = [str(rng.choice(PARAPHRASES[g.kind])).format(object=g.object, target=g.target) for g in goals]
    targets = {g.object: find_spot(frame.layout, g)[0] for g in goals if not shows(frame.layout, g)}
    task = join(sentences, int(rng.integers(JOINS)))
    row = _verdict_row(walked, frame, "relabelled", Whole(task, goals, walked[-1].reached | targets))
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
    row = _verdict_row(walked, frame, mistake, Whole.of(walked)) if is_plain else None
    return row if row is not None and row.verdict.success == (mistake is None) else None


def _frame(walked: Sequence[Done], moment: LiveMoment) -> LiveFrame:
    """Take the frame, with changes counted from the episode's start."""
    return frame_of(replace(walked[-1], layout=walked[0].layout), moment)


def _verdict_row(
    walked: Sequence[Done], frame: LiveFrame, mistake: Mistake | None, whole: Whole
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
