"""Which episodes to label: those from which most others can be labelled."""

from collections.abc import Sequence

import numpy as np

from goalreel.planners.examples.carry import motion_of
from goalreel.planners.examples.warp import Scale, warp
from goalreel.types import Recording

MOST = 40
"""Episodes that are compared with each other, evenly spread over all."""


def choose(recordings: Sequence[Recording], count: int = 3) -> list[int]:
    """Choose `count` recordings of one task to label, by their places in the list, the best one first.

    The first is nearest to all others; each next one brings the others nearest to one that is labelled.
    """
    places = np.unique(np.linspace(0, len(recordings) - 1, min(len(recordings), MOST)).round().astype(int))
    motions = [motion_of(recordings[place]) for place in places]
    scale = Scale.of(motions)
    rows = [scale.features(motion) for motion in motions]
    far = np.zeros((len(rows), len(rows)))
    for a in range(len(rows)):
        others = range(a + 1, len(rows))
        for b, warped in zip(others, warp([(rows[a], rows[b]) for b in others]), strict=True):
            far[a, b] = far[b, a] = warped.cost
    near, chosen = np.full(len(rows), np.inf), list[int]()
    for _ in range(min(count, len(rows))):
        totals = np.minimum(near[:, None], far).sum(axis=0)
        totals[chosen] = np.inf
        chosen.append(int(np.argmin(totals)))
        near = np.minimum(near, far[:, chosen[-1]])
    return places[chosen].tolist()
