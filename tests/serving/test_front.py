"""What stands before Ray's proxy: whole requests go on, answers come back as they are written."""

import asyncio
import signal
import socket

import httpx
import pytest
from support.serving_models import EchoChat, content, running, say
from support.wait import until

from goalreel.serving.app import create_app
from goalreel.serving.cluster import Front, FrontServer
from goalreel.serving.settings import Models, ServeSettings

TOKEN = "correct-horse"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def chat():
    return EchoChat()


@pytest.fixture
def standing(chat):
    """The application behind, and a client of the front."""
    app = create_app(Models(planner=chat), ServeSettings(token=TOKEN))
    with (
        running(app) as (behind, _),
        running(Front(behind, 2000)) as (url, _),
        httpx.Client(base_url=url, timeout=60, headers=HEADERS) as client,
    ):
        yield app, client


def test_requests_and_answers_pass_as_they_are(standing):
    _, client = standing
    answer = say(client, "hello")
    assert content(answer) == "hello"
    assert len(answer.headers.get_list("date")) == 1
    events = say(client, "hello", stream=True)
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.text.endswith("data: [DONE]\n\n")
    assert client.get("/v1/models/planner").json()["id"] == "planner"
    assert client.get("/v1/models/planner?x=%C3%A9", headers={"Authorization": "no"}).status_code == 401
    assert client.get("/nowhere").status_code == 404


def test_a_large_body_goes_no_further(standing, chat):
    _, client = standing
    answer = say(client, "x" * 3000)
    assert (answer.status_code, chat.batches) == (413, [])
    assert "2000 bytes" in answer.json()["error"]["message"]


def test_half_a_body_goes_no_further():
    messages = iter([
        {"type": "http.request", "body": b'{"model": ', "more_body": True},
        {"type": "http.disconnect"},
    ])  # fmt: skip

    async def receive() -> dict:
        return next(messages)

    async def send(_: object) -> None:
        pytest.fail("nobody is there to be answered")

    # Nothing listens there: a request that went on would be answered with 503.
    asyncio.run(Front("http://127.0.0.1:9", 2000)({"type": "http"}, receive, send))


def test_a_client_that_leaves_is_gone_behind_as_well(standing, chat):
    app, client = standing
    chat.gate.clear()
    body = b'{"model": "planner", "messages": [{"role": "user", "content": "x"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
        connection.sendall(head.encode() + body)
        assert chat.entered.acquire(timeout=60)
    batcher = app.state.service.batchers["planner"]
    until(lambda: batcher.under_way == 0)
    chat.gate.set()


def test_without_anything_behind_it_the_answer_says_so():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with running(Front(f"http://127.0.0.1:{port}", 2000)) as (url, _), httpx.Client(base_url=url) as client:
        answer = say(client, "hello")
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "no replica answers: try again")


def test_a_signal_ends_it_and_is_not_raised_again():
    """Or the cluster would outlive the command; a second one ends it at once."""
    server = FrontServer(Front("http://127.0.0.1:9", 1), 5)
    server.handle_exit(signal.SIGTERM, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    server.handle_exit(signal.SIGTERM, None)
    assert server.force_exit
    assert not server._captured_signals
