"""Memory that is given back to the system."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from goalreel.datasets.free_memory import release_memory


def resident() -> int:
    """Pages of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much there is")
def test_what_threads_freed_is_given_back():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: [pa.allocate_buffer(2000) for _ in range(20_000)] and None).result()
    before = resident()
    release_memory()
    assert resident() < before
