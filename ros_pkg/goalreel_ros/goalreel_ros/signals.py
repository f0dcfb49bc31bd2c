"""Waiting for SIGINT and SIGTERM without losing one."""

import select
import signal
import socket


class StopSignal:
    """Set by SIGINT, by SIGTERM, or by `request`. Create it in the main thread.

    A lock is not safe here: a signal that arrives just before the wait begins would not wake it, and the
    handler may interrupt the very code that holds the lock. The interpreter's wakeup descriptor has neither
    fault, whichever thread the signal is delivered to.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)

    @property
    def requested(self) -> bool:
        """Whether the process is to stop."""
        return bool(select.select([self._reader], [], [], 0)[0])

    def request(self) -> None:
        """Request a stop, from any thread."""
        self._writer.send(b"\0")

    def wait(self) -> None:
        """Wait until a stop is requested."""
        self._reader.recv(1, socket.MSG_PEEK)
