"""Callbacks by which long work reports its progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

type OnProgress = Callable[[str, int, int], None]
"""Called with (stage, done, total) as the work goes on."""
type OnCount = Callable[[int, int], None]
"""Called with (done, total) as one stage goes on."""
type OnText = Callable[[str], None]
"""Called with each piece of a chat model's reply as it is written; must be quick, and must not raise."""

_listener: ContextVar[Callable[[], OnText | None] | None] = ContextVar("goalreel_replies", default=None)


@contextmanager
def reply_listener(begin: Callable[[], OnText | None]) -> Iterator[None]:
    """Listen to the replies of chat models that are called in this context.

    `begin` is called before each reply, in the model's thread. It gives what hears the reply, or None.
    """
    token = _listener.set(begin)
    try:
        yield
    finally:
        _listener.reset(token)


def begin_reply() -> OnText | None:
    """Tell the listener, if there is one, that a reply begins; return what hears it."""
    begin = _listener.get()
    return None if begin is None else begin()


@contextmanager
def without_loading_bars(source: str, *libraries: Any) -> Iterator[None]:
    """Silence libraries' progress bars while weights are loaded from a folder, which takes seconds.

    `libraries` are modules such as `transformers.utils.logging`. Where `source` is no folder the bars stay:
    weights may have to be downloaded.
    """
    active = [library for library in libraries if library.is_progress_bar_enabled()]
    if not Path(source).is_dir():
        active = []
    for library in active:
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library in active:
            library.enable_progress_bar()
