"""An episode that somebody labelled, as a planner takes it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.files import digest
from goalreel.types import Plan, Recording, Segment, Step


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
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    @property
    def plan(self) -> Plan:
        """Its steps as they are, said to be by who labelled it."""
        steps = tuple(step.model_copy(update={"by": self.by}) for step in self.steps)
        return Plan(steps=steps, segments=self.segments)


def numbers_of(recording: Recording) -> str:
    """A digest that identifies a recording in any dataset, from its times, states and actions.

    The id counts too where only the times are recorded.
    """
    numbers = [values.tobytes() for values in (recording.state, recording.action)]
    return digest(recording.timestamps.tobytes(), *numbers, "" if any(numbers) else recording.id)


def digest_of(examples: Sequence[Example]) -> str | None:
    """A digest of these examples; None where there are none."""
    parts = (f"{e.numbers} {e.instruction} {e.fps} {e.plan.model_dump_json()}" for e in examples)
    return digest(*parts)[:16] if examples else None
