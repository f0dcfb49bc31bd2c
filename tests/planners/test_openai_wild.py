"""OpenAIChat and servers as they are: redirects, odd bodies, statuses and addresses."""

import gzip
import json

import pytest
from support.chat_server import Reply, error, said

from goalreel.chat.conversation import Message, NoReply
from goalreel.chat.openai import OpenAIChat
from goalreel.errors import BackendError

KEY = "sk-top-secret-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch, retry_pauses):
    for name in ("OPENAI_API_KEY", "GOALREEL_API_KEY", "GOALREEL_TOKEN", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def ask(chat: OpenAIChat):
    (reply,) = chat.complete([(Message("user", ("a",)),)])
    return reply


def moved(status: int, address: str):
    def answer(request):
        return (
            said("yes")
            if request.path == "/v2/chat/completions"
            else Reply(status, b"", {"Location": address})
        )

    return answer


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_host_keeps_the_request_and_the_key(serve, environment, status):
    environment.setenv("GOALREEL_API_KEY", KEY)
    server = serve(moved(status, "/v2/chat/completions"))
    assert ask(OpenAIChat("m", server.url)) == "yes"
    first, second = server.requests
    assert second.json == first.json
    assert second.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("api_version", [None, "2024-10-21"])
def test_a_key_does_not_follow_to_another_host(serve, environment, status, api_version):
    environment.setenv("GOALREEL_API_KEY", KEY)
    other = serve(lambda r: said("yes"))
    server = serve(lambda r: Reply(status, b"", {"Location": f"{other.url}/chat/completions"}))
    assert ask(OpenAIChat("m", server.url, api_version=api_version)) == "yes"
    (request,) = other.requests
    assert KEY not in json.dumps(request.headers)
    assert "authorization" not in request.headers


def test_where_a_redirect_loses_the_request_the_address_to_give_is_named(serve):
    """httpx makes a GET of a POST at a 301, as browsers do; keys stay at home."""
    other = serve(lambda r: error(401, "no key"))
    for location in (f"{other.url}/chat/completions", "/elsewhere"):
        status = 301 if location == "/elsewhere" else 307
        server = serve(lambda r, s=status, t=location: Reply(s, b"", {"Location": t}))
        with pytest.raises(BackendError, match=f"to which {server.url} redirects: .*; give that address"):
            ask(OpenAIChat("m", server.url, retries=0))


def test_a_redirect_in_a_circle_ends(serve):
    server = serve(lambda r: Reply(307, b"", {"Location": r.path}))
    with pytest.raises(BackendError, match="redirects"):
        ask(OpenAIChat("m", server.url))
    assert len(server.requests) == 6


YES = said("yes").body


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=b"\xef\xbb\xbf" + YES),
        Reply(body=gzip.compress(YES), headers={"Content-Encoding": "gzip"}),
        Reply(body=YES, headers={"Content-Encoding": "identity"}),
        Reply(body=b"\r\n \n" + YES),
        Reply(body=YES, headers={"Content-Type": "text/plain; charset=utf-8"}),
    ],
)
def test_bodies_that_are_read(serve, reply):
    server = serve(lambda r: reply)
    assert ask(OpenAIChat("m", server.url)) == "yes"


def test_a_body_that_is_not_as_its_header_says_is_no_server_that_is_down(serve):
    server = serve(lambda r: Reply(body=YES, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(BackendError, match=r"no whole reply from .*decompressing"):
        ask(OpenAIChat("m", server.url, retries=0))


@pytest.mark.parametrize(
    "reply",
    [
        error(500, "Jinja Exception: No user query found"),
        error(500, "image input is not supported - hint: you may need to provide the mmproj"),
        error(400, "At most 1 image(s) may be provided in one request."),
        error(413, "too large"),
    ],
)
def test_what_a_server_will_never_take_is_asked_once(serve, reply):
    server = serve(lambda r: reply)
    assert isinstance(ask(OpenAIChat("m", server.url)), NoReply)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "requests"), [(501, 1), (404, 1), (505, 3), (520, 3)])
def test_which_statuses_are_tried_again(serve, status, requests):
    server = serve(lambda r: Reply(status, b"no"))
    with pytest.raises(BackendError):
        ask(OpenAIChat("m", server.url, retries=2))
    assert len(server.requests) == requests


def test_http_written_as_https_says_so(serve):
    server = serve(lambda r: said("yes"))
    with pytest.raises(BackendError, match="does not speak TLS: write http://"):
        ask(OpenAIChat("m", server.url.replace("http:", "https:"), retries=0))


def test_an_address_without_v1_says_what_it_may_lack(serve):
    server = serve(
        lambda r: said("yes") if r.path.startswith("/v1/") else Reply(404, b'{"detail":"Not Found"}')
    )
    with pytest.raises(BackendError, match="Not Found: the address may have to end in /v1"):
        ask(OpenAIChat("m", server.url.removesuffix("/v1")))
