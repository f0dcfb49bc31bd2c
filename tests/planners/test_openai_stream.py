"""OpenAIChat streams where somebody listens, and answers as it does without."""

import json

import pytest
from support.chat_server import ChatServer, Reply, Request, error, logprobs, said
from support.scripted import spelled

from goalreel.chat.conversation import Message, NoReply, TokenChat, TokenReply
from goalreel.chat.openai import OpenAIChat
from goalreel.errors import BackendError
from goalreel.progress import reply_listener

QUESTION = [(Message("user", ("plan it",)),)]
ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}


@pytest.fixture(autouse=True)
def environment(monkeypatch, retry_pauses):
    for name in ("OPENAI_API_KEY", "GOALREEL_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def delta(reason: str | None = None, **fields: object) -> dict:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def events(*chunks: dict, done: bool = True, newline: str = "\n") -> Reply:
    data = [*(json.dumps(chunk) for chunk in chunks), *(["[DONE]"] if done else [])]
    lines = [": keep alive", *(line for d in data for line in (f"data: {d}", ""))]
    body = newline.join([*lines, ""]).encode()
    return Reply(body=body, headers={"Content-Type": "text/event-stream; charset=utf-8"})


def heard(answer, **options):
    """The reply or the error, what the listener heard of each reply, and what was asked."""
    replies: list[list[str]] = []

    def begin():
        replies.append([])
        return replies[-1].append

    with ChatServer(answer) as server, reply_listener(begin):
        chat = OpenAIChat("m", server.url, retries=1, **options)
        try:
            reply = chat.complete(QUESTION)[0]
        except BackendError as e:
            reply = e
    return reply, [pieces for pieces in replies if pieces], [request.json for request in server.requests]


@pytest.mark.parametrize(
    ("chunks", "how"),
    [
        ((ROLE, delta(content="Open "), delta(content="it é"), delta("stop"), {"choices": []}), {}),
        ((delta(content="Open "), delta("stop", content="it é")), {"done": False, "newline": "\r\n"}),
        ((delta(reasoning_content="Hm"), delta(content="Open "), delta(content="it é")), {}),
        ((delta(content=[{"type": "thinking"}]), delta(content="Open "), delta(content="it é")), {}),
    ],
)
def test_a_stream_is_heard_and_read_as_a_whole(chunks, how):
    reply, pieces, asked = heard(lambda _: events(*chunks, **how))
    assert reply == "Open it é"
    assert pieces == [["Open ", "it é"]]
    assert asked[0]["stream"] is True
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ((delta(content="Open"), delta("length")), "length limit"),
        ((delta(content="Open"), {"choices": [], "usage": {"completion_tokens": 9}}), "length limit"),
        ((delta(content="Open"), delta("content_filter", refusal="no")), "content filter stopped it: no"),
        ((delta("stop", reasoning="long thoughts"),), "turn thinking off"),
        ((delta("stop"),), "said nothing"),
        ((delta(content="Open"), delta(tool_calls=[{"index": 0}]), delta("stop")), "called a tool"),
        (
            (delta(content="Open"), delta(refusal="I will not"), delta("stop")),
            "the model refused: I will not",
        ),
        ((delta(content="Open"), {"choices": [{"index": 0, "error": {"message": "no room"}}]}), "no room"),
        ((delta("length", content="Open"), delta("stop")), "length limit"),
        (
            (delta("stop", content="Open"), {"choices": [{"index": 1, "delta": {"content": "Shut"}}]}),
            "2 replies",
        ),
    ],
)
def test_a_reply_that_is_not_whole_is_none(chunks, reason):
    reply, _, _ = heard(lambda _: events(*chunks), max_tokens=9)
    assert isinstance(reply, NoReply)
    assert reason in reply.reason


@pytest.mark.parametrize(
    "broken",
    [
        events(delta(content="Open"), done=False),
        events(delta(content="Open"), {"error": {"message": "busy", "code": 503}}, done=False),
    ],
)
def test_a_stream_that_breaks_is_tried_again_and_heard_anew(broken):
    answers = iter([broken, events(delta(content="Open it"), delta("stop"))])
    reply, pieces, asked = heard(lambda _: next(answers))
    assert reply == "Open it"
    assert pieces == [["Open"], ["Open it"]]
    assert len(asked) == 2


def test_a_stream_that_never_ends_whole_says_so():
    reply, _, asked = heard(lambda _: events(delta(content="Open"), done=False))
    assert "the stream ended before the reply" in str(reply)
    assert len(asked) == 2


def test_a_server_may_refuse_to_stream_or_answer_without():
    def refuse(request):
        return error(400, "unknown field: stream_options") if "stream" in request.json else said("Open it")

    reply, _, asked = heard(refuse)
    assert reply == "Open it"
    assert ["stream" in request for request in asked] == [True, False]
    assert not {"stream", "stream_options"} & asked[1].keys()
    reply, _, asked = heard(lambda _: said("Open it"))
    assert reply == "Open it"
    assert len(asked) == 1


def test_nothing_is_streamed_where_nobody_listens():
    with ChatServer(lambda _: said("Open it")) as server:
        assert OpenAIChat("m", server.url).complete(QUESTION) == ["Open it"]
        with reply_listener(lambda: None):
            assert OpenAIChat("m", server.url).complete(QUESTION) == ["Open it"]
    assert all("stream" not in request.json for request in server.requests)


@pytest.mark.parametrize("status", [405, 500, 501])
def test_a_server_that_cannot_stream_is_asked_once_more_without(status):
    """Whatever it says then counts; a fault that has nothing to do with streams is one all the same."""
    plain = said("Open it")
    reply, pieces, asked = heard(lambda r: error(status, "no") if r.json.get("stream") else plain)
    assert (reply, pieces) == ("Open it", [])
    assert [request.get("stream") for request in asked] == [True, None]
    reply, _, asked = heard(lambda _: error(status, "no"))
    assert str(status) in str(reply)
    assert sum(1 for request in asked if request.get("stream")) == 1


# Log-probabilities of an OpenAI-compatible server: asked for, read where they can be, else done without.


REPLY = spelled("{'a': ", {"True": 0.5, "False": 0.25}, "}")
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}


def ask(*texts: str):
    return [(Message("user", (text,)),) for text in texts]


def tokens(answer, texts=("x",), schema=None):
    with ChatServer(answer) as server:
        chat = OpenAIChat("m", server.url, concurrency=1, retries=0)
        assert isinstance(chat, TokenChat)
        return chat.complete_tokens(ask(*texts), schema=schema), server.requests


def told(request: Request):
    return said(REPLY.text, logprobs=logprobs(REPLY)) if request.json.get("logprobs") else said(REPLY.text)


def test_tokens_and_their_alternatives_are_read():
    ((reply,), (request,)) = tokens(told)
    assert (request.json["logprobs"], request.json["top_logprobs"]) == (True, 5)
    assert [t.text for t in reply.tokens] == ["{'a': ", "True", "}"]
    assert reply.tokens[1].alternatives == {"True": pytest.approx(0.5), "False": pytest.approx(0.25)}
    assert reply.text == REPLY.text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "Unsupported parameter: 'top_logprobs' is not supported with this model."),
        (400, "Logprobs is not enabled for this model"),
        (403, "You are not allowed to request logprobs from this model"),
        (400, "Request contains an invalid argument."),
    ],
)
def test_a_server_that_refuses_them_is_asked_without_from_then_on(status, words):
    replies, requests = tokens(
        lambda r: error(status, words) if "logprobs" in r.json else told(r), ("a", "b")
    )
    assert replies == [TokenReply(REPLY.text)] * 2
    assert ["logprobs" in r.json for r in requests] == [True, False, False]
    assert ["top_logprobs" in r.json for r in requests] == [True, False, False]


def test_a_refused_schema_does_not_cost_them():
    def answer(request):
        return error(400, "no guided decoding here") if "response_format" in request.json else told(request)

    (reply,), requests = tokens(answer, schema=SCHEMA)
    assert reply.tokens
    assert ["response_format" in r.json for r in requests] == [True, False]


RIGHT = logprobs(REPLY)["content"]


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        [],
        "none",
        {"content": None},
        {"content": []},
        {"content": [{"token": "x"}]},
        {"content": [*RIGHT[:1], {**RIGHT[1], "logprob": "much"}, *RIGHT[2:]]},
        {"content": [*RIGHT[:1], {**RIGHT[1], "logprob": float("nan")}, *RIGHT[2:]]},
        {"content": [*RIGHT[:1], {**RIGHT[1], "bytes": [300]}, *RIGHT[2:]]},
        {"content": RIGHT[1:]},
    ],
)
def test_bad_or_missing_ones_cost_no_reply(given):
    (reply,), _ = tokens(lambda _: said(REPLY.text, logprobs=given))
    assert reply == TokenReply(REPLY.text)


def test_what_surrounds_the_reply_is_cut_off():
    """A server may leave the thinking in the tokens alone, and end them with one of its own."""
    whole = spelled(
        "<think>", "hm", "</think>", "\n", *(t.alternatives for t in REPLY.tokens), " \n", "<end>"
    )
    (reply,), _ = tokens(lambda _: said(f"\n{REPLY.text} ", logprobs=logprobs(whole)))
    assert [t.text for t in reply.tokens] == [t.text for t in REPLY.tokens]


def test_signs_of_several_tokens_are_put_together():
    half = [{"token": f"\\x{b:02x}", "logprob": -0.5, "bytes": [b], "top_logprobs": []} for b in "ü".encode()]
    (reply,), _ = tokens(lambda _: said("gün", logprobs={"content": [_plain("g"), *half, _plain("n")]}))
    assert [t.text for t in reply.tokens] == ["g", "", "ü", "n"]


def _plain(text: str) -> dict:
    """As servers that know no bytes and no alternatives say it."""
    return {"token": text, "logprob": 0.0}


def test_a_refused_key_is_tried_once():
    with ChatServer(lambda _: error(403, "no access for this project")) as server:
        with pytest.raises(BackendError, match="HTTP 403"):
            OpenAIChat("m", server.url, retries=0).complete_tokens(ask("x"), schema=SCHEMA)
        assert len(server.requests) == 1
