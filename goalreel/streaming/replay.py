"""When the engine would ask the Critic, worked out afterwards on frames that were kept."""

import math
from collections.abc import Sequence

from goalreel.image import Image
from goalreel.streaming.closeness import Closeness
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.tracker import Tracker


def asked_about(
    settings: EngineSettings, start: Image, goal: Image | None, frames: Sequence[Image], period: float
) -> list[int]:
    """Give the numbers of the frames about which a Critic is asked that answers at once and always with no.

    Args:
        start: the view when the sub-goal began.
        goal: its picture; None for a step in words alone.
        frames: what the camera saw since then, one every `period` seconds.
    """
    measure = None if goal is None else Closeness(start, goal)
    tracker = Tracker(settings, 0.0)
    near = (math.nan if measure is None else measure.of(frame) for frame in frames)
    looks = (tracker.look(i * period, closeness) for i, closeness in enumerate(near))
    return [i for i, decision in enumerate(looks) if decision == "ask"]
