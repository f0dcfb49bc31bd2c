"""Addresses, keys, proxies and errors, as the clients of chat and image servers share them."""

import json

import pytest

from goalreel import http_client
from goalreel.errors import InputError
from goalreel.http_client import (
    Endpoint,
    error_text,
    openai_endpoint,
    refused_field,
    retry_after_s,
    split_model,
)

VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "GOALREEL_API_KEY")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (*VARIABLES, *PROXIES, *(p.upper() for p in PROXIES)):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("base", "address", "key"),
    [
        (None, None, "openai"),
        (None, "https://api.openai.com/v1", "openai"),
        (None, "https://API.openai.com/v1/", "openai"),
        (None, "https://gateway/v1", "goalreel"),
        (None, "http://api.openai.com/v1", "goalreel"),
        ("https://gateway/v1", None, "goalreel"),
        ("https://gateway/v1", "https://gateway/other", "goalreel"),
        ("https://gateway/v1", "https://api.openai.com/v1", "openai"),
        ("https://gateway/v1", "https://gateway:8443/v1", "goalreel"),
    ],
)
def test_a_key_goes_to_the_host_that_it_is_for(environment, base, address, key):
    environment.setenv("OPENAI_API_KEY", "openai")
    environment.setenv("GOALREEL_API_KEY", "goalreel")
    if base:
        environment.setenv("OPENAI_BASE_URL", base)
    assert openai_endpoint(address).key == key
    environment.delenv("GOALREEL_API_KEY")
    is_openais = key == "openai" or address in (None, "https://gateway/other")
    assert openai_endpoint(address).key == ("openai" if is_openais else None)


@pytest.mark.parametrize(
    ("variables", "address", "proxy"),
    [
        ({"http_proxy": "http://p:1"}, "http://there", "http://p:1"),
        ({"http_proxy": "p:1"}, "http://there", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "http://there", None),
        ({"ALL_PROXY": "http://p:1"}, "https://there", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "no_proxy": "there"}, "https://there", None),
        ({"ALL_PROXY": "socks5://p:1"}, "http://127.0.0.1:80", None),
        ({"ALL_PROXY": "socks5://p:1"}, "http://localhost:80", None),
        ({"ALL_PROXY": "socks5://p:1"}, "http://[::1]:80", None),
        ({"http_proxy": "http://[::1"}, "http://127.0.0.1:80", None),
        ({"ALL_PROXY": "socks5h://p:1"}, "http://there", "socks5h://p:1"),
    ],
)
def test_a_proxy_is_used_but_for_this_machine(environment, variables, address, proxy):
    for name, value in variables.items():
        environment.setenv(name, value)
    endpoint = Endpoint(address, ())
    assert endpoint.proxy == proxy
    assert ("through the proxy" in endpoint.out_of_reach()) == (proxy is not None)


@pytest.mark.parametrize("value", ["http://[::1", "ftp://p:1"])
def test_a_proxy_that_cannot_be_used_is_one_line(environment, value):
    environment.setenv("http_proxy", value)
    with pytest.raises(InputError, match=r"the proxy .* of the environment is no address"):
        Endpoint("http://there", ())


def test_a_socks_proxy_names_its_extra_and_no_password(environment):
    environment.setenv("ALL_PROXY", "socks5://me:secret@p:1")
    assert "secret" not in Endpoint("http://there", ()).out_of_reach()
    environment.setattr(http_client, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'goalreel\[socks\]'") as caught:
        Endpoint("http://there", ())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "model", "url"),
    [
        ("m", "m", None),
        ("m@http://h/v1", "m", "http://h/v1"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5@20250929", None),
        ("claude-sonnet-4-5@20250929@http://h/v1", "claude-sonnet-4-5@20250929", "http://h/v1"),
        ("@cf/meta/llama-3.2-11b", "@cf/meta/llama-3.2-11b", None),
        ("@cf/meta/llama-3.2-11b@https://h/v1", "@cf/meta/llama-3.2-11b", "https://h/v1"),
        ("m@http://me:pw@h/v1", "m", "http://me:pw@h/v1"),
        ("m@localhost/v1", "m", "localhost/v1"),
        ("m@10.0.0.1:8000/v1", "m", "10.0.0.1:8000/v1"),
        ("m@my.host/v1", "m", "my.host/v1"),
    ],
)
def test_a_models_own_name_may_hold_an_at_sign(name, model, url):
    assert split_model(name) == (model, url)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), ("1.5", 1.5), ("-3", 0), ("soon", 0), ("nan", 0), ("inf", 0), ("", 0), (None, 0),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 99 Oct 2015 07:28:00 GMT", 0)],
)  # fmt: skip
def test_the_pause_that_a_reply_asks_for(value, seconds):
    assert retry_after_s({} if value is None else {"Retry-After": value}) == seconds


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "no\nroom"}}, "no room"),
        ({"error": "no room"}, "no room"),
        ([{"error": {"message": "no room"}}], "no room"),
        ({"message": "no room", "code": 400}, "no room"),
        ({"message": {"detail": [{"msg": "is missing", "loc": ["body", "size"]}]}}, "size: is missing"),
        ({"detail": "no room"}, "no room"),
        ({"detail": []}, "no message"),
        ({"ok": 1}, "no message"),
        (b"<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway"),
        (b"plain words", "plain words"),
        (b"[" * 100_000, ("[" * 200)),
        (b"", "no message"),
    ],
)
def test_the_servers_own_words(body, text):
    assert error_text(body if isinstance(body, bytes) else json.dumps(body).encode()) == text


def test_a_field_is_refused_by_its_whole_name():
    sent = ("size", "n", "logprobs")
    assert refused_field("Unknown parameter: 'n'.", sent) == "n"
    assert refused_field("top_logprobs is not allowed", sent) == "logprobs"
    assert refused_field("the editor gave no image, don't resize", sent) is None
