"""Split steps by the variance of their scores: fine-tuning or reinforcement (InterleaveThinker, section 3.2).

Where attempts differ much there is something to explore (RL); where they agree the answer is plain (SFT). The
paper gives the result, 2 SFT steps to 1 RL step, and no threshold. Here it is the quantile that gives that.
"""

from collections.abc import Sequence

import numpy as np

SFT_SHARE = 2 / 3


def variance(overall: Sequence[float]) -> float:
    """Population variance of a step's overall scores; 0 for a single attempt."""
    return float(np.var(overall))


def rl_threshold(variances: Sequence[float]) -> float:
    """Steps whose variance is above this are for RL: a third of them, fewer where many are equal.

    >>> rl_threshold([0, 0, 1, 2, 3, 4])
    2.0
    >>> rl_threshold([0, 0, 0, 0, 0, 4])
    0.0
    """
    if not variances:
        return 0.0
    ordered = sorted(variances)
    return float(ordered[round(SFT_SHARE * len(ordered)) - 1])
