"""OpenAIChat against a real HTTP server: what it sends, what it survives, and what it never lets out."""

import base64
import gzip
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.chat_server import Reply, error, said

from goalreel.chat.conversation import Message, NoReply
from goalreel.chat.openai import OpenAIChat
from goalreel.errors import BackendError, InputError
from goalreel.http.calls import Abort
from goalreel.image import Image
from goalreel.models.load import build_chat

KEY = "sk-top-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"success": {"type": "boolean"}}}


@pytest.fixture(autouse=True)
def environment(monkeypatch, retry_pauses):
    for name in ("OPENAI_API_KEY", "GOALREEL_API_KEY", "GOALREEL_TOKEN", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def ask(*texts: str):
    return [(Message("user", (text,)),) for text in texts]


def echo(request):
    return said(f"to {request.text}")


def picture(width: int = 8, height: int = 6) -> Image:
    return Image(np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8))


def failing(first: list[Reply]):
    """Answer with the given replies, then with an echo."""
    left = list(first)
    return lambda request: left.pop(0) if left else echo(request)


# What is sent.


def test_one_answer_a_conversation_in_order_and_really_at_once(serve):
    meeting = threading.Barrier(4)

    def answer(request):
        meeting.wait(30)  # passes only when four requests are in the server together
        return echo(request)

    server = serve(answer)
    texts = [str(i) for i in range(12)]
    assert OpenAIChat("m", server.url, concurrency=4).complete(ask(*texts)) == [f"to {t}" for t in texts]
    assert server.busiest == 4


def test_so_many_at_once_are_those_of_all_calls_together(serve):
    pair = threading.Barrier(2)

    def answer(request):
        pair.wait(30)
        return echo(request)

    server = serve(answer)
    chat = OpenAIChat("m", server.url, concurrency=2)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(chat.complete, [ask(str(i)) for i in range(8)]))
    assert replies == [[f"to {i}"] for i in range(8)]
    assert server.busiest == 2


def test_images_go_as_data_urls_between_the_texts(serve):
    server, image = serve(echo), picture()
    conversation = (
        Message("system", ("be brief",)),
        Message("user", ("before", image, "after")),
        Message("assistant", ("{",)),
        Message("user", ("not JSON: ", "again")),
    )
    chat = OpenAIChat("the-model", server.url, max_tokens=77, temperature=0.5)
    assert chat.complete([conversation]) == ["to not JSON: again"]
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert (sent.json["model"], sent.json["max_tokens"], sent.json["temperature"]) == ("the-model", 77, 0.5)
    assert [m["role"] for m in sent.json["messages"]] == ["system", "user", "assistant", "user"]
    before, url, after = sent.json["messages"][1]["content"]
    assert (before, after) == ({"type": "text", "text": "before"}, {"type": "text", "text": "after"})
    head, _, data = url["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    assert Image.decode(base64.b64decode(data)) == image
    assert sent.json["messages"][3]["content"] == "not JSON: again"
    assert "response_format" not in sent.json


def test_jpeg_when_asked_for(serve):
    server, flat = serve(echo), Image(np.full((16, 16, 3), (200, 30, 60), np.uint8))
    OpenAIChat("m", server.url, jpeg_quality=95).complete([(Message("user", (flat,)),)])
    url = server.requests[0].json["messages"][0]["content"][0]["image_url"]["url"]
    decoded = Image.decode(base64.b64decode(url.removeprefix("data:image/jpeg;base64,")))
    assert np.abs(decoded.pixels.astype(int) - flat.pixels).max() < 8


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("response_format", "guided decoding is not available"),
        ("temperature", "Unsupported value: 'temperature' does not support 0.0 with this model."),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    ],
)
def test_what_the_server_refuses_is_left_out_from_then_on(serve, key, words):
    server = serve(lambda r: error(400, words) if key in r.json else echo(r))
    chat = OpenAIChat("m", server.url, concurrency=1, max_tokens=55)
    assert chat.complete(ask("a", "b"), schema=SCHEMA) == ["to a", "to b"]
    assert [key in r.json for r in server.requests] == [True, False, False]
    assert (server.requests[1].json.get("max_completion_tokens") == 55) == (key == "max_tokens")


def test_a_bad_conversation_is_not_blamed_on_the_schema(serve):
    server = serve(lambda r: error(400, "image is too small") if r.text == "bad" else echo(r))
    chat = OpenAIChat("m", server.url, concurrency=1)
    bad, good = chat.complete(ask("bad", "good"), schema=SCHEMA)
    assert isinstance(bad, NoReply)
    assert "HTTP 400" in bad.reason
    assert "image is too small" in bad.reason
    assert good == "to good"
    assert "response_format" in server.requests[-1].json


# What it survives.


def test_an_error_that_comes_as_a_200_is_one(serve, retry_pauses):
    body = {"error": {"message": "Provider returned error", "code": 429}}
    server = serve(failing([Reply(body=json.dumps(body).encode())]))
    assert OpenAIChat("m", server.url).complete(ask("a")) == ["to a"]
    assert len(retry_pauses) == 1
    body["error"]["code"] = "overloaded"
    server = serve(lambda _: Reply(body=json.dumps(body).encode()))
    (reply,) = OpenAIChat("m", server.url).complete(ask("a"))
    assert reply == NoReply("not a chat completion: Provider returned error")


THOUGHTS = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "yes"}],
        [THOUGHTS, {"type": "text", "text": " yes"}],
        [{"type": "output_text", "text": "y"}, {"type": "text", "text": "es"}, {"type": "image"}, 3],
    ],
)
def test_text_in_typed_parts_is_read_and_thoughts_are_not(serve, content):
    server = serve(lambda r: said(None, message={"role": "assistant", "content": content}))
    assert OpenAIChat("m", server.url).complete(ask("a")) == ["yes"]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_an_answer_among_the_thoughts_is_none_and_says_where_it_lies(serve, field):
    server = serve(lambda r: said(None, message={"role": "assistant", "content": "", field: VERDICT}))
    (reply,) = OpenAIChat("m", server.url).complete(ask("a"))
    assert isinstance(reply, NoReply)
    assert f"its text lies in `{field}`; turn thinking off" in reply.reason


@pytest.mark.parametrize("header", [{"Retry-After": "7"}, {"retry-after-ms": "7000"}])
def test_429_waits_as_long_as_the_server_says(serve, retry_pauses, header):
    server = serve(failing([error(429, "slow down", **header)] * 2))
    assert OpenAIChat("m", server.url).complete(ask("a")) == ["to a"]
    assert retry_pauses == [7.0, 7.0]


def test_5xx_is_tried_again_with_growing_pauses(serve, retry_pauses):
    server = serve(failing([Reply(500), Reply(502, b"<html>"), Reply(503), Reply(504)]))
    call = Abort()
    said = call.run(lambda: OpenAIChat("m", server.url).complete(ask("a")))
    assert said == ["to a"]
    assert call.retries == 4
    assert len(retry_pauses) == 4
    assert retry_pauses == sorted(retry_pauses)
    assert retry_pauses[-1] > 2 * retry_pauses[0] > 0


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_fails_every_call_is_dead(serve, status):
    server = serve(lambda r: error(status, "no worker left"))
    with pytest.raises(BackendError, match=f"HTTP {status} .*no worker left"):
        OpenAIChat("m", server.url, retries=2, concurrency=2).complete(ask("a", "b"))
    assert len(server.requests) == 6


def test_a_dead_server_is_given_up_after_one_wave(serve):
    server = serve(lambda r: Reply(500))
    with pytest.raises(BackendError):
        OpenAIChat("m", server.url, retries=0, concurrency=3).complete(ask(*"abcdefghijklmnopqrstuvwxyz"))
    assert len(server.requests) <= 6


def test_one_conversation_that_breaks_the_server_breaks_alone(serve):
    server = serve(lambda r: error(500, "CUDA error") if r.text == "bad" else echo(r))
    first, bad, last = OpenAIChat("m", server.url, retries=1).complete(ask("a", "bad", "b"))
    assert (first, last) == ("to a", "to b")
    assert isinstance(bad, NoReply)
    assert "CUDA error" in bad.reason


def test_a_hanging_conversation_is_cut_off_alone(serve):
    server = serve(lambda r: server.hang() if r.text == "bad" else echo(r))
    chat = OpenAIChat("m", server.url, timeout_s=1.5, retries=0)
    first, bad, last = chat.complete(ask("a", "bad", "b"))
    assert (first, last) == ("to a", "to b")
    assert bad == NoReply(f"no answer from {server.url} within 1.5 s")


def test_a_hanging_server_is_dead_after_the_retries(serve):
    server = serve(lambda r: server.hang())
    with pytest.raises(BackendError, match=r"no answer from http://127.0.0.1:\d+/v1 within 1 s"):
        OpenAIChat("m", server.url, timeout_s=1, retries=1).complete(ask("a"))
    assert len(server.requests) == 2


@pytest.mark.parametrize(("role", "name"), [("planner", "openai:m@{}"), ("critic", "server:{}")])
def test_how_often_it_is_asked_again_is_an_option_of_its_name(serve, role, name):
    server = serve(lambda _: error(503, "busy"))
    address = server.url if role == "planner" else server.url.removesuffix("/v1")
    with pytest.raises(BackendError, match="busy"):
        build_chat(f"{name.format(address)}?retries=2", role=role).complete(ask("a"))
    assert len(server.requests) == 3


def test_a_server_that_drips_is_cut_off_too(serve):
    def drip(request):
        reply = echo(request)
        reply.drip = True
        return reply

    server = serve(drip)
    with pytest.raises(BackendError, match=r"within 0\.5 s"):
        OpenAIChat("m", server.url, timeout_s=0.5, retries=0).complete(ask("a"))


STREAM = {"Content-Type": "text/event-stream"}


@pytest.mark.parametrize(
    "reply",
    [
        said("a" * 5000),
        Reply(body=gzip.compress(said("a" * 50_000).body), headers={"Content-Encoding": "gzip"}),
        Reply(body=b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n' * 100, headers=STREAM),
        Reply(500, b"a" * 5000),
    ],
    ids=["body", "compressed", "stream", "error"],
)
def test_a_reply_without_end_is_cut_off(serve, monkeypatch, reply):
    monkeypatch.setattr("goalreel.http.client.MAX_REPLY_BYTES", 2**10)
    server = serve(lambda request: reply if request.text == "b" else echo(request))
    chat = OpenAIChat("m", server.url, retries=0)
    well, long = chat.complete(ask("a", "b"))
    assert well == "to a"
    assert isinstance(long, NoReply)
    assert "more than 0 MiB" in long.reason


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_conversation_that_the_server_refuses_is_told_so(serve, status):
    server = serve(lambda request: error(status, "not this") if request.text == "b" else echo(request))
    well, refused = OpenAIChat("m", server.url).complete(ask("a", "b"))
    assert isinstance(well, str)
    assert refused == NoReply(f"HTTP {status} from {server.url}: not this", refused=True)


def test_no_server_at_all(retry_pauses):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(BackendError, match=r"cannot reach http.*: is the server running"):
            OpenAIChat("m", url, retries=2).complete(ask("a", "b"))
    assert 2 <= len(retry_pauses) <= 4


MALFORMED = (
    b"{not json",
    b"",
    b"null",
    b"[]",
    b'{"choices": []}',
    b'{"choices": "x"}',
    b'{"choices": [{"message": null}]}',
    b'{"error": "overloaded"}',
    b"<html>hello</html>",
    b"\xff\xfe",
)


@pytest.mark.parametrize("body", MALFORMED)
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_a_malformed_reply_is_one_conversations_matter(serve, body, kind):
    bad = Reply(body=body, headers={"Content-Type": kind})
    server = serve(lambda r: bad if r.text == "bad" else echo(r))
    reply, good = OpenAIChat("m", server.url).complete(ask("bad", "good"))
    assert isinstance(reply, NoReply)
    assert "not a chat completion" in reply.reason
    assert "\n" not in reply.reason
    assert good == "to good"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (said(None, message={"role": "assistant", "refusal": "I will not"}), "I will not"),
        (said("  \n"), "stop"),
    ],
)
def test_silence_is_no_reply_and_says_why(serve, reply, why):
    server = serve(lambda r: reply)
    assert OpenAIChat("m", server.url).complete(ask("a")) == [NoReply(f"the model said nothing: {why}")]


VERDICT = '{"previous_step_success": true, "refine_prompt": null}'


@pytest.mark.parametrize(
    ("end", "why", "refused"),
    [
        ("length", "cut off at its length limit", False),
        ("LENGTH", "cut off at its length limit", False),
        ("max_tokens", "cut off at its length limit", False),
        ("content_filter", "content filter", True),
        ("tool_calls", "'tool_calls'", False),
        ("abort", "'abort'", False),
        ("error", "'error'", False),
    ],
)
def test_a_reply_that_did_not_end_by_itself_is_no_answer(serve, end, why, refused):
    server = serve(lambda r: said(VERDICT, finish_reason=end))
    for chat in (OpenAIChat("m", server.url).complete, OpenAIChat("m", server.url).complete_tokens):
        (reply,) = chat(ask("a"))
        assert isinstance(reply, NoReply)
        assert why in reply.reason
        assert reply.refused is refused
        assert reply.cut_off == (None if refused else VERDICT)


CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
DRAFT = {"role": "assistant", "content": VERDICT}
TEXT = {"type": "text", "text": VERDICT}


@pytest.mark.parametrize(
    ("choice", "more", "why", "refused"),
    [
        ({"message": DRAFT | {"tool_calls": [CALL]}}, {}, "called a tool", False),
        ({"message": DRAFT | {"function_call": CALL["function"]}}, {}, "called a tool", False),
        ({"message": DRAFT | {"refusal": "I will\nnot"}}, {}, "the model refused: I will not", True),
        ({"error": {"code": "x", "message": "lost half of it"}}, {}, "lost half of it", False),
        ({}, {"error": {"message": "lost half of it"}}, "lost half of it", False),
        ({"message": {"content": [TEXT, {"type": "refusal", "refusal": "No."}]}}, {}, "refused: No.", True),
        ({}, {"choices": [{"message": DRAFT}, {"message": {"content": "no"}}]}, "2 replies came", False),
    ],
)
@pytest.mark.parametrize("end", ["stop", None])
def test_a_reply_that_says_yes_and_no_is_no_answer(serve, choice, more, why, refused, end):
    body = json.loads(said(VERDICT, finish_reason=end, **choice).body) | more
    server = serve(lambda r: Reply(body=json.dumps(body).encode()))
    (reply,) = OpenAIChat("m", server.url, retries=0).complete(ask("a"))
    assert isinstance(reply, NoReply)
    assert why in reply.reason
    assert reply.refused is refused


@pytest.mark.parametrize(
    "fields", ['"content": "no", "content": "yes"', '"content": "yes"}, "message": {"content": "no"']
)
def test_a_key_that_stands_twice_is_no_answer(serve, fields):
    server = serve(lambda r: Reply(body=f'{{"choices": [{{"message": {{{fields}}}}}]}}'.encode()))
    (reply,) = OpenAIChat("m", server.url, retries=0).complete(ask("a"))
    assert isinstance(reply, NoReply)
    assert "twice in one object" in reply.reason


@pytest.mark.parametrize(
    "empty", [{"tool_calls": []}, {"tool_calls": None, "refusal": None}, {"refusal": ""}]
)
def test_a_field_that_holds_nothing_says_nothing(serve, empty):
    server = serve(lambda r: said(VERDICT, message=DRAFT | empty, error=None))
    assert OpenAIChat("m", server.url).complete(ask("a")) == [VERDICT]


@pytest.mark.parametrize("end", ["stop", "STOP", "eos_token", "end_turn", None, ""])
def test_every_name_of_a_natural_end_is_one(serve, end):
    server = serve(lambda r: said(VERDICT, finish_reason=end))
    assert OpenAIChat("m", server.url).complete(ask("a")) == [VERDICT]


@pytest.mark.parametrize("tokens", [99, 100, 101])
def test_without_a_reason_the_number_of_tokens_says_that_it_was_cut_off(serve, tokens):
    body = json.loads(said(VERDICT, finish_reason=None).body) | {"usage": {"completion_tokens": tokens}}
    server = serve(lambda r: Reply(body=json.dumps(body).encode()))
    (reply,) = OpenAIChat("m", server.url, max_tokens=100).complete(ask("a"))
    assert isinstance(reply, NoReply) is (tokens >= 100)


def test_text_that_is_not_unicode_is_no_reply(serve):
    server = serve(echo)
    bad, good = OpenAIChat("m", server.url).complete(ask("lone \ud800", "good"))
    assert isinstance(bad, NoReply)
    assert "surrogates not allowed" in bad.reason
    assert good == "to good"


def test_a_refused_key_is_not_waited_for(serve):
    server = serve(lambda r: error(401, "no") if r.text == "a" else server.hang())
    with pytest.raises(BackendError, match=r"HTTP 401 from .*: no: set GOALREEL_API_KEY$"):
        OpenAIChat("m", server.url, timeout_s=20, retries=0).complete(ask(*"abc"))


@pytest.mark.process
def test_ctrl_c_gets_through(serve):
    asked = threading.Event()

    def hang(request):
        asked.set()
        return server.hang()

    server = serve(hang)
    code = (
        "from goalreel.chat.openai import OpenAIChat;"
        "from goalreel.chat.conversation import Message;"
        f"OpenAIChat('m', {server.url!r}, timeout_s=300).complete([(Message('user', ('a',)),)] * 3)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert complaint.strip().endswith("KeyboardInterrupt")


def test_inside_a_running_event_loop_as_in_a_notebook(serve):
    import asyncio

    server = serve(echo)

    async def cell():
        return OpenAIChat("m", server.url).complete(ask("a", "b"))

    assert asyncio.run(cell()) == ["to a", "to b"]


# The key, and what is refused before anything is sent.


def test_the_key_goes_to_the_server_and_nowhere_else(serve, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("GOALREEL_API_KEY", KEY)
    replies = {
        "401": error(401, f"Incorrect API key provided: {KEY}."),
        "403": error(403, f"key {KEY} may not"),
        "500": error(500, f"headers were Bearer {KEY}"),
        "html": Reply(body=f"<pre>{KEY}</pre>".encode()),
    }
    server = serve(lambda r: replies.get(r.text) or echo(r))
    chat = OpenAIChat("m", server.url, retries=0, concurrency=1)
    answers = chat.complete(ask("ok", *replies))
    assert answers[0] == "to ok"
    assert all(isinstance(a, NoReply) for a in answers[1:])
    out = [repr(chat), str(vars(chat)), *map(repr, answers), caplog.text]
    for text in replies.keys() - {"html"}:
        with pytest.raises(BackendError) as caught:
            chat.complete(ask(text))
        out += traceback.format_exception(caught.value)
    assert {r.headers["authorization"] for r in server.requests} == {f"Bearer {KEY}"}
    assert caplog.text
    assert KEY not in "".join(out)


def test_the_address_of_openai_base_url_gets_openais_key(serve, monkeypatch):
    server = serve(echo)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "gateway")
    for name in ("openai:m", f"openai:m@{server.url}"):
        build_chat(name, role="planner").complete(ask("a"))
    assert [r.headers["authorization"] for r in server.requests] == ["Bearer gateway"] * 2


def test_a_classic_azure_address_gets_its_version_and_a_header_of_its_own(serve, monkeypatch):
    server = serve(echo)
    monkeypatch.setenv("GOALREEL_API_KEY", KEY)
    build_chat(f"openai:m@{server.url}?api_version=2024-10-21", role="planner").complete(ask("a"))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}?api-version=2024-10-21")
    build_chat("openai:m", role="planner").complete(ask("a"))
    for request in server.requests:
        assert request.path.endswith("/chat/completions?api-version=2024-10-21")
        assert request.headers["api-key"] == KEY
        assert "authorization" not in request.headers


def test_openai_itself_never_gets_a_servers_key(monkeypatch):
    monkeypatch.setenv("GOALREEL_API_KEY", "a")
    monkeypatch.setenv("GOALREEL_TOKEN", "b")
    with pytest.raises(InputError, match="set OPENAI_API_KEY"):
        OpenAIChat("m")


def test_a_goalreel_server_is_asked_for_the_role_and_gets_its_own_token_only(serve, monkeypatch):
    server = serve(echo)
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-it")
    url = server.url.removesuffix("/v1")
    assert build_chat(f"server:{url}", role="critic").complete(ask("a")) == ["to a"]
    assert (server.requests[0].path, server.requests[0].json["model"]) == ("/v1/chat/completions", "critic")
    monkeypatch.setenv("GOALREEL_TOKEN", "token")
    build_chat(f"server:{url}", role="critic").complete(ask("a"))
    assert [r.headers.get("authorization") for r in server.requests] == [None, "Bearer token"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000/v1", "not an address"),
        ("http://", "not an address"),
        ("http://host:eight/v1", "not an address"),
        (f"http://me:{KEY}@host/v1", "an address must hold no key"),
        (f"https://host/v1?key={KEY}", "an address must hold no key"),
        (None, "set OPENAI_API_KEY"),
    ],
)
def test_a_bad_address_or_a_missing_key(url, words):
    with pytest.raises(InputError, match=words) as caught:
        OpenAIChat("m", url)
    assert KEY not in str(caught.value)


def test_a_broken_key_is_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nx")
    with pytest.raises(InputError, match="OPENAI_API_KEY holds a character") as caught:
        OpenAIChat("m")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "numbers", [{"concurrency": 0}, {"retries": -1}, {"timeout_s": 0}, {"max_tokens": 0}]
)
def test_numbers_out_of_range(numbers):
    with pytest.raises(InputError, match="start at 1"):
        OpenAIChat("m", "http://localhost/v1", **numbers)
