"""Several training seeds on the same tasks: values with 95 % intervals over both."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.evaluation.statistics import DRAWS, Measurement
from goalreel.tabletop.policy.rollout import Rolled

type SeedEnds = Sequence[Sequence[Rolled]]
"""How tasks ended: by training seed, then by task."""
type SeedCounts = NDArray[np.float64]
"""Hits and how many there could be, (seeds, tasks, 2)."""


def measure_seeds(ends: SeedEnds, measure: str) -> Measurement:
    """Compute the share of tasks (`success`, `first_right`) or of sub-goals (`reached`, `exact`), 0-1.

    `length` is the number of sub-goals reached in a task.
    """
    return measure_counts(_counts(ends, measure))


def difference_of_seeds(first: SeedEnds, second: SeedEnds, measure: str) -> Measurement:
    """Compute by how many points (0-100) one is ahead of two, seed by seed and task by task.

    Raises:
        ValueError: they are not of the same seeds and tasks.
    """
    return difference_of_counts(_counts(first, measure), _counts(second, measure))


def _counts(ends: SeedEnds, measure: str) -> SeedCounts:
    match measure:
        case "reached" | "exact":
            return np.array([[(getattr(e, measure), e.goals) for e in row] for row in ends], np.float64)
        case "length":
            return np.array([[(e.reached, 1) for e in row] for row in ends], np.float64)
    return np.array([[(getattr(e, measure), 1) for e in row] for row in ends], np.float64)


def difference_of_counts(first: SeedCounts, second: SeedCounts) -> Measurement:
    """Compute by how many points (0-100) one is ahead of two, seed by seed and task by task.

    Raises:
        ValueError: they are not of the same seeds and tasks.
    """
    if first.shape != second.shape:
        raise ValueError(f"not the same seeds and tasks: {first.shape[:2]} and {second.shape[:2]}")
    return measure_counts(np.stack([100 * (first[..., 0] - second[..., 0]), first[..., 1]], -1))


def measure_counts(counts: SeedCounts) -> Measurement:
    """Divide the sums; the interval draws seeds and tasks again, each with all that belongs to it."""
    seeds, tasks = counts.shape[:2]
    rng = np.random.default_rng(0)
    rows = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=DRAWS)
    columns = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=DRAWS)
    sums = np.einsum("ds,stk,dt->dk", rows, counts, columns, optimize=True)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    value = counts[..., 0].sum() / counts[..., 1].sum()
    return Measurement(value=float(value), low=float(low), high=float(high))
