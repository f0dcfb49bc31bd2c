"""How many threads of the CPU a model uses."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

SMALL = 50_000_000
"""Parameters. Up to so many, a second thread gains little where a core is idle. Where none is, a call takes
several times as long with it: a thread that waits for another keeps its core (dev/LOG.md, 2026-11-26)."""


def threads_for(models: Iterable[nn.Module]) -> AbstractContextManager[None]:
    """Make torch use one thread within this context if the models are small and on a CPU.

    OMP_NUM_THREADS in the environment wins: it is the user's choice.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return nullcontext()
    weights = [p for model in models for p in model.parameters()]
    small = sum(p.numel() for p in weights) <= SMALL and all(p.device.type == "cpu" for p in weights)
    return _one_thread() if small else nullcontext()


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
