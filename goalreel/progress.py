"""Callbacks by which long work reports its progress."""

from collections.abc import Callable

type OnProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total) as the work goes on."""
type OnCount = Callable[[int, int], None]
"""Called with (done, total) as one stage goes on."""
