"""The memory of a GPU."""

import gc
import importlib.util
import sys


def has_gpu() -> bool:
    """Whether torch is installed and has a GPU to compute on."""
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
