"""Calls in threads."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue


def call_in_thread[Item, Result](
    name: str,
    call: Callable[[Item], Result],
    item: Item,
    results: "SimpleQueue[tuple[Item, Result | BaseException]]",
) -> None:
    """Make a call in a daemon thread and put the item into `results`, with its result or what was raised.

    A call that hangs holds up nobody, not even the end of the program.
    """

    work = partial(_put_result, call, item, results)
    threading.Thread(target=work, name=name, daemon=True).start()


def map_threaded[Item, Result](
    call: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> list[Result]:
    """Call each item in up to `threads` daemon threads at once; result i is that of item i.

    What a call raises is raised here, and calls that have not begun are dropped, as they are on Ctrl-C.
    """
    todo: SimpleQueue[tuple[int, Item] | None] = SimpleQueue()
    results: SimpleQueue[tuple[tuple[int, Item], Result | BaseException]] = SimpleQueue()
    for numbered in enumerate(items):
        todo.put(numbered)
    threads = min(threads, len(items))
    work = (lambda numbered: call(numbered[1]), todo, results)
    for _ in range(threads):
        run = partial(copy_context().run, _work, *work)
        threading.Thread(target=run, name="goalreel-call", daemon=True).start()
    by_number: dict[int, Result] = {}
    try:
        while len(by_number) < len(items):
            (number, _), result = results.get()
            if isinstance(result, BaseException):
                raise result
            by_number[number] = result
    finally:
        with suppress(Empty):
            while True:
                todo.get_nowait()
        for _ in range(threads):
            todo.put(None)
    return [by_number[number] for number in range(len(items))]


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


def _work[Item, Result](
    call: Callable[[Item], Result],
    items: "SimpleQueue[Item | None]",
    results: "SimpleQueue[tuple[Item, Result | BaseException]]",
) -> None:
    while (item := items.get()) is not None:
        _put_result(call, item, results)
        del item


def _put_result[Item, Result](
    call: Callable[[Item], Result], item: Item, results: "SimpleQueue[tuple[Item, Result | BaseException]]"
) -> None:
    try:
        result = call(item)
    except BaseException as e:  # noqa: BLE001  (whoever reads `results` raises it)
        results.put((item, e))
    else:
        results.put((item, result))
