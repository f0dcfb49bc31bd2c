"""Addresses, keys, proxies and errors, as the clients of chat and image servers share them."""

import json
import socket
import threading
from contextlib import suppress

import httpx2
import pytest
from support.conversations import user
from support.image_server import Server, picture
from support.wait import until

from goalreel.chat.openai import OpenAIChat
from goalreel.editors.remote import remote_editor
from goalreel.errors import InputError
from goalreel.http import client
from goalreel.http.calls import Abort, CallAbortedError, current_abort
from goalreel.http.client import HttpClient, HttpError, error_text, is_transient, refused_field, true_status
from goalreel.http.endpoint import Endpoint, openai_endpoint, split_model
from goalreel.types import Edit

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
        (None, "https://API.openai.com:443/v1/", "openai"),
        (None, "https://gateway/v1", "goalreel"),
        ("https://gateway:443/v1", "https://GATEWAY/v1", "goalreel"),
        (None, "http://api.openai.com/v1", "goalreel"),
        ("https://gateway/v1", None, "goalreel"),
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
    is_openais = key == "openai" or address in (None, "https://GATEWAY/v1")
    assert openai_endpoint(address).key == ("openai" if is_openais else None)


@pytest.mark.parametrize(
    ("variables", "address", "is_proxied"),
    [
        ({"http_proxy": "{}"}, "http://there.invalid", True),
        ({"ALL_PROXY": "{}"}, "http://there.invalid", True),
        ({"http_proxy": "{}", "NO_PROXY": "there.invalid"}, "http://there.invalid", False),
        ({"ALL_PROXY": "socks5://p:1"}, "http://127.0.0.1:9", False),
        ({"http_proxy": "{}"}, "http://[::1]:9", False),
    ],
)
def test_a_proxy_is_used_but_for_this_machine(environment, variables, address, is_proxied):
    server = Server()
    with server:
        for name, value in variables.items():
            environment.setenv(name, value.format(server.url))
        caller = HttpClient(Endpoint(address, ()), timeout_s=5, retries=0)
        with pytest.raises(HttpError) as caught:
            caller.call("POST", "/x", json={})
    assert bool(server.requests) is is_proxied
    assert "proxy" in caller.explain(caught.value) or not is_proxied or caught.value.status == 404


@pytest.mark.parametrize("value", ["http://[::1", "ftp://p:1"])
def test_a_proxy_that_cannot_be_used_is_one_line(environment, value):
    environment.setenv("http_proxy", value)
    with pytest.raises(InputError, match="the proxy of the environment is not an address"):
        HttpClient(Endpoint("http://there", ()), timeout_s=5, retries=0)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), ("1.5", 1.5), ("-3", 0), ("soon", 0), ("nan", 0), ("inf", 0),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("Wed, 99 Oct 2015 07:28:00 GMT", 0)],
)  # fmt: skip
def test_the_pause_that_a_reply_asks_for(environment, retry_pauses, value, seconds):
    server = Server()
    answers = iter([(429, {}, {"Retry-After": value})])
    server.reply = lambda path, fields: next(answers, (200, {}, {}))
    with server:
        HttpClient(Endpoint(server.url, ()), timeout_s=5, retries=1).call("POST", "/x", json={})
    assert retry_pauses == [seconds] if seconds else 0.5 <= retry_pauses[0] <= 0.75


def test_a_server_says_itself_whether_to_try_again(environment, retry_pauses):
    server = Server()
    server.reply = lambda path, fields: (429, {}, {"x-should-retry": "false"})
    with server, pytest.raises(HttpError):
        HttpClient(Endpoint(server.url, ()), timeout_s=5, retries=3).call("POST", "/x", json={})
    assert len(server.requests) == 1


def test_the_field_that_a_refusal_names_is_a_whole_word():
    sent = ("response_format", "logprobs", "size", "n")
    assert refused_field("Unknown parameter: 'n'.", sent) == "n"
    assert refused_field("the editor gave no image, don't resize", sent) is None


@pytest.mark.parametrize(
    ("name", "model", "url"),
    [
        ("m", "m", None),
        ("claude-sonnet-4-5@20250929@http://h/v1", "claude-sonnet-4-5@20250929", "http://h/v1"),
        ("@cf/meta/llama-3.2-11b@https://h/v1", "@cf/meta/llama-3.2-11b", "https://h/v1"),
        ("m@http://me:pw@h/v1", "m", "http://me:pw@h/v1"),
        ("m@10.0.0.1:8000/v1", "m", "10.0.0.1:8000/v1"),
        ("m@[::1]:8000/v1", "m", "[::1]:8000/v1"),
    ],
)
def test_a_models_own_name_may_hold_an_at_sign(name, model, url):
    assert split_model(name) == (model, url)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ([{"error": {"message": "no\nroom"}}], "no room"),
        ({"message": {"detail": [{"msg": "is missing", "loc": ["body", "size"]}]}}, "size: is missing"),
        ({"detail": []}, "no message"),
        ({"ok": 1}, '{"ok": 1}'),
        ({"error": True, "Message": "no room"}, "no room"),
        ({"error": {"message": "", "code": 4}, "detail": "no room"}, "no room"),
        ({"fault": {"faultstring": "no room"}}, "no room"),
        ({"error": {"message": "Provider error", "metadata": {"raw": "no room"}}}, "Provider error: no room"),
        (b"\xef\xbb\xbf" + b'{"error": "no room"}', "no room"),
        (b"<html><head><title>502 Bad Gateway</title></head></html>", "502 Bad Gateway"),
        (b"[" * 100_000, ("[" * 200)),
        (b"", "no message"),
    ],
)
def test_the_servers_own_words(body, text):
    assert error_text(body if isinstance(body, bytes) else json.dumps(body).encode()) == text


@pytest.mark.parametrize(
    ("status", "error", "meant"),
    [
        (200, {"code": "503"}, 503),
        (200, {"code": "rate_limit"}, 200),
        (200, "text", 200),
        (500, {"message": "Template error: roles must alternate"}, 400),
        (500, {"message": "image input is not supported - you may need to provide the mmproj"}, 400),
        (500, {"message": "CUDA error"}, 500),
    ],
)
def test_the_status_that_a_reply_means(status, error, meant):
    """Errors come with 200, and what a model never takes as a fault of the server."""
    assert true_status(status, json.dumps({"error": error}).encode()) == meant


@pytest.mark.parametrize(("status", "soon"), [(500, True), (520, True), (529, True), (501, False)])
def test_which_faults_of_a_server_pass(status, soon):
    assert is_transient(status) == soon


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate", "set SSL_CERT_FILE"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "does not speak TLS: write http://"),
        ("[Errno -2] Name or service not known", "no such host"),
        ("[Errno 111] Connection refused", "is the server running?"),
    ],
)
def test_why_a_server_is_out_of_reach(words, says):
    assert says in Endpoint("https://there/v1", ()).out_of_reach(OSError(words))


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("http://there:8000", 404, ": the address may have to end in /v1"),
        ("http://there:8000", 405, ": the address may have to end in /v1"),
        ("http://there:8000/v1", 404, ""),
        ("https://there/v1beta/openai", 404, ""),
        ("http://there:8000/v1", 401, ": set GOALREEL_API_KEY"),
        ("http://there:8000", 500, ""),
    ],
)
def test_what_to_do_about_a_refusal(address, status, says):
    assert openai_endpoint(address).advice(status) == says


@pytest.mark.parametrize(
    ("target", "is_home"),
    [
        ("http://there:80/other", True),
        ("https://there/v1", True),
        ("https://there:8443/v1", False),
        ("http://there:8000/v1", False),
        ("http://there.elsewhere/v1", False),
    ],
)
def test_an_address_that_may_have_the_key(target, is_home):
    assert Endpoint("http://there/v1", ()).is_home(httpx2.URL(target)) is is_home
    assert not Endpoint("https://there/v1", ()).is_home(httpx2.URL("http://there/v1"))


@pytest.mark.parametrize("value", ["two words", "a\nb", "k\u00e9y", "k\u200bey"])
def test_a_key_that_no_header_can_carry_is_not_shown(environment, value):
    environment.setenv("GOALREEL_API_KEY", "\r\n\tkey \r\n")
    assert Endpoint("http://there", ("GOALREEL_API_KEY",)).headers == {"Authorization": "Bearer key"}
    environment.setenv("GOALREEL_API_KEY", value)
    with pytest.raises(InputError, match="GOALREEL_API_KEY holds a character that no key has"):
        Endpoint("http://there", ("GOALREEL_API_KEY",))


@pytest.mark.parametrize("secret", ["hunter2-hunter2", 'hun"ter2\\', "schlüssel"])
def test_texts_of_extra_options_are_hidden_as_they_are_and_as_json(secret):
    extra = {"top": [12345678, secret], "more": {"key": "password", "a": 1}, "mode": "json schema"}
    hidden = Endpoint("http://there/v1", (), extra=extra).hide_key(f"{secret} {json.dumps(extra)} /v1")
    shown = '{"top": [12345678, "***"], "more": {"key": "***", "a": 1}, "mode": "json schema"}'
    assert hidden == f"*** {shown} /v1"


def test_silence_and_lost_replies_are_told_at_once_and_once(monkeypatch, caplog, retry_pauses):
    """All tries of a server that drops connections, or never answers, take minutes."""

    def serve() -> None:
        with listener.accept()[0] as connection:
            until(lambda: "for 0 s: waiting up to 60 s" in caplog.text)
            connection.recv(2**16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        for _ in range(3):
            listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        http = HttpClient(Endpoint(address, ()), timeout_s=60, retries=2)
        with monkeypatch.context() as patch:
            patch.setattr(client, "SILENT_S", 0)
            assert http.call("GET", "/models").status == 200
        with pytest.raises(HttpError):
            http.call("GET", "/models")
    told = [record.getMessage() for record in caplog.records if record.name == client.log.name]
    assert told[0] == f"no answer from {address} for 0 s: waiting up to 60 s"
    assert len(told) == 2, "the one kind does not hide the other"
    assert told[1].endswith(": trying again")


HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"
EDIT = Edit(task_id="t", step=0, attempt=0, image=picture(16, 16), prompt="put it down", seed=1)


class SilentServer:
    """Reads requests and answers `head` of a reply; `heard` is set by a request, `left` by its end."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self.heard, self.left = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(2**20)
            connection.sendall(self._head)
            self.heard.set()
            with suppress(ConnectionResetError):  # it left before it had read all
                while connection.recv(2**20):
                    pass
            self.left.set()


CLIENTS = {
    "chat": lambda url: OpenAIChat("m", url).complete([user("hello")]),
    "editor": lambda url: remote_editor("openai", f"m@{url}").edit([EDIT]),
}


@pytest.mark.parametrize("head", [b"", HALF], ids=["no", "half a"])
@pytest.mark.parametrize("client", CLIENTS)
def test_aborting_closes_the_connection_and_ends_the_call(client, head):
    server, abort = SilentServer(head), Abort()

    def call() -> None:
        with suppress(BaseException):  # whatever it is, nobody waits for it
            abort.run(lambda: CLIENTS[client](server.url))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert server.heard.wait(30)
    abort.request()
    assert server.left.wait(30), "the server can stop"
    thread.join(30)
    assert not thread.is_alive(), "no further try, and no pause before one"


def test_a_call_that_was_aborted_before_sends_nothing():
    abort, ended = Abort(), []
    abort.request()

    def call() -> None:
        with current_abort().closing(lambda: ended.append(1)):
            ended.append(2)

    with pytest.raises(CallAbortedError):
        abort.run(call)
    assert ended == []
    with current_abort().closing(lambda: ended.append(3)):
        pass
    assert ended == []
