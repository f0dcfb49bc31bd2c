"""Propose frames at which something may have changed, for a model that sees the pictures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from goalreel.planners.kinematic.arms import read_arms
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.planner import check
from goalreel.planners.kinematic.robot import find_layout
from goalreel.types import Recording

type Cue = Literal["closed", "opened", "still", "slow"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A frame that may be a boundary, and why."""

    frame: int
    cue: Cue
    """`closed`: the hand has closed. `opened`: it begins to open, or is half open. `still`: the middle of a
    pause. `slow`: the arm is slowest within half a second."""


def proposals(recording: Recording, layout: Layout | None = None) -> tuple[Proposal, ...]:
    """List possible boundaries, rather too many than too few: ascending frames inside (0, n), each once.

    Raises:
        Unsegmentable: `check` refuses the recording, or `layout` does not fit it.
    """
    check(recording)
    motion = read_arms(recording, find_layout(recording, layout)).motion
    cues: dict[int, Cue] = {}
    for proposal in _cues(motion):
        cues.setdefault(proposal.frame, proposal.cue)
    return tuple(Proposal(frame, cues[frame]) for frame in sorted(cues) if 0 < frame < len(motion))


def _cues(motion: ArmMotion) -> Iterator[Proposal]:
    """The surest cues first."""
    for cycle in motion.cycles:
        yield Proposal(cycle.contact, "closed")
    for cycle in motion.cycles:
        yield from (Proposal(f, "opened") for f in (cycle.release, cycle.let_go) if f is not None)
    yield from (Proposal((a + b) // 2, "still") for a, b in motion.pauses())
    yield from (Proposal(frame, "slow") for frame in _slow(motion))


def _slow(motion: ArmMotion) -> list[int]:
    """Frames below half of the arm's usual speed that are the slowest within half a second on either side."""
    speed, reach = motion.speed, max(1, round(0.5 * motion.fps))
    slow = np.flatnonzero(speed < 0.5 * np.percentile(speed, 80))
    windows = [(int(i), speed[max(0, i - reach) : i + reach + 1]) for i in slow]
    return [i for i, window in windows if speed[i] == window.min()]
