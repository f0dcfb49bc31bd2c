"""The options of a chat server by its name, and what OpenAIChat does where a server refuses them."""

import logging

import pytest
from support.arms import sentences
from support.chat_server import ChatServer, Request, error, logprobs, said
from support.conversations import user
from support.scripted import spelled

from goalreel.chat.conversation import ChatRequest, Message, TokenReply, fold_system, refuses_system
from goalreel.chat.openai import OpenAIChat
from goalreel.errors import BackendError, InputError
from goalreel.models.load import build_chat

TALK = (Message("system", ("be brief",)), Message("user", ("a",)))


def ask(chat, times: int = 1):
    return [reply for _ in range(times) for reply in chat.complete([TALK])]


def refusing(words: str, *fields: str):
    return lambda r: error(400, words) if set(fields) & r.json.keys() else said("yes")


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("top_p=0.8&top_k=20&temperature=0.7", {"top_p": 0.8, "top_k": 20, "temperature": 0.7}),
        ("max_tokens=77", {"max_tokens": 77, "max_completion_tokens": None}),
        ("temperature=checkpoint", {"temperature": None, "top_p": None, "top_k": None}),
        ("extra=%7B%22reasoning_effort%22:%22low%22%7D", {"reasoning_effort": "low"}),
        (
            "extra=%7B%22chat_template_kwargs%22:%7B%22enable_thinking%22:false%7D%7D",
            {"chat_template_kwargs": {"enable_thinking": False}},
        ),
        ("extra=%7B%22max_tokens%22:5%7D", {"max_tokens": 5}),
    ],
)
@pytest.mark.parametrize("kind", ["openai:m@{}", "server:{}"])
def test_options_reach_the_server(serve, kind, query, fields):
    server = serve(lambda r: said("yes"))
    address = server.url if kind.startswith("openai") else server.url.removesuffix("/v1")
    assert ask(build_chat(f"{kind.format(address)}?{query}", role="planner")) == ["yes"]
    assert {name: server.requests[0].json.get(name) for name in fields} == fields


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("top_p=0", "top_p is wrong"),
        ("top_k=-1", "top_k is wrong"),
        ("max_tokens=0", "max_tokens is wrong"),
        ("temperature=hot", "temperature is wrong"),
        ("concurrency=0", "concurrency is wrong"),
    ],
)
def test_an_option_that_does_not_fit_is_one_line(query, says):
    with pytest.raises(InputError, match=says):
        build_chat(f"openai:m@http://h/v1?{query}", role="critic")


@pytest.mark.parametrize("name", ["top_p", "top_k"])
@pytest.mark.parametrize("words", ["Unrecognized request argument supplied: {}", "`{}` is not allowed"])
def test_sampling_that_a_server_refuses_is_left_out_with_a_warning(serve, caplog, name, words):
    server = serve(refusing(words.format(name), name))
    chat = OpenAIChat("m", server.url, top_p=0.5, top_k=5)
    assert ask(chat, 2) == ["yes", "yes"]
    assert [name in r.json for r in server.requests] == [True, False, False]
    assert [r.levelno for r in caplog.records if f"refuses {name}" in r.message] == [logging.WARNING]


def test_an_extra_field_that_a_server_refuses_is_said_in_its_words_at_once(serve):
    server = serve(refusing("Unrecognized request argument supplied: think", "think"))
    chat = OpenAIChat("m", server.url, extra={"think": False})
    (reply,) = chat.complete([TALK], schema={"type": "object"})
    assert "think" in reply.reason
    assert len(server.requests) == 1


# System text.


def test_system_text_without_a_users_turn_becomes_one():
    assert fold_system((Message("system", ("a",)),)) == (Message("user", ("a",)),)
    later = (Message("assistant", ("b",)), Message("system", ("c",)), Message("user", ("d",)))
    assert fold_system(later) == (later[0], Message("user", ("c", "\n\n", "d")))


def test_a_redirect_in_a_circle_ends_and_one_that_loses_its_request_is_named(serve):
    """A client makes a GET of a POST at a 301, as browsers do."""
    circle = serve(lambda r: error(307, "moved", Location=r.path))
    with pytest.raises(BackendError, match="redirects"):
        ask(OpenAIChat("m", circle.url))
    assert len(circle.requests) == 6
    lost = serve(lambda r: error(301, "moved", Location="/elsewhere"))
    with pytest.raises(BackendError, match=f"to which {lost.url} redirects: .*; give that address"):
        ask(OpenAIChat("m", lost.url, retries=0))


@pytest.mark.parametrize(("words", "means"), sentences("role of a system"))
def test_system_text_goes_into_the_users_turn_where_the_role_is_refused(words, means, serve):
    assert refuses_system(words) is (means == "refused")

    def answer(request):
        has_system = any(m["role"] == "system" for m in request.json["messages"])
        return error(422, words) if has_system else said("yes")

    if means == "refused":
        server = serve(answer)
        assert ask(OpenAIChat("m", server.url), 2) == ["yes", "yes"]
        assert len(server.requests) == 3
        assert server.requests[-1].json["messages"] == [{"role": "user", "content": "be brief\n\na"}]


def test_a_limit_beyond_the_context_is_left_to_the_server(serve):
    words = "maximum context is 4096, you requested 5296 (1200 in the messages, 4096 in the completion)"
    server = serve(refusing(words, "max_tokens", "max_completion_tokens"))
    assert ask(OpenAIChat("m", server.url)) == ["yes"]
    assert len(server.requests) == 3


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
