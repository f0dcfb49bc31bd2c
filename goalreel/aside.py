"""Calls that are made aside, in threads that nobody waits for at the end."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class AsideThread[Order, Result]:
    """Makes one call after the other, in a daemon thread; what comes of each goes into `back`.

    That is the order with its result, or with what the call raised. A call that hangs holds up neither
    `close` nor the end of the program.
    """

    def __init__(
        self,
        name: str,
        call: Callable[[Order], Result],
        back: "SimpleQueue[tuple[Order, Result | BaseException]]",
    ) -> None:
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        work = (call, self._orders, back)
        threading.Thread(target=_work, args=work, name=name, daemon=True).start()

    def put(self, order: Order) -> None:
        """Have the call made, after those that wait."""
        self._orders.put(order)

    def close(self) -> None:
        """The thread ends after what it was given."""
        self._orders.put(None)


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
