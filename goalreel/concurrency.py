"""Calls that are made aside, in threads."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue


def aside[Order, Result](
    name: str,
    call: Callable[[Order], Result],
    order: Order,
    back: "SimpleQueue[tuple[Order, Result | BaseException]]",
) -> None:
    """Make a call in a daemon thread; the order goes into `back` with the result, or with what was raised.

    A call that hangs holds up nobody, not even the end of the program.
    """

    def work() -> None:
        try:
            result = call(order)
        except BaseException as e:  # noqa: BLE001  (whoever reads `back` raises it)
            result = e
        back.put((order, result))

    threading.Thread(target=work, name=name, daemon=True).start()


def each_aside[Order, Result](
    call: Callable[[Order], Result], orders: Sequence[Order], threads: int
) -> list[Result]:
    """Result i is that of order i; up to `threads` calls are made at once, in daemon threads.

    What a call raises is raised here, and what has not begun is left: as it is on Ctrl-C.
    """
    todo: SimpleQueue[tuple[int, Order] | None] = SimpleQueue()
    back: SimpleQueue[tuple[tuple[int, Order], Result | BaseException]] = SimpleQueue()
    for numbered in enumerate(orders):
        todo.put(numbered)
    threads = min(threads, len(orders))
    work = (lambda numbered: call(numbered[1]), todo, back)
    for _ in range(threads):
        run = partial(copy_context().run, _work, *work)
        threading.Thread(target=run, name="goalreel-call", daemon=True).start()
    found: dict[int, Result] = {}
    try:
        while len(found) < len(orders):
            (number, _), result = back.get()
            if isinstance(result, BaseException):
                raise result
            found[number] = result
    finally:
        with suppress(Empty):
            while True:
                todo.get_nowait()
        for _ in range(threads):
            todo.put(None)
    return [found[number] for number in range(len(orders))]


def ahead[Order, Result](
    call: Callable[[Order], Result], orders: Iterable[Order], most: int
) -> Generator[Result]:
    """Yield the results in the order of `orders`, of which a thread calls up to `most` before they are read.

    What a call raises is raised here. Closing it waits for the call that has begun.
    """
    pool, made = ThreadPoolExecutor(1, "goalreel-ahead"), deque[Future[Result]]()
    try:
        for order in orders:
            made.append(pool.submit(call, order))
            if len(made) > most:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _work[Order, Result](
    call: Callable[[Order], Result],
    orders: "SimpleQueue[Order | None]",
    back: "SimpleQueue[tuple[Order, Result | BaseException]]",
) -> None:
    while (order := orders.get()) is not None:
        try:
            result = call(order)
        except BaseException as e:  # noqa: BLE001  (whoever reads `back` raises it)
            result = e
        back.put((order, result))
        del order, result
