"""What tests of the chat back ends share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.chat_server import ChatServer


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """No key or address of whoever runs the tests."""
    for name in ("OPENAI_API_KEY", "GOALREEL_API_KEY", "GOALREEL_TOKEN", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve() -> "Iterator[Callable[..., ChatServer]]":
    """Starts a chat server on the loopback that answers each request with `answer(request)`."""
    from support.chat_server import ChatServer

    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(ChatServer(answer))
