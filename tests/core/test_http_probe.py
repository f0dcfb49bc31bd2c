"""What a probe of a model server says, for each way in which one can be there or not."""

import json
from collections.abc import Iterator

import pytest
from support.scripted import ScriptedChat
from support.stub_server import StubHandler, StubServer

from goalreel.chat.openai import OpenAIChat
from goalreel.editors.remote import remote_editor
from goalreel.errors import BackendError, InputError
from goalreel.http.calls import probe
from goalreel.planners.chat import ChatPlanner


class Handler(StubHandler):
    """Answers by method and path."""

    def answer(self) -> None:
        self.body()
        self.server.key = self.headers["x-goog-api-key"]
        route = self.command, self.path.partition("?")[0]
        status, body, *more = self.server.replies.get(route, (404, "no route"))
        kind = "text/html" if isinstance(body, str) else "application/json"
        text = body if isinstance(body, str) else json.dumps(body)
        self.send(status, text.encode(), dict(*more, **{"Content-Type": kind}))

    do_GET = do_POST = answer


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with StubServer(Handler) as server:
        yield server


def listing(*names: str, owner: str = "vllm") -> tuple[int, dict]:
    return 200, {"object": "list", "data": [{"id": name, "owned_by": owner} for name in names]}


LIST, ASK = ("GET", "/v1/models"), ("POST", "/v1/chat/completions")
REFUSED = (401, {"error": {"message": "bad key"}})
SCOPE = (401, {"error": {"message": "missing scopes: api.model.read"}})


@pytest.mark.parametrize(
    ("replies", "kind", "says"),
    [
        ({LIST: listing("mine")}, None, ""),
        ({LIST: listing("models/mine")}, None, ""),
        ({LIST: listing("mine:latest")}, None, ""),
        ({LIST: listing("other")}, None, "does not list 'mine', but other"),
        ({LIST: listing("planner", owner="goalreel")}, InputError, "does not list 'mine', but planner: name"),
        ({LIST: SCOPE}, None, ""),
        ({LIST: REFUSED}, InputError, "HTTP 401 .* bad key: set GOALREEL_API_KEY"),
        ({LIST: (503, {"error": "loading"})}, BackendError, "HTTP 503 .* loading"),
        ({LIST: (200, "<title>Grafana</title>")}, InputError, "is no model server: .* with text/html"),
        ({ASK: (422, {"detail": "no messages"})}, None, ""),
        ({ASK: REFUSED}, InputError, "HTTP 401"),
        ({}, InputError, "HTTP 404 .*no route"),
    ],
)
def test_an_openai_compatible_server(server, replies, kind, says):
    server.replies = replies
    chat = OpenAIChat("mine", f"{server.url}/v1", retries=0)
    if kind is None:
        assert says in (probe(ChatPlanner(chat)) or "")
    else:
        with pytest.raises(kind, match=says):
            probe(ChatPlanner(chat))


def test_what_a_server_lacks_is_told(server):
    server.replies = {LIST: listing("mine")}
    with pytest.raises(InputError, match="the address may have to end in /v1"):
        OpenAIChat("mine", server.url).probe()
    server.replies = {LIST: listing("planner", "critic", owner="goalreel")}
    with pytest.raises(InputError, match="does not list 'editor', but planner, critic"):
        remote_editor("server", server.url).probe()
    with pytest.raises(BackendError, match=r"cannot reach http://127\.0\.0\.1:9/v1: is the server running"):
        OpenAIChat("mine", "http://127.0.0.1:9/v1").probe()


def test_geminis_api_whose_key_follows_no_redirect_to_another_server(server, monkeypatch):
    monkeypatch.setenv("GOALREEL_API_KEY", "k")
    server.replies = {("GET", "/v1beta/models/mine"): (200, {"name": "models/mine"})}
    with StubServer(Handler) as other:
        other.replies = {("GET", "/v1beta/models/moved"): (307, "", {"Location": server.url})}
        with pytest.raises(InputError, match="HTTP 404"):
            remote_editor("gemini", f"moved@{other.url}").probe()
    assert (other.key, server.key) == ("k", None)
    assert remote_editor("gemini", f"mine@{server.url}").probe() == ""
    assert server.key == "k"


def test_a_server_of_no_known_list_only_has_to_answer_and_a_model_of_this_process_has_none(server):
    assert remote_editor("interleavethinker", server.url).probe() == ""
    assert probe(ChatPlanner(ScriptedChat())) is None
    assert probe(object()) is None
