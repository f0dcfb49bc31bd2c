"""What a run that watches will cost, reckoned before the first call."""

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from goalreel.datasets.source import Source
from goalreel.errors import UserError
from goalreel.models.model_set import ModelSet
from goalreel.models.registry import RecordingContext
from goalreel.planners.kinematic.layout import Unsegmentable

if TYPE_CHECKING:
    from goalreel.planners.watch.planner import WatchCost

log = logging.getLogger(__name__)

SAMPLE = 20
"""Episodes whose numbers are read; the others are reckoned from their lengths."""


def watching(source: Source, recorded: RecordingContext, episodes: Sequence[int]) -> "WatchCost":
    """Reckon what it takes to watch `episodes`, each once. No frame is decoded.

    Episodes that cannot be read cost nothing.
    """
    from goalreel.planners.watch.planner import WatchCost, watch_cost

    sample = episodes[:: math.ceil(len(episodes) / SAMPLE)] if episodes else []
    lengths = {row["episode_index"]: row["length"] for row in source.rows}
    total, frames = WatchCost(), 0
    for index in sample:
        try:
            total += watch_cost(source.episode(index), recorded.watched, recorded.layout, recorded.exemplars)
        except (UserError, Unsegmentable):
            continue
        frames += lengths[index]
    return total.times(sum(lengths[i] for i in episodes) / frames) if frames else total


def say_cost(models: ModelSet, source: Source, recorded: RecordingContext, episodes: Sequence[int]) -> None:
    """Log what a planner that watches will cost; nothing for another."""
    if models.names is None or models.names.preset.model_name("planner").kind != "watch":
        return
    cost = watching(source, recorded, episodes)
    log.warning(
        "watching %d episode(s) takes at least %d call(s) to the planner, with %d contact sheet(s) and about "
        "%s tokens of text; the critic is asked at least once a step",
        len(episodes),
        cost.calls,
        cost.pictures,
        f"{cost.text_tokens:,}",
    )
