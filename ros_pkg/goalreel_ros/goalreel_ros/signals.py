"""Waiting for SIGINT and SIGTERM without losing one."""

import select
import signal
import socket


class Stop:
    """Set by a signal or by `ask`. Made in the main thread.

    A lock is no good for this: a signal that comes just before the wait begins would not wake it, and its
    handler may have interrupted the very code that holds the lock. The interpreter's wakeup descriptor has
    neither fault, whichever thread the signal is delivered to.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)

    @property
    def asked(self) -> bool:
        """Whether the end has been asked for."""
        return bool(select.select([self._reader], [], [], 0)[0])

    def ask(self) -> None:
        """Ask for the end, from any thread."""
        self._writer.send(b"\0")

    def wait(self) -> None:
        """Wait until the end is asked for."""
        self._reader.recv(1, socket.MSG_PEEK)
