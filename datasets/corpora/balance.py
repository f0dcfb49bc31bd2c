"""Balance accepted and rejected attempts by leaving rows out, with a seed (InterleaveThinker, section 3.2).

The paper resamples, and does not say how. Here rows of the larger side are left out. Repeated pictures
would be learned by heart within two epochs, and would make the same group twice in GRPO. Without balance
the paper's Critic tended to accept everything.
"""

from collections.abc import Callable, Sequence

import numpy as np

_STREAM = 5


def balanced[R](
    rows: Sequence[R], success: Callable[[R], bool], trusted: Callable[[R], bool], seed: int
) -> list[R]:
    """Choose rows, in order, so that both sides have as many; rows that a person judged are always kept."""
    sides = [[i for i, row in enumerate(rows) if success(row) is side] for side in (True, False)]
    count = min(map(len, sides))
    rng = np.random.default_rng([seed, _STREAM])
    indices: list[int] = []
    for side in sides:
        sure = [i for i in side if trusted(rows[i])]
        others = [i for i in side if not trusted(rows[i])]
        free = min(max(count - len(sure), 0), len(others))
        indices += sure + [others[i] for i in rng.permutation(len(others))[:free]]
    return [rows[i] for i in sorted(indices)]
