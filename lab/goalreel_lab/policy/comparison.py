"""Entries of a measurement compared task by task, with intervals over tasks and training seeds."""

import itertools
from collections.abc import Mapping

from goalreel.annotator.statistics import Measurement
from goalreel_lab.policy.arms import ARMS, GoalArm
from goalreel_lab.policy.intervals import (
    SeedEnds,
    difference_of_seeds,
    measure_seeds,
    ratio_of_seeds,
)

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
"""What is compared, in points of success and, with `_reached` and `_exact`, of sub-goals."""

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
