"""An episode that somebody labelled, as a planner takes it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.types import Segment, Step


@dataclass(frozen=True, eq=False)
class Example:
    """An episode of a robot whose steps somebody labelled."""

    id: str
    """For messages: "episode 3"."""
    numbers: str
    """Digest that identifies the recording in any dataset (`numbers_of`)."""
    instruction: str
    fps: float
    timestamps: NDArray[np.float64]
    """Seconds since the episode's start, (frames,)."""
    state: NDArray[np.float64]
    """(frames, dimensions); there may be none."""
    action: NDArray[np.float64]
    steps: tuple[Step, ...]
    segments: tuple[Segment, ...]
    """One a step, in order."""
    by: str
    """Maker of the labels, as in `goalreel.claims.Claim.by`."""
