"""(frame at the step's start, live frame, instruction, prompt) -> verdict: is the sub-goal reached by now?

The candidate is a camera's picture of the robot at work, as the ROS node asks about it, not an editor's.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from goalreel.tabletop.readback import STILL
from goalreel.tabletop.scene import SceneLayout, SubGoal
from goalreel.tabletop.variety import Variety
from goalreel_lab.lessons.executions import (
    FAULTS,
    STAGES,
    Fault,
    LiveMoment,
    LiveStage,
    carried_out,
    failed,
    frame_of,
)
from goalreel_lab.lessons.judged import sure
from goalreel_lab.lessons.mistakes import CLEARLY
from goalreel_lab.lessons.rows import VerdictRow
from goalreel_lab.lessons.steps import Done, walk
from goalreel_lab.lessons.verdicts import verdict_row

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
