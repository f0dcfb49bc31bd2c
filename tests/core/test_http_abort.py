"""Requests that nobody waits for: their connection is closed, so that the server can stop."""

import socket
import threading
from contextlib import suppress

import pytest
from support.conversations import user
from support.image_server import picture

from goalreel.chat.openai import OpenAIChat
from goalreel.editors.remote import remote_editor
from goalreel.http.calls import Abort, CallAbortedError, current_abort
from goalreel.types import Edit

HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"
EDIT = Edit(task_id="t", step=0, attempt=0, image=picture(16, 16), prompt="put it down", seed=1)


class SilentServer:
    """Reads requests and answers `head` of a reply; `heard` is set by a request, `left` by its end."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self.heard, self.left = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(2**20)
            connection.sendall(self._head)
            self.heard.set()
            with suppress(ConnectionResetError):  # it left before it had read all
                while connection.recv(2**20):
                    pass
            self.left.set()


CLIENTS = {
    "chat": lambda url: OpenAIChat("m", url).complete([user("hello")]),
    "editor": lambda url: remote_editor("openai", f"m@{url}").edit([EDIT]),
}


@pytest.mark.parametrize("head", [b"", HALF], ids=["no", "half a"])
@pytest.mark.parametrize("client", CLIENTS)
def test_aborting_closes_the_connection_and_ends_the_call(client, head):
    server, abort = SilentServer(head), Abort()

    def call() -> None:
        with suppress(BaseException):  # whatever it is, nobody waits for it
            abort.run(lambda: CLIENTS[client](server.url))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert server.heard.wait(30)
    abort.request()
    assert server.left.wait(30), "the server can stop"
    thread.join(30)
    assert not thread.is_alive(), "no further try, and no pause before one"


def test_a_call_that_was_aborted_before_sends_nothing():
    abort, ended = Abort(), []
    abort.request()

    def call() -> None:
        with current_abort().closing(lambda: ended.append(1)):
            ended.append(2)

    with pytest.raises(CallAbortedError):
        abort.run(call)
    assert ended == []
    with current_abort().closing(lambda: ended.append(3)):
        pass
    assert ended == []
