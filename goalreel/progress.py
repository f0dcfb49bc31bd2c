"""Callbacks by which long work reports its progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

type OnProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total) as the work goes on."""
type OnCount = Callable[[int, int], None]
"""Called with (done, total) as one stage goes on."""


@contextmanager
def without_loading_bars(source: str, *libraries: Any) -> Iterator[None]:
    """Silence libraries' progress bars while weights are loaded from a folder, which takes seconds.

    `libraries` are modules such as `transformers.utils.logging`. Where `source` is no folder the bars stay:
    weights may have to be downloaded.
    """
    active = [library for library in libraries if library.is_progress_bar_enabled() and Path(source).is_dir()]
    for library in active:
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library in active:
            library.enable_progress_bar()
