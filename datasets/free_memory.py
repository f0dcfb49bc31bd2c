"""Memory that was freed, given back to the system between the phases of a run.

Arrow's pool and glibc keep what is freed for its next use, glibc in a heap of its own for each of the first
threads. So each phase would add what it needed to what the one after needs: of 326 MB at the end of a build
of 20,000 episodes, 18 MB were in use by C code (dev/LOG.md, 2026-11-28).
"""

import ctypes
import gc
import sys

import pyarrow as pa


def release_memory(*, cycles: bool = False) -> None:
    """Give back what is free: that of Arrow, and on Linux with glibc that of all C code.

    With `cycles`, objects that only refer to one another are freed first. To look for them takes some 40 ms.
    """
    if cycles:
        gc.collect()
    pa.default_memory_pool().release_unused()
    # Python has no call for it; other C libraries have no such function, and need none.
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
