"""When the engine would ask the Critic, computed afterwards on recorded frames."""

import math
from collections.abc import Sequence

from goalreel.image import Image
from goalreel.streaming.closeness import Closeness
from goalreel.streaming.settings import EngineSettings
from goalreel.streaming.tracker import Tracker


def critic_query_frames(
    settings: EngineSettings, start: Image, goal: Image | None, frames: Sequence[Image], period: float
) -> list[int]:
    """Give the numbers of the frames about which the engine asks a Critic that always says no, at once.

    Args:
        start: the view when the sub-goal began.
        goal: its picture; None for a step in words alone.
        frames: the camera's frames since then, one every `period` seconds.
    """
    measure = None if goal is None else Closeness(start, goal)
    tracker = Tracker(settings, 0.0)
    values = (math.nan if measure is None else measure.measure(frame) for frame in frames)
    decisions = (tracker.decide(i * period, closeness) for i, closeness in enumerate(values))
    return [i for i, decision in enumerate(decisions) if decision == "ask"]
