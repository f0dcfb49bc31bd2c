"""Measure whether bf16 is faster on this machine."""

import time
from functools import cache

import torch

_SIDE, _ROUNDS, _FASTER = 256, 5, 0.75


def computes_bf16() -> bool:
    """Tell whether this machine computes in bf16 faster than in float32: a GPU does; a CPU is measured, once.

    What a CPU says of itself does not tell: of two with AVX-512's bf16 one was twice as fast with it, the
    other slower (dev/LOG.md, 2026-11-25).
    """
    return torch.cuda.is_available() or _gains()


def half(device: torch.device, *, enabled: bool = True) -> torch.autocast:
    """Autocast to bf16, where it is wanted and computed."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled and computes_bf16())


def fused_attention_is_slow() -> bool:
    """Tell whether torch's fused attention takes longer here than products of matrices, for narrow heads.

    On a CPU it does in bf16 (dev/LOG.md, 2026-11-25).
    """
    return not torch.cuda.is_available() and computes_bf16()


@cache
def _gains() -> bool:
    return product_seconds(torch.bfloat16) < _FASTER * product_seconds(torch.float32)


def product_seconds(dtype: torch.dtype, side: int = _SIDE) -> float:
    """Time a product of two square matrices on the CPU: the least of some rounds, in seconds."""
    a, b = torch.ones(2, side, side, dtype=dtype)
    seconds = []
    for _ in range(1 + _ROUNDS):
        started = time.perf_counter()
        torch.mm(a, b)
        seconds.append(time.perf_counter() - started)
    return min(seconds)
