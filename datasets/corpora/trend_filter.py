"""Keep a step by the trend of its attempts' scores: rising, or stable and high (InterleaveThinker, 3.2).

The paper names the three faults and no threshold; POOR and FALL are goalreel's own.
"""

from collections.abc import Sequence
from typing import Literal

from goalreel.datasets.corpora.scored import GOOD

type TrendFault = Literal["low_quality", "negative_trend", "degradation"]

POOR = 5.0
"""A step whose best attempt scores less is of low quality throughout."""
FALL = 0.5
"""From the first attempt to the last a score may fall by this: a judge is not steadier."""


def trend_fault(overall: Sequence[float]) -> TrendFault | None:
    """Why a step is dropped, by its attempts' overall scores in order; None where it is kept.

    >>> [trend_fault(s) for s in ([4, 7], [8], [3, 4.9], [9, 6.5], [6, 9, 5.8], [5, 5.5])]
    [None, None, 'low_quality', 'negative_trend', 'degradation', 'low_quality']
    """
    first, last, best = overall[0], overall[-1], max(overall)
    if best < POOR:
        return "low_quality"
    if last < first - FALL:
        return "negative_trend"
    if last >= GOOD:
        return None
    return "degradation" if best >= GOOD else "low_quality"
