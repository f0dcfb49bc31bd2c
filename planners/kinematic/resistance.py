"""Where an arm does not move as it is told: something is in its way.

How an arm follows its command is learned from the episode itself, by a fit that leaves out what does not
follow. A command that was made from the motion, such as the next state, tells nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.signals import Curve, unwrap
from goalreel.types import Recording

_AHEAD = 0.3
"""Share of the arm's extent that a commanded place is ahead of the state at most, as a rule."""
_RATE = 10.0
"""Steps a second, at most: shorter ones are mostly noise."""
_COMMANDS, _STEPS = 4, 2
"""Commands, and earlier steps, that tell the next step."""
_FOLLOWS = 0.8
"""Share of its steps that a fit explains, in squares, where an arm follows its command."""
_ROUNDS = 30
"""Rounds of the fit, each with less weight on what the one before did not explain."""
_ONWARDS = 0.5
"""Cosine from which a step misses what was expected by going on further."""
_OUTSIDE = 4.0
"""Median misses from which a step does not count for the fit."""


@dataclass(frozen=True, slots=True)
class ArmCommand:
    """Where an arm is in n frames, and how it is told to go on from there."""

    place: NDArray[np.float64]
    """(n, dims)."""
    lead: NDArray[np.float64]
    """(n, dims): how far a commanded place lies ahead, or a commanded velocity, in any unit."""

    @property
    def effort(self) -> Curve:
        """How far or how fast the arm is told to go on, (n,)."""
        return np.linalg.norm(self.lead, axis=1)

    def resistance(self, fps: float) -> Curve | None:
        """How far each step misses what the commands make expect, in the arm's usual steps: (n,).

        A frame has the miss of the step, of a tenth of a second at least, that it lies in; zero where the arm
        goes on further than expected, as one that something lets go. None where the arm does not follow the
        commands.
        """
        stride = max(1, round(fps / _RATE))
        steps = np.diff(self.place[::stride], axis=0)
        starts = np.arange(0, len(self.place), stride)
        told = (np.add.reduceat(self.lead, starts) / np.diff([*starts, len(self.place)])[:, None])[:-1]
        usual = float(np.percentile(np.linalg.norm(steps, axis=1), 80)) if len(steps) else 0.0
        if len(steps) < 3 * (_COMMANDS + _STEPS) or usual <= 0:
            return None
        before = [
            *(_shift(told, k) for k in range(_COMMANDS)),
            *(_shift(steps, k + 1) for k in range(_STEPS)),
        ]
        causes = np.stack(before, axis=-1)
        factors = _fit(causes.reshape(-1, len(before)), steps.reshape(-1))
        expected = causes @ factors
        misses = np.linalg.norm(steps - expected, axis=1)
        onwards = ((steps - expected) * expected).sum(axis=1)
        fits = misses <= np.median(misses) * _OUTSIDE
        if (misses[fits] ** 2).sum() > (1 - _FOLLOWS) * (steps[fits] ** 2).sum():
            return None
        misses[onwards > _ONWARDS * misses * np.linalg.norm(expected, axis=1)] = 0.0
        return np.append(np.repeat(misses / usual, stride), np.zeros(stride))[: len(self.place)]


def read_command(recording: Recording, layout: Layout) -> ArmCommand | None:
    """Read how the arm is told to move; None where the action has no dimensions for its position."""
    position = list(layout.position)
    if not position or min(recording.state.shape[1], recording.action.shape[1]) <= max(position):
        return None
    place, command = (v[:, position].astype(np.float64) for v in (recording.state, recording.action))
    lead = command - place
    is_place = np.median(np.linalg.norm(lead, axis=1)) < _AHEAD * np.linalg.norm(np.ptp(place, axis=0))
    return ArmCommand(unwrap(place), lead if is_place else command)


def _shift(values: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """The values of some steps before; zero where there were none."""
    return np.concatenate([np.zeros_like(values[:steps]), values])[: len(values)]


def _fit(causes: NDArray[np.float64], effects: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares with Tukey's weights."""
    weights: NDArray[np.float64] = np.ones(len(effects))
    factors: NDArray[np.float64] = np.zeros(causes.shape[1])
    for _ in range(_ROUNDS):
        root = np.sqrt(weights)
        factors = np.asarray(
            np.linalg.lstsq(causes * root[:, None], effects * root, rcond=None)[0], np.float64
        )
        misses = np.abs(effects - causes @ factors)
        limit = max(_OUTSIDE * float(np.median(misses)), 1e-9)
        weights = np.clip(1 - (misses / limit) ** 2, 0, None) ** 2
    return factors
