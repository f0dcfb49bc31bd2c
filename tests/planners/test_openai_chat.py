"""OpenAIChat against a real HTTP server: what it sends, what it survives, and what it never lets out."""

import base64
import gzip
import json
import logging
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.chat_server import Reply, error, said
from support.conversations import picture

from goalreel.chat.conversation import ChatRequest, Message, NoReply
from goalreel.chat.openai import OpenAIChat
from goalreel.errors import BackendError, InputError
from goalreel.http.calls import Abort
from goalreel.image import Image
from goalreel.models.load import build_chat

KEY = "sk-top-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"success": {"type": "boolean"}}}


pytestmark = pytest.mark.usefixtures("retry_pauses")


def ask(*texts: str):
    return [(Message("user", (text,)),) for text in texts]


def echo(request):
    return said(f"to {request.text}")


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
    server, image = serve(echo), picture(8, 6)
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
    assert "HTTP 400" in bad.reason
    assert "image is too small" in bad.reason
    assert good == "to good"
    assert "response_format" in server.requests[-1].json


# What it survives.


def test_5xx_is_tried_again_with_growing_pauses(serve, retry_pauses):
    failing = [Reply(500), Reply(502, b"<html>"), Reply(503), Reply(504)]
    server = serve(lambda request: failing.pop(0) if failing else echo(request))
    call = Abort()
    assert call.run(lambda: OpenAIChat("m", server.url).complete(ask("a"))) == ["to a"]
    assert (call.retries, "HTTP 504 from" in call.problem) == (4, True)
    assert len(retry_pauses) == 4
    assert retry_pauses == sorted(retry_pauses)
    assert retry_pauses[-1] > 2 * retry_pauses[0] > 0


def test_one_conversation_that_breaks_the_server_breaks_alone(serve):
    server = serve(lambda r: error(500, "CUDA error") if r.text == "bad" else echo(r))
    first, bad, last = OpenAIChat("m", server.url, retries=1).complete(ask("a", "bad", "b"))
    assert (first, last) == ("to a", "to b")
    assert "CUDA error" in bad.reason


@pytest.mark.parametrize("drips", [False, True])
def test_a_hanging_or_dripping_conversation_is_cut_off_alone(serve, drips):
    bad_reply = (lambda: Reply(body=said("late").body, drip=True)) if drips else (lambda: server.hang())
    server = serve(lambda r: bad_reply() if r.text == "bad" else echo(r))
    chat = OpenAIChat("m", server.url, timeout_s=1.5, retries=0)
    first, bad, last = chat.complete(ask("a", "bad", "b"))
    assert (first, last) == ("to a", "to b")
    assert bad == NoReply(f"no answer from {server.url} within 1.5 s")


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
    assert "more than 0 MiB" in long.reason


def test_text_that_is_not_unicode_is_no_reply(serve):
    server = serve(echo)
    bad, good = OpenAIChat("m", server.url).complete(ask("lone \ud800", "good"))
    assert "surrogates not allowed" in bad.reason
    assert good == "to good"


def test_a_refused_key_is_not_waited_for(serve):
    server = serve(lambda r: error(401, "no") if r.text == "a" else server.hang())
    with pytest.raises(BackendError, match=r"HTTP 401 from .*: no: set GOALREEL_API_KEY$"):
        OpenAIChat("m", server.url, timeout_s=20, retries=0).complete(ask(*"abc"))


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


def test_the_key_does_not_follow_a_redirect_to_another_server(serve, monkeypatch):
    monkeypatch.setenv("GOALREEL_API_KEY", KEY)
    other = serve(echo)
    server = serve(lambda _: error(307, "moved", Location=f"{other.url}/chat/completions"))
    assert OpenAIChat("m", server.url).complete(ask("a")) == ["to a"]
    assert "authorization" in server.requests[0].headers
    assert "authorization" not in other.requests[0].headers


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
        ("http://host:eight/v1", "not an address"),
        (f"http://me:{KEY}@host/v1", "an address must hold no key"),
        (f"https://host/v1?key={KEY}", "an address must hold no key, and no query"),
        (None, "set OPENAI_API_KEY"),
    ],
)
def test_a_bad_address_or_a_missing_key(monkeypatch, url, words):
    """OpenAI itself never gets a server's key."""
    monkeypatch.setenv("GOALREEL_API_KEY", "a")
    monkeypatch.setenv("GOALREEL_TOKEN", "b")
    with pytest.raises(InputError, match=words) as caught:
        OpenAIChat("m", url)
    assert KEY not in str(caught.value)


# What is an answer.

VERDICT = '{"previous_step_success": true, "refine_prompt": null}'
DRAFT, LOST = {"role": "assistant", "content": VERDICT}, {"error": {"code": "x", "message": "lost half"}}
TEXT, NO = {"type": "text", "text": VERDICT}, {"type": "refusal", "refusal": "No."}
THOUGHTS = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
BODY = said(VERDICT).body


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"\xef\xbb\xbf\r\n" + BODY),
        Reply(body=gzip.compress(BODY), headers={"Content-Encoding": "gzip"}),
        Reply(body=BODY, headers={"Content-Type": "text/plain; charset=utf-8"}),
        *(said(VERDICT, finish_reason=end) for end in ("STOP", "eos_token", "end_turn", None, "")),
        said(None, message={"content": [THOUGHTS, {"type": "text", "text": f" {VERDICT}"}]}),
        said(None, message={"content": [{"type": "output_text", "text": VERDICT}, {"type": "image"}, 3]}),
        *(said(VERDICT, message=DRAFT | empty) for empty in ({"tool_calls": []}, {"refusal": ""})),
    ],
)
def test_bodies_that_are_read(serve, reply):
    server = serve(lambda r: reply)
    assert OpenAIChat("m", server.url).complete(ask("a")) == [VERDICT]


def completion(choice: dict, **more) -> Reply:
    return Reply(body=json.dumps(json.loads(said(VERDICT, **choice).body) | more).encode())


@pytest.mark.parametrize(
    ("reply", "why", "refused"),
    [
        *((said(VERDICT, finish_reason=end), "length limit", False) for end in ("length", "MAX_TOKENS")),
        (said(VERDICT, finish_reason="content_filter"), "content filter", True),
        *((said(VERDICT, finish_reason=end), f"'{end}'", False) for end in ("tool_calls", "abort", "error")),
        (completion({"message": DRAFT | {"tool_calls": [CALL]}}), "called a tool", False),
        (completion({"message": DRAFT | {"function_call": CALL}}), "called a tool", False),
        (completion({"message": DRAFT | {"refusal": "I\nwon't"}}), "the model refused: I won't", True),
        (completion({"message": {"content": [TEXT, NO]}}), "refused: No.", True),
        *((completion(c), "lost half", False) for c in (LOST, {"message": DRAFT | LOST})),
        *((completion({}, **{key: LOST["error"]}), "lost half", False) for key in ("error", "errors")),
        (completion({}, choices=[{"message": DRAFT}, {"message": {"content": "no"}}]), "2 replies", False),
        (completion({"finish_reason": None}, usage={"completion_tokens": 100}), "length limit", False),
        (said("  \n"), "the model said nothing: stop", False),
        (said(None, message={"refusal": "I will not"}), "the model said nothing: I will not", False),
        (said(None, message={"refusal": "No.", "reasoning": "hm"}), "the model said nothing: No.", False),
        (said(None, message={"content": [{"type": "text", "text": {"a": 1}}]}), "said nothing", False),
        (Reply(body=b'{"choices": [{"message": {"content": "no", "content": "yes"}}]}'), "twice", False),
        (said(None, message={"content": "", "reasoning": VERDICT}), "turn thinking off", False),
        *(
            (Reply(body=body), "not a chat completion", False)
            for body in (b"{not json", b"", b"[]", b'{"choices": []}', b'{"error": "x"}', b"<html>", b"\xff")
        ),
        *((error(status, "not this"), f"HTTP {status}", True) for status in (400, 413, 422)),
    ],
)
def test_what_is_no_answer_is_one_conversations_matter_and_says_why(serve, reply, why, refused):
    server = serve(lambda r: reply if r.text == "bad" else echo(r))
    chat = OpenAIChat("m", server.url, max_tokens=100)
    bad, good = chat.complete(ask("bad", "good"))
    assert why in bad.reason
    assert "\n" not in bad.reason
    assert bad.refused is refused
    assert good == "to good"
    assert bad.cut_off is None or bad.cut_off == VERDICT


def test_a_reply_as_long_as_its_own_limit_was_cut_off(serve):
    server = serve(lambda _: completion({"finish_reason": None}, usage={"completion_tokens": 20}))
    (reply,) = OpenAIChat("m", server.url).answer([ChatRequest(ask("a")[0], max_tokens=20)])
    assert "length limit" in reply.reason


def test_a_server_that_fails_every_call_is_dead_after_one_wave(serve):
    server = serve(lambda r: error(503, "no worker left"))
    with pytest.raises(BackendError, match=r"HTTP 503 .*no worker left"):
        OpenAIChat("m", server.url, retries=2, concurrency=2).complete(ask("a", "b"))
    assert len(server.requests) == 6
    with pytest.raises(BackendError):
        OpenAIChat("m", server.url, retries=0, concurrency=3).complete(ask(*"abcdefghijklmnopqrstuvwxyz"))
    assert len(server.requests) <= 12
