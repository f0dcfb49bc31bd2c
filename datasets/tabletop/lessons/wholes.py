"""(frame at a task's start, frame at its end, all that should hold, the task) -> verdict: is all of it done?

The candidate is a camera's picture, as the ROS node asks about it once the last step is reached.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

import numpy as np

from goalreel.datasets.tabletop.grammar import sample_episode
from goalreel.datasets.tabletop.lessons.composition import held_out
from goalreel.datasets.tabletop.lessons.executions import (
    FAULTS,
    Fault,
    LiveFrame,
    LiveMoment,
    carried_out,
    failed,
    frame_of,
)
from goalreel.datasets.tabletop.lessons.grounding import whole_verdict
from goalreel.datasets.tabletop.lessons.live import LAST, plain
from goalreel.datasets.tabletop.lessons.rows import Mistake, Origin, VerdictRow
from goalreel.datasets.tabletop.lessons.steps import Done, walk
from goalreel.datasets.tabletop.sentences import state_of
from goalreel.datasets.tabletop.teleport import teleport
from goalreel.datasets.tabletop.variety import Variety
from goalreel.planners.whole import whole_state

EXPERT = 0.2
"""Share of the sub-goals that the expert carries out, anywhere within tolerance; others are teleported."""
WORKING = 0.08
"""Share of the wrong ends at which the arm is still at work."""
_STREAM = 10


def whole_rows(seeds: Iterable[int], size: int = 128, variety: Variety = 0.0) -> Iterator[VerdictRow]:
    """A right end of every episode, and one that is wrong in one way.

    None for a training seed with a held-out composition, nor for an episode that cannot be teleported to its
    end, nor where a picture of the right or of the wrong end would not tell.
    """
    for seed, group in groupby(walk(seeds, size, _STREAM, variety), key=lambda done: done.origin.seed):
        walked = list(group)
        if len(walked) == len(sample_episode(seed).goals):
            rng = np.random.default_rng([seed, _STREAM])
            right, wrong = _right(walked, rng), _wrong(walked, rng)
            if right and wrong:
                yield from (right, wrong)


def _right(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    exact = LiveMoment(walked[-1].after, "retreat")
    for moment in (_end(walked, rng), exact):
        row = None if moment is None else _row(walked, moment, None)
        if row is not None:
            return row
    return None


def _wrong(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    """The first mistake, in random order, that the episode offers."""
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
    """The end of the episode, sub-goal `at` carried out with a fault; None where it does not get there."""
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
    """All was done; then sub-goal `at` was undone."""
    last = walked[-1]
    moments = failed(replace(walked[at], before=last.after, layout=last.reached), "wrong_place")
    return None if moments is None else moments[-1]


def _at_work(walked: Sequence[Done], rng: np.random.Generator) -> VerdictRow | None:
    moments = carried_out(walked[-1], precise=False)[:-LAST]
    frame = _frame(walked, moments[int(rng.integers(len(moments)))])
    return None if frame.stage == "home" else _told(walked, frame, frame.stage)


def _row(walked: Sequence[Done], moment: LiveMoment, mistake: Mistake | None) -> VerdictRow | None:
    """The row of an end; None where a picture cannot tell, or where the end is not the one that was meant."""
    frame = _frame(walked, moment)
    told = frame.stage == "home" and plain(walked[0].layout, frame.layout, [done.goal for done in walked])
    row = _told(walked, frame, mistake) if told else None
    return row if row is not None and row.verdict.success == (mistake is None) else None


def _frame(walked: Sequence[Done], moment: LiveMoment) -> LiveFrame:
    """What has changed counts from the episode's start."""
    return frame_of(replace(walked[-1], layout=walked[0].layout), moment)


def _told(walked: Sequence[Done], frame: LiveFrame, mistake: Mistake | None) -> VerdictRow:
    first, last, goals = walked[0], walked[-1], tuple(done.goal for done in walked)
    task = sample_episode(first.origin.seed).instruction
    return VerdictRow(
        source=first.source,
        candidate=frame.image,
        instruction=whole_state(task, [state_of(goal) for goal in goals]),
        prompt=task,
        goal=last.goal,
        verdict=whole_verdict(first.layout, frame.layout, last.reached, goals, frame.change),
        mistake=mistake,
        origin=Origin(first.origin.seed, 0, held_out(goals), first.origin.view),
    )
