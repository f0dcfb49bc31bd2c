"""Log-probabilities of an OpenAI-compatible server: asked for, read where they can be, else done without."""

import pytest
from support.chat_server import ChatServer, Request, error, logprobs, said
from support.conversations import user
from support.scripted import spelled

from goalreel.chat.conversation import ChatRequest, TokenReply
from goalreel.chat.openai import OpenAIChat

REPLY = spelled("{'a': ", {"True": 0.5, "False": 0.25}, "}")
SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}


def tokens(answer, texts=("x",), schema=None):
    with ChatServer(answer) as server:
        chat = OpenAIChat("m", server.url, concurrency=1, retries=0)
        return chat.answer([ChatRequest(c, schema, tokens=True) for c in map(user, texts)]), server.requests


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
