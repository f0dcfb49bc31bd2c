"""The order of training rows: random, but with rows of one length together, so that little is padded."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import batched
from typing import Any

import torch
from torch.utils.data import Sampler

POOL = 8
"""Steps whose rows are sorted among themselves: enough to pad little, few enough to stay a random order."""

type Length = tuple[int, int]
"""Pictures and characters: what decides how many tokens a row has."""


def length(row: Mapping[str, Any]) -> Length:
    """Tell about how long a row of `training.conversations` is, without reading its pictures."""
    return len(row["images"]), sum(len(message["content"]) for message in row["messages"])


class LengthSampler(Sampler[int]):
    """Indices of rows for steps of `size` rows each, which follow from the seed and the epoch alone.

    As transformers' `group_by_length`, but for the order of the steps: there fifty at a time get shorter and
    shorter, so that one kind of row follows the other; here they are mixed.
    """

    def __init__(self, lengths: Sequence[Length], size: int, seed: int) -> None:
        self._lengths, self._size, self._seed = lengths, size, seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by accelerate's loader before it asks for the indices of an epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self._epoch)
        order = torch.randperm(len(self), generator=generator).tolist()
        pools = (sorted(pool, key=self._lengths.__getitem__) for pool in batched(order, POOL * self._size))
        steps = [step for pool in pools for step in batched(pool, self._size)]
        short = [steps.pop()] if len(self) % self._size else []  # what is left over stays the last step
        mixed = [steps[i] for i in torch.randperm(len(steps), generator=generator).tolist()]
        return (index for step in mixed + short for index in step)
