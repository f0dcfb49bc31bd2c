"""Calls in threads."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context


def map_threaded[Item, Result](
    call: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> list[Result]:
    """Call each item in up to `threads` threads at once; result i is that of item i.

    What a call raises is raised here, and calls that have not begun are dropped, as they are on Ctrl-C.
    """
    pool = ThreadPoolExecutor(threads, "goalreel-call")
    try:
        return [f.result() for f in [pool.submit(copy_context().run, call, item) for item in items]]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def prefetch[Item, Result](
    call: Callable[[Item], Result], items: Iterable[Item], limit: int
) -> Generator[Result]:
    """Yield the results in the order of `items`; a thread computes up to `limit` before they are read.

    What a call raises is raised here. Closing the generator waits for the call that has begun.
    """
    pool, futures = ThreadPoolExecutor(1, "goalreel-prefetch"), deque[Future[Result]]()
    try:
        for item in items:
            futures.append(pool.submit(call, item))
            if len(futures) > limit:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
