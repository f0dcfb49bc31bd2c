"""An HTTP connection that stays open for further requests, and that another thread can close."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any

import httpx2

from goalreel.http.abort import current_abort

IDLE_S = 30.0
"""How long a connection stays open without a request; servers and gateways close theirs after 5 to 350 s."""
_LOST = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)


class PersistentConnection:
    """A client of one connection, for one request at a time; `options` are those of an httpx2 client.

    Aborting a call shuts its socket down: closing the client would not wake a thread that waits for bytes.
    """

    def __init__(self, **options: Any) -> None:
        limits = httpx2.Limits(max_connections=1, keepalive_expiry=IDLE_S)
        self._client = httpx2.Client(limits=limits, **options)
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._request: httpx2.Request | None = None
        """The request in progress, if any."""
        self._is_new = self._is_aborted = False

    @contextmanager
    def stream(self, request: httpx2.Request) -> Iterator[httpx2.Response]:
        """Send a request, and give the reply before its body is read.

        Raises:
            CallAbortedError: nobody waits any more.
            httpx2.HTTPError: there is no reply.
        """
        request.read()
        with self._lock:
            self._request, self._is_new, self._is_aborted = request, False, False
        try:
            with current_abort().closing(partial(self._abort, request)), ExitStack() as stack:
                try:
                    response = stack.enter_context(self._send(request))
                except _LOST:
                    if self._is_new or self._is_aborted:
                        raise
                    # The server had closed the open connection, which says nothing about this request.
                    response = stack.enter_context(self._send(request))
                yield response
        finally:
            with self._lock:
                self._request = None

    def _send(self, request: httpx2.Request) -> Any:
        return self._client.stream(
            request.method,
            request.url,
            content=request.content,
            headers=request.headers,
            extensions={"trace": self._trace},
        )

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Note the socket of a new connection; the request's extension `trace`."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                self._socket, self._is_new = info["return_value"].get_extra_info("socket"), True
                if self._is_aborted:
                    self._shut_down()

    def _abort(self, request: httpx2.Request) -> None:
        with self._lock:
            if self._request is request:  # it may have ended, and the connection be another's
                self._is_aborted = True
                self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
