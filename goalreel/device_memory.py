"""The memory of a GPU."""

import gc
import sys


def free_memory() -> None:
    """Give back what models that nobody holds any more took; torch is not imported for it."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
