"""Several training seeds on the same tasks: values with 95 % intervals over both."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.annotator.statistics import DRAWS, Measurement, share
from goalreel_lab.policy.arms import ARMS, GoalArm
from goalreel_lab.policy.rollout import PolicyEnd

type SeedEnds = Sequence[Sequence[PolicyEnd]]
"""Ends of tasks: by training seed, then by task."""
type SeedCounts = NDArray[np.float64]
"""Hits and how many there could be, (seeds, tasks, 2)."""


_TOTALS = {
    **dict.fromkeys(("reached", "exact"), "goals"),
    **dict.fromkeys(("false_stops", "false_passes", "unanswered"), "looks"),
}
"""Denominator of a measure; 1 a task for all others."""


def measure_seeds(ends: SeedEnds, measure: str) -> Measurement:
    """Compute a measure of all tasks together.

    - A share of tasks, 0-1: `success`, `first_right`, `stopped`.
    - A share of sub-goals: `reached`, `exact`.
    - A share of looks: `false_stops`, `false_passes`, `unanswered`; None where nobody looked.
    - A number a task: `length` (sub-goals reached), `steps`, `looks`, `replans`.
    """
    return measure_counts(_counts(ends, measure))


def difference_of_seeds(first: SeedEnds, second: SeedEnds, measure: str) -> Measurement:
    """Compute by how many points (0-100) one is ahead of two, seed by seed and task by task.

    Raises:
        ValueError: they are not of the same seeds and tasks.
    """
    return difference_of_counts(_counts(first, measure), _counts(second, measure))


def ratio_of_seeds(first: SeedEnds, second: SeedEnds, measure: str) -> Measurement:
    """Compute how many times as much one has of a measure as two, over the same seeds and tasks.

    Raises:
        ValueError: they are not of the same seeds and tasks.
    """
    first_counts, second_counts = _counts(first, measure), _counts(second, measure)
    _check_paired(first_counts, second_counts)
    return measure_counts(np.stack([first_counts[..., 0], second_counts[..., 0]], -1))


def _counts(ends: SeedEnds, measure: str) -> SeedCounts:
    hits = {"length": "reached"}.get(measure, measure)
    total = _TOTALS.get(measure)
    return np.array(
        [[(getattr(e, hits), getattr(e, total) if total else 1) for e in row] for row in ends], np.float64
    )


def difference_of_counts(first: SeedCounts, second: SeedCounts) -> Measurement:
    """Compute by how many points (0-100) one is ahead of two, seed by seed and task by task.

    Raises:
        ValueError: they are not of the same seeds and tasks.
    """
    _check_paired(first, second)
    return measure_counts(np.stack([100 * (first[..., 0] - second[..., 0]), first[..., 1]], -1))


def _check_paired(first: SeedCounts, second: SeedCounts) -> None:
    if first.shape != second.shape:
        raise ValueError(f"not the same seeds and tasks: {first.shape[:2]} and {second.shape[:2]}")


def measure_counts(counts: SeedCounts) -> Measurement:
    """Divide the sums; the interval draws seeds and tasks again, each with all that belongs to it."""
    seeds, tasks = counts.shape[:2]
    rng = np.random.default_rng(0)
    rows = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=DRAWS)
    columns = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=DRAWS)
    value = share(counts.sum((0, 1)))
    if np.isnan(value):
        return Measurement(value=None)
    sums = np.einsum("ds,stk,dt->dk", rows, counts, columns, optimize=True)
    low, high = np.nanpercentile(share(sums), [2.5, 97.5])
    return Measurement(value=float(value), low=float(low), high=float(high))


PAIRS: Mapping[str, tuple[GoalArm, GoalArm]] = {
    "true_minus_text": ("true", "text"),
    "true_minus_instruction": ("true", "instruction"),
    "text_minus_instruction": ("text", "instruction"),
    "predicted_minus_true": ("predicted", "true"),
    "predicted_minus_once": ("predicted", "predicted_once"),
    "predicted_minus_text": ("predicted", "text"),
    "placebo_minus_text": ("placebo", "text"),
    "black_minus_text": ("black", "text"),
    "true_minus_spot": ("true", "spot"),
    "spot_minus_text": ("spot", "text"),
    "gate_minus_open": ("gate", "open"),
    "truth_minus_gate": ("truth", "gate"),
}
"""Comparisons, in points of success and, with `_reached` and `_exact`, of sub-goals."""

HEADLINES = ("true_minus_text", "predicted_minus_true", "placebo_minus_text", "gate_minus_open")


def compare(rolled: Mapping[str, SeedEnds]) -> dict[str, Measurement]:
    """Measure NAME.MEASURE of every entry, and differences between entries.

    `Rolled.measures` and `GateEnd.measures` name the measures. Differences are in points, over the same tasks
    and seeds: PAIRS, and FIRST_minus_SECOND for each pair of which one has a name of its own.
    """
    values: dict[str, Measurement] = {}
    measures = {name: ends[0][0].measures for name, ends in rolled.items()}
    for name, ends in rolled.items():
        for measure_name in measures[name]:
            values[f"{name}.{measure_name}"] = measure_seeds(ends, measure_name)
    pairs: dict[str, tuple[str, str]] = {key: pair for key, pair in PAIRS.items() if rolled.keys() >= {*pair}}
    for first, second in itertools.combinations(rolled, 2):
        if first not in ARMS or second not in ARMS:
            pairs[f"{first}_minus_{second}"] = first, second
    for key, (first, second) in pairs.items():
        values[key] = difference_of_seeds(rolled[first], rolled[second], "success")
        for measure_name in ("reached", "exact"):
            if measure_name in measures[first] and measure_name in measures[second]:
                values[f"{key}_{measure_name}"] = difference_of_seeds(
                    rolled[first], rolled[second], measure_name
                )
    if rolled.keys() >= {"gate", "open"}:
        values["gate_over_open_steps"] = ratio_of_seeds(rolled["gate"], rolled["open"], "steps")
    return values
