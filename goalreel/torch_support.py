"""Small helpers for torch: memory, threads, quantization. None of them imports it early."""

import gc
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from goalreel.errors import InputError

if TYPE_CHECKING:
    from torch import nn


def has_gpu() -> bool:
    """True if torch is installed and has a GPU to compute on."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def free_memory() -> None:
    """Give back what models that nobody holds any more took; torch is not imported for it."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


SMALL = 50_000_000
"""Parameters. Up to so many, a second thread gains little where a core is idle. Where none is, a call takes
several times as long with it: a thread that waits for another keeps its core (dev/LOG.md, 2026-11-26)."""
_BEFORE: list[int] = []
"""Torch's threads before the first small model, once for each that is under way."""
_LOCK = Lock()


@contextmanager
def threads_for(models: "Iterable[nn.Module]") -> Iterator[None]:
    """Make torch use one thread within this context if the models are small and on a CPU.

    OMP_NUM_THREADS in the environment wins: it is the user's choice.
    """
    import torch

    weights = [p for model in models for p in model.parameters()]
    small = sum(p.numel() for p in weights) <= SMALL and all(p.device.type == "cpu" for p in weights)
    if not small or "OMP_NUM_THREADS" in os.environ:
        yield
        return
    with _LOCK:
        _BEFORE.append(_BEFORE[0] if _BEFORE else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _LOCK:
            torch.set_num_threads(_BEFORE.pop())


Quantize = Literal["fp8", "nf4"]

BYTES: dict[Quantize, float] = {"fp8": 1.0, "nf4": 0.5}
"""Bytes of a quantised weight; scales come on top, and embeddings stay as they are."""


def quantization_config(kind: str, library: Literal["transformers", "diffusers"], dtype: str) -> Any:
    """Make the configuration for a library's `from_pretrained`; `dtype` is torch's name of what computes.

    Raises:
        InputError: no such kind, or its package is not installed.
    """
    if kind not in BYTES:
        raise InputError(f"quantize is one of {', '.join(BYTES)}, got {kind!r}")
    require_package("bitsandbytes" if kind == "nf4" else "torchao", f"quantize={kind!r}")
    module = importlib.import_module(library)
    if kind == "nf4":
        options = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": dtype}
        return module.BitsAndBytesConfig(load_in_4bit=True, **options)
    from torchao.quantization import Float8WeightOnlyConfig

    return module.TorchAoConfig(Float8WeightOnlyConfig())


def require_package(package: str, wanted_by: str) -> None:
    """Raise an InputError if a package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise InputError(f"{wanted_by} needs {package}: pip install {package}")
