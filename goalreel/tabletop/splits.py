"""Which seed belongs to which split. Fixed for ever: results are only comparable while these stand.

    train       0 ..   899 999    (a seed picked without thought lands here)
    validation  900 000 .. 949 999
    test        950 000 .. 999 999

Tune on train and validation; the test split is for the numbers that get written down.
"""

from typing import Literal

from goalreel.errors import InputError

type Split = Literal["train", "validation", "test"]

SEEDS: dict[Split, range] = {
    "train": range(0, 900_000),
    "validation": range(900_000, 950_000),
    "test": range(950_000, 1_000_000),
}


def seeds(split: Split, count: int, first: int = 0) -> range:
    """Take the seeds `first .. first + count` of a split, or raise an InputError if it has fewer."""
    if split not in SEEDS:
        raise InputError(f"no split {split!r}: choose one of {', '.join(SEEDS)}")
    if count < 1 or first < 0:
        raise InputError(f"need at least one episode and a first seed >= 0, got {count} and {first}")
    chosen = SEEDS[split][first : first + count]
    if len(chosen) < count:
        raise InputError(f"split {split} has {len(SEEDS[split])} seeds, asked for {first} .. {first + count}")
    return chosen


def split_of(seed: int) -> Split:
    """Find the split of a seed; raise an InputError if it is outside all."""
    for name, span in SEEDS.items():
        if seed in span:
            return name
    raise InputError(f"seed {seed} is outside 0 .. 999999, where the splits are defined")
