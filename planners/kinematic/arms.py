"""The motion of all arms of a robot: of the one that acts, or of two that act in turn or at once."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.planners.kinematic.base import find_drives
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.motion import ArmMotion, read_motion
from goalreel.planners.kinematic.signals import Curve, Cycle, arm_speed
from goalreel.types import Recording


@dataclass(frozen=True)
class ArmsMotion:
    """An episode's motion. Where two hands act, `motion` has the places of both, and their grasps in turn."""

    motion: ArmMotion
    sides: Mapping[Cycle, str]
    """Which hand makes each grasp, `left` or `right`; empty for a robot with one hand."""
    at_once: bool = False
    """Whether two hands are closed at the same time, as if both held something."""


def read_arms(recording: Recording, layout: Layout) -> ArmsMotion:
    """Compute an episode's motion under a complete layout. A hand that carries nothing is left out."""
    hands = [(hand, read_motion(recording, hand)) for hand in layout.hands]
    acting = [(hand, m) for hand, m in hands if not all(map(m.failed, m.cycles))]
    chosen, at_once = acting or hands[:1], _overlap([m for _, m in hands])
    sides = {cycle: hand.side for hand, m in chosen for cycle in m.cycles if layout.other and hand.side}
    if len(chosen) == 1:
        return ArmsMotion(chosen[0][1], sides, at_once)
    first, second = (m for _, m in chosen)
    path = np.concatenate([first.path, second.path], axis=1)
    speed = arm_speed(path, recording.fps)
    motion = ArmMotion(
        fps=recording.fps,
        path=path,
        speed=speed,
        height=None,
        closed=_either(first.closed, second.closed),
        cycles=_in_turn((*first.cycles, *second.cycles)),
        hand=(*first.hand, *second.hand),
        drives=tuple(find_drives(recording, layout, speed)),
        is_still=first.is_still and second.is_still,
    )
    return ArmsMotion(motion, sides, at_once)


def _either(first: Curve | None, second: Curve | None) -> Curve | None:
    """How closed the hand is that is closed more."""
    if first is None or second is None:
        return first if second is None else second
    return np.maximum(first, second)


def _in_turn(cycles: Sequence[Cycle]) -> tuple[Cycle, ...]:
    """The grasps in order, without those that begin while another hand holds something."""
    turns: list[Cycle] = []
    for cycle in sorted(cycles, key=lambda c: c.grasp):
        if not turns or (turns[-1].release is not None and cycle.grasp >= turns[-1].release):
            turns.append(cycle)
    return tuple(turns)


def _overlap(motions: Sequence[ArmMotion]) -> bool:
    """Whether the grasps of different hands overlap, but for those that are brief and carry nothing."""
    spans = [
        [
            (cycle.grasp, len(motion) if cycle.release is None else cycle.release)
            for cycle in motion.cycles
            if not motion.failed(cycle) or (cycle.release or len(motion)) - cycle.contact > motion.fps
        ]
        for motion in motions
    ]
    return any(
        a < d and c < b
        for first, second in itertools.combinations(spans, 2)
        for (a, b), (c, d) in itertools.product(first, second)
    )
