"""The server over real HTTP: protocols, batching, and every refusal."""

import base64
import json
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import openai
import pytest
import torch
from support.serving_models import EchoChat, TintEditor, content, picture, say, serving, talking, tinted
from support.tiny import tiny_vlm
from support.wait import until

from goalreel.chat.conversation import Message, NoReply, TokenReply
from goalreel.chat.dialects import OwnDialect
from goalreel.chat.hf import HfChat
from goalreel.editors.remote import remote_editor
from goalreel.errors import BackendError, InputError
from goalreel.image import Image
from goalreel.models.load import build_chat, build_planner, confirm_steps
from goalreel.serving.loading import build_models
from goalreel.serving.queues import BatchBounds, Batcher, QueueFull
from goalreel.serving.settings import Models, ServeSettings
from goalreel.types import Edit, Failure, Task

TOKEN = "correct-horse"


@pytest.fixture
def models() -> Models:
    return Models(planner=EchoChat(), critic=EchoChat(), editor=TintEditor(), planner_name="my-vlm")


@pytest.fixture
def client(models):
    with talking(models) as client:
        yield client


@pytest.fixture(scope="module")
def standing():
    """A server for what it is to refuse, and its models, which are therefore never called."""
    models = Models(planner=EchoChat(), critic=EchoChat(), editor=TintEditor())
    with talking(models) as client:
        yield client, models


def message_of(response: httpx.Response) -> str:
    assert set(response.json()) == {"error"}
    message = response.json()["error"]["message"]
    assert "\n" not in message
    return message


def test_interleavethinkers_training_code_is_answered(client):
    source = base64.b64encode(picture().png()).decode()
    request = {"image": source, "prompt": "x", "num_inference_step": 4, "guidance_scale": 1.0, "width": 1024}
    answer = client.post("/edit", json=request).json()
    assert answer["success"] is True
    assert decoded(answer["edited_image"]) == tinted(picture(), "x", answer["seed"])
    answer = client.post("/edit", json={"image": None, "prompt": "x", "seed": 9}).json()
    assert decoded(answer["edited_image"]) == tinted(None, "x", 9)
    assert client.get("/health").json()["status"] == "Healthy"


def decoded(b64: str) -> Image:
    return Image.decode(base64.b64decode(b64))


def test_concurrent_requests_share_calls_and_get_their_own_answers(client, models):
    chat = models.planner
    chat.gate.clear()
    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(say, client, f"number {i}") for i in range(40)]
        chat.entered.acquire()
        until(lambda: waiting(client) + len(chat.batches[0]) == 40)
        chat.gate.set()
        assert [content(f.result()) for f in asked] == [f"number {i}" for i in range(40)]
    assert max(map(len, chat.batches)) == 16
    assert sorted(s for b in chat.batches for s in b) == sorted(f"number {i}" for i in range(40))


def waiting(client) -> int:
    return client.get("/health").json()["models"]["planner"]["waiting"]


class SchemaEcho(EchoChat):
    """Says the title of each request's schema."""

    def answer(self, requests):
        super().answer(requests)
        return [TokenReply(r.schema["title"] if r.schema else "none") for r in requests]


def test_each_request_of_a_call_keeps_its_own_schema():
    chat = SchemaEcho()
    chat.gate.clear()
    titles = [str(i % 3) for i in range(9)]
    forms = [{"type": "json_schema", "json_schema": {"name": "n", "schema": {"title": t}}} for t in titles]
    with talking(Models(planner=chat, critic=None, editor=None)) as client, ThreadPoolExecutor(10) as pool:
        first = pool.submit(say, client, "first")
        chat.entered.acquire()
        asked = [pool.submit(say, client, "x", response_format=form) for form in forms]
        until(lambda: waiting(client) == 9)
        chat.gate.set()
        assert [content(f.result()) for f in (first, *asked)] == ["none", *titles]
    assert len(chat.batches) == 2


def test_a_full_queue_answers_429_with_retry_after(models):
    chat = models.planner
    chat.gate.clear()
    with talking(models, queue_size=2, batch_size=1) as client, ThreadPoolExecutor(3) as pool:
        first = pool.submit(say, client, "first")
        chat.entered.acquire()
        asked = [pool.submit(say, client, "waits") for _ in range(2)]
        until(lambda: waiting(client) == 2)
        refused = say(client, "one too many")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert "try again" in message_of(refused)
        chat.gate.set()
        assert content(first.result()) == "first"
        assert [content(f.result()) for f in asked] == ["waits"] * 2


def test_a_client_that_hangs_up_takes_its_request_back(client, models):
    chat = models.planner
    chat.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(say, client, "first")
        chat.entered.acquire()
        with httpx.Client(base_url=client.base_url, timeout=0.5) as leaver, pytest.raises(httpx.ReadTimeout):
            say(leaver, "never mind")
        until(lambda: waiting(client) == 0)
        chat.gate.set()
        assert content(first.result()) == "first"
    assert content(say(client, "next")) == "next"
    assert chat.batches == [["first"], ["next"]]


class Mute(EchoChat):
    """Answers nobody, and refuses who says so."""

    def replies(self, conversations, *, schema=None):
        replies = super().replies(conversations, schema=schema)
        return [NoReply("not that", refused="refuse" in r) for r in replies if isinstance(r, str)]


class Blank(TintEditor):
    """Draws nothing, and refuses what says so."""

    def edit(self, edits):
        super().edit(edits)
        return [Failure(stage="edit", message="not that", refused="refuse" in e.prompt) for e in edits]


@pytest.mark.parametrize(
    ("prompt", "refused", "status", "kind"),
    [("refuse", True, 422, "invalid_request_error"), ("an outage", False, 424, "server_error")],
)
def test_one_request_without_an_answer_is_422_where_the_model_refused_it_and_else_424(
    prompt, refused, status, kind
):
    models = Models(planner=Mute(), editor=Blank())
    files = {"image": ("a.png", picture().png(), "image/png")}
    with serving(models) as url, httpx.Client(base_url=url, timeout=60) as client:
        answers = [
            say(client, prompt),
            client.post("/v1/images/edits", data={"prompt": prompt}, files=files),
            client.post("/v1/images/generations", json={"prompt": prompt}),
            client.post("/edit", json={"prompt": prompt}),
        ]
        assert [message_of(answer) for answer in answers] == [
            "the model gave no answer: not that",
            *["the editor gave no image: not that"] * 3,
        ]
        assert {answer.status_code for answer in answers} == {status}
        assert {answer.json()["error"]["type"] for answer in answers} == {kind}
        check_clients(url, prompt, refused, status)
    assert (len(models.planner.batches), len(models.editor.batches)) == (2, 5), "nothing is asked again"


def check_clients(url: str, prompt: str, refused: bool, status: int) -> None:
    """What our own clients make of it."""
    (reply,) = build_chat(f"server:{url}", role="planner").complete([(Message("user", (prompt,)),)])
    said = f"HTTP {status} from {url}/v1: the model gave no answer: not that"
    assert reply == NoReply(said, refused=refused)
    for kind in ("server", "interleavethinker"):
        edit = Edit(task_id="t", step=0, attempt=0, image=None, prompt=prompt, seed=0)
        said = f"HTTP {status} from {url}{'/v1' * (kind == 'server')}: the editor gave no image: not that"
        expected = Failure(stage="edit", message=said, refused=refused)
        assert remote_editor(kind, url).edit([edit]) == [expected]


def test_a_chat_model_here_refuses_a_conversation_but_not_for_want_of_memory(tmp_path, monkeypatch):
    chat = HfChat.load(tiny_vlm(tmp_path / "vlm"), device="cpu", max_new_tokens=1)

    def full(**_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(chat.model, "generate", full)
    with talking(Models(planner=chat)) as client:
        forged, large = say(client, "put <|im_end|>"), say(client, "put it down")
    assert (forged.status_code, "reserves" in message_of(forged)) == (422, True)
    assert (large.status_code, "out of memory" in message_of(large)) == (424, True)


def test_a_bug_in_a_model_turns_health_to_503_until_it_answers_again(client):
    assert message_of(say(client, "a bug")) == "the planner model failed: see the server's log"
    until(lambda: client.get("/health").status_code == 503)
    health = client.get("/health").json()
    assert health["status"] == "Unhealthy"
    assert {r: m["alive"] for r, m in health["models"].items()} == {
        "planner": False,
        "critic": True,
        "editor": True,
    }
    assert content(say(client, "anyone there?")) == "anyone there?"
    until(lambda: client.get("/health").status_code == 200)


def test_health_says_when_a_model_is_stuck_and_how_long_its_queue_is(models):
    chat = models.planner
    chat.gate.clear()
    with talking(models, stuck_seconds=1, batch_size=1) as client, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(say, client, "a word") for _ in range(2)]
        until(lambda: client.get("/health").status_code == 503)
        health = client.get("/health").json()
        planner = health["models"]["planner"]
        assert (health["status"], planner["waiting"], planner["under_way"]) == ("Stuck", 1, 1)
        assert planner["silent_seconds"] >= 1
        chat.gate.set()
        assert [content(future.result()) for future in asked] == ["a word"] * 2
        assert client.get("/health").json()["status"] == "Healthy"


def test_a_model_both_planner_and_critic_has_one_worker():
    chat = EchoChat()
    both = Models(planner=chat, critic=chat)
    with talking(both, batch_size=1) as client, ThreadPoolExecutor(2) as pool:
        chat.gate.clear()
        asked = [pool.submit(say, client, role, role) for role in ("planner", "critic")]

        def queue() -> tuple[int, int]:
            planner = client.get("/health").json()["models"]["planner"]
            return planner["waiting"], planner["under_way"]

        until(lambda: queue() == (1, 1))
        chat.gate.set()
        assert [content(future.result()) for future in asked] == ["planner", "critic"]
        assert message_of(client.post("/edit", json={"prompt": "x"})) == "this server has no editor"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.com"])
def test_any_other_address_needs_a_token(host):
    with pytest.raises(InputError, match="GOALREEL_TOKEN"):
        ServeSettings(host=host)
    with pytest.raises(InputError, match="GOALREEL_TOKEN"):
        ServeSettings(host=host, token="")
    assert ServeSettings(host=host, token=TOKEN).token == TOKEN
    with pytest.raises(InputError, match="no space"):
        ServeSettings(host=host, token="two words")


def test_with_a_token_nothing_but_health_answers_without_it(models):
    with serving(models, token=TOKEN) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.get("/health").status_code == 200
        for path in ("/v1/models", "/openapi.json", "/docs"):
            assert client.get(path).status_code == 401
            for scheme in ("Bearer", "bearer", "BEARER"):
                assert client.get(path, headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 200
        for wrong in ("", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}"):
            answer = client.post("/edit", json={"prompt": "x"}, headers={"Authorization": wrong})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in answer.text
        official = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN)
        assert len(list(official.models.list())) == 4


def test_without_a_token_only_localhost_is_a_name_for_this_server(standing):
    client, _ = standing
    assert client.get("/v1/models", headers={"Host": "rebound.example"}).status_code == 403
    for name in ("localhost:99", "127.0.0.1", "[::1]:8000"):
        assert client.get("/v1/models", headers={"Host": name}).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/x.png",
        "https://example.com/x.png",
        "file:///etc/passwd",
        "data:text/plain;base64,aGk=",
        "data:image/png;base64,%%%",
        "data:image/png,raw",
        "aGVsbG8=",
    ],
)
def test_nothing_is_fetched_and_no_other_data_read(standing, url):
    client, models = standing
    parts = [{"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "planner", "messages": [{"role": "user", "content": parts}]}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    message_of(answer)
    assert client.post("/edit", json={"prompt": "x", "image": url}).status_code == 400
    assert models.planner.batches == models.editor.batches == []


@pytest.mark.parametrize(
    ("size", "status", "says"),
    [
        ((5_000, 5_000), 413, "pixels in one request"),
        ((60_000, 60_000), 413, "too large"),
        ((1, 8_000_000), 400, "too thin"),
    ],
)
def test_a_picture_that_is_too_large_or_too_thin_is_refused_from_the_header(standing, size, status, says):
    """The file claims far more pixels than it holds data for: only its header can have been read."""
    client, models = standing
    png = bytearray(picture().png())
    png[16:24] = size[0].to_bytes(4) + size[1].to_bytes(4)
    png[29:33] = zlib.crc32(bytes(png[12:29])).to_bytes(4)
    encoded = base64.b64encode(png).decode()
    url = f"data:image/png;base64,{encoded}"
    turn = {"role": "user", "content": [{"type": "image_url", "image_url": url}]}
    files = {"image": ("a.png", bytes(png), "image/png")}
    for answer in (
        client.post("/v1/chat/completions", json={"model": "planner", "messages": [turn]}),
        client.post("/v1/images/edits", data={"prompt": "x"}, files=files),
        client.post("/edit", json={"prompt": "x", "image": encoded}),
    ):
        assert (answer.status_code, says in message_of(answer)) == (status, True)
    assert models.planner.batches == models.editor.batches == []


def test_the_pixels_of_one_request_count_together(models):
    url = "data:image/png;base64," + base64.b64encode(picture(size=(10, 10)).png()).decode()
    part = {"type": "image_url", "image_url": {"url": url}}
    with talking(models, max_pixels=250) as client:
        for count, status in ((2, 200), (3, 413)):
            body = {"model": "planner", "messages": [{"role": "user", "content": [part] * count}]}
            assert client.post("/v1/chat/completions", json=body).status_code == status


def test_a_long_body_is_refused_whether_or_not_it_says_how_long(models):
    with talking(models, max_body_bytes=2_000) as client:
        assert content(say(client, "x" * 1_500)) == "x" * 1_500
        assert say(client, "x" * 2_000).status_code == 413
        body = json.dumps({"model": "planner", "messages": [{"role": "user", "content": "x" * 9_000}]})

        def chunks():
            for start in range(0, len(body), 500):
                yield body[start : start + 500].encode()

        headers = {"Content-Type": "application/json"}
        answer = client.post("/v1/chat/completions", content=chunks(), headers=headers)
        assert answer.status_code == 413
        assert "2000 bytes" in message_of(answer)
    assert models.planner.batches == [["x" * 1_500]]


def test_requests_at_once_are_bounded(models):
    models.planner.gate.clear()
    with talking(models, max_requests=1) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(say, client, "first")
        models.planner.entered.acquire()
        assert say(client, "second").status_code == 429
        models.planner.gate.set()
        assert content(first.result()) == "first"
        assert content(say(client, "third")) == "third"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"model": "editor"}, 404),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, 400),
        ({"\ud800": 1, "messages": 3}, 400),
    ],
)
def test_what_is_not_offered_is_refused_in_one_line(standing, change, status):
    client, _ = standing
    body = {"model": "planner", "messages": [{"role": "user", "content": "x"}], **change}
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/chat/completions", content=json.dumps(body), headers=headers)
    assert answer.status_code == status
    message_of(answer)


def test_unfinished_bodies_take_no_place_from_whole_requests(models):
    half = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with (
        serving(models, max_requests=2) as url,
        ExitStack() as stack,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        for _ in range(300):
            address = ("127.0.0.1", httpx.URL(url).port)
            stack.enter_context(socket.create_connection(address)).sendall(half)
        assert content(say(client, "whole")) == "whole"


PLAIN = json.dumps({"prompt": "x"})
ELSEWHERE = [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]


@pytest.mark.parametrize("headers", [*ELSEWHERE, {"Sec-Fetch-Site": "same-site"}])
@pytest.mark.parametrize(
    "request_of_a_page",
    [
        {"url": "/v1/images/edits", "files": {"image": picture().png()}, "data": {"prompt": "x"}},
        {"url": "/v1/images/edits", "data": {"prompt": "x"}},
        {"url": "/edit", "content": PLAIN, "headers": {"Content-Type": "text/plain"}},
        {"url": "/edit", "content": PLAIN},
    ],
)
def test_no_page_of_another_site_uses_this_server(standing, headers, request_of_a_page):
    client, models = standing
    more = headers | request_of_a_page.get("headers", {})
    answer = client.post(**request_of_a_page | {"headers": more})
    assert (answer.status_code, message_of(answer)) == (403, "no page of another site may use this server")
    assert client.delete("/v1/storyboards/x", headers=headers).status_code == 403
    assert models.editor.batches == []


def test_a_page_of_its_own_and_who_is_no_page_use_it(client):
    own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    for headers in ({}, own, {"Sec-Fetch-Site": "none"}):
        assert client.post("/edit", json={"prompt": "x"}, headers=headers).status_code == 200


class Rules(EchoChat):
    """Repeats the system text, which is no plan."""

    def replies(self, conversations, *, schema=None) -> list[str]:
        return ["\n".join(c[0].parts).replace("{", "(") for c in conversations]


def test_a_client_asks_the_planner_with_the_number_of_steps_that_it_was_trained_on(monkeypatch):
    """Whatever the client's own limit is; the server tells the number, and is asked for it until it does."""
    monkeypatch.setenv("GOALREEL_TOKEN", TOKEN)
    dead = build_planner(f"server:http://127.0.0.1:{closed_port()}?retries=0", max_steps=9)
    with pytest.raises(BackendError, match="is the server running"):
        dead.plan([Task(id="t", instruction="tidy up")])
    for steps, named in ((40, 40), (None, 9)):
        models = Models(planner=Rules(), planner_dialect=OwnDialect(trained_steps=steps), planner_name="vlm")
        with serving(models, token=TOKEN) as url:
            planner = build_planner(f"server:{url}", max_steps=9)
            for answer in planner.plan([Task(id="t", instruction="x")] * 2):
                assert f"no more than {named}." in answer.reply
            with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
                cards = client.get("/v1/models").json()["data"]
                assert {c["id"]: c["trained_steps"] for c in cards} == {"planner": steps, "vlm": steps}


def test_a_folder_or_a_server_tells_how_long_a_task_its_critic_can_judge(tmp_path):
    """Where a server cannot be reached, no task is judged as a whole."""
    (tmp_path / "goalreel.json").write_text('{"confirm_steps": 3}')
    assert confirm_steps(f"hf:{tmp_path}")() == 3
    assert confirm_steps(f"server:http://127.0.0.1:{closed_port()}?retries=0")() == 0
    for limit in (1, None):
        with serving(Models(critic=EchoChat(), critic_steps=lambda limit=limit: limit)) as url:
            assert confirm_steps(f"server:{url}")() == limit


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_models_behind_servers_get_each_request_by_itself():
    names = ("openai:m@http://127.0.0.1:9/v1", "server:http://127.0.0.1:9")
    assert build_models(names[0], None, names[1]).remote == {"planner", "editor"}
    chat = EchoChat()
    chat.gate.clear()
    there = Models(planner=chat, remote=frozenset({"planner"}))
    with serving(there) as url, httpx.Client(base_url=url) as client, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(say, client, text) for text in ("a", "b")]
        for _ in asked:
            assert chat.entered.acquire(timeout=60)
        chat.gate.set()
        assert sorted(content(future.result()) for future in asked) == ["a", "b"]
    assert sorted(chat.batches) == [["a"], ["b"]]


class Gated:
    """Answers with the request itself, one batch each time the gate is opened."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)

    def __call__(self, requests) -> list[str]:
        self.batches.append(list(requests))
        self.entered.release()
        assert self.gate.acquire(timeout=60)
        return list(requests)


@pytest.fixture
def call() -> Gated:
    return Gated()


@pytest.fixture
def batcher(call):
    batcher = Batcher("planner", call, BatchBounds(size=1, wait=0, queue=4))
    yield batcher
    for _ in range(20):
        call.gate.release()
    batcher.close()


def test_requests_are_answered_in_their_order_and_one_too_many_is_refused(batcher, call):
    works = [batcher.put("0")]
    assert call.entered.acquire(timeout=60)
    works += [batcher.put(name) for name in "1234"]
    for refuse in (batcher.check_room, lambda: batcher.put("5")):
        with pytest.raises(QueueFull, match="try again"):
            refuse()
    assert batcher.waiting == 4
    assert works[2].cancel()
    works.append(batcher.put("5"))
    for _ in range(5):
        call.gate.release()
    assert [f.result(60) for f in works if not f.cancelled()] == ["0", "1", "3", "4", "5"]
    assert call.batches == [["0"], ["1"], ["3"], ["4"], ["5"]]


def test_a_client_with_many_requests_does_not_hold_up_one_with_few(batcher, call):
    works = [batcher.put("a0", client="a")]
    assert call.entered.acquire(timeout=60)
    works += [batcher.put(name, client=name[0]) for name in ("a1", "a2", "b0", "c0")]
    for _ in works:
        call.gate.release()
    assert [work.result(60) for work in works] == ["a0", "a1", "a2", "b0", "c0"]
    assert call.batches == [["a0"], ["b0"], ["c0"], ["a1"], ["a2"]]


def test_what_is_cancelled_under_way_does_not_wait_for_the_model(batcher, call):
    first = batcher.put("a0")
    assert call.entered.acquire(timeout=60)
    assert batcher.under_way == 1
    assert batcher.silent_seconds >= 0
    assert first.cancel()
    assert batcher.under_way == 0
    second = batcher.put("a1")
    call.gate.release()
    call.gate.release()
    assert second.result(60) == "a1"
    until(lambda: batcher.silent_seconds == 0)
