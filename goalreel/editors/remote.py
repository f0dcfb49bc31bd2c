"""Editors behind HTTP: OpenAI-compatible servers, Gemini, goalreel's own and InterleaveThinker's."""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import LifoQueue
from typing import Any

import httpx2

from goalreel.concurrency import map_threaded
from goalreel.editors.gemini import GeminiImages
from goalreel.editors.protocols import (
    InterleaveThinkerServer,
    OpenAIImages,
    Protocol,
    Refusal,
    goalreel_server,
)
from goalreel.errors import InputError
from goalreel.http.abort import current_abort
from goalreel.http.address import split_model
from goalreel.http.client import (
    MAX_REPLY_BYTES,
    REDIRECTS,
    REFUSED,
    Endpoint,
    gemini_endpoint,
    openai_endpoint,
)
from goalreel.http.connection import PersistentConnection
from goalreel.http.errors import check_encoding, error_text, refusal_words, refused_field, true_status
from goalreel.http.retries import is_transient, report_retry, retry_after_s
from goalreel.image import Image
from goalreel.types import Edit, Failure

log = logging.getLogger(__name__)

CONCURRENCY = 8
"""Edits in progress at once, over all calls."""
_REFUSALS = (400, 403, 422)
"""The statuses with which a server may refuse a field."""
_LOST = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.RemoteProtocolError, httpx2.ReadError)


@dataclass(frozen=True)
class Patience:
    """The limits of retries. Times are in seconds; the pause doubles after each failed try."""

    tries: int = 5
    connect_s: float = 10.0
    reply_s: float = 300.0
    """From sending to the last byte of one try."""
    pause_s: float = 0.5
    longest_pause_s: float = 30.0
    """The upper limit of Retry-After, too."""

    def __post_init__(self) -> None:
        if self.tries < 1 or min(self.connect_s, self.reply_s, self.pause_s, self.longest_pause_s) < 0:
            raise ValueError("tries start at 1; times are not negative")


class RemoteEditor:
    """Sends edits concurrently; each has its own tries, so that one bad edit costs only itself.

    An optional field that a server refuses (see `Protocol.optional`) is not sent again. A picture that the
    server stores is fetched from the server's own host, or from one of `picture_hosts`.
    """

    def __init__(
        self,
        protocol: Protocol,
        endpoint: Endpoint,
        *,
        concurrency: int = CONCURRENCY,
        patience: Patience | None = None,
        picture_hosts: Collection[str] = (),
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        self._protocol = protocol
        self._endpoint = endpoint
        self._concurrency = concurrency
        self._patience = patience or Patience()
        self._hosts = {httpx2.URL(endpoint.address).host, *(host.lower() for host in picture_hosts)}
        self._refused: set[str] = set()
        timeout = httpx2.Timeout(self._patience.reply_s, connect=self._patience.connect_s)
        options = {**endpoint.connection, "timeout": timeout, "event_hooks": {"request": [self._check_host]}}
        self._connections = LifoQueue[PersistentConnection]()
        """Those without a request. The one used last comes first: it is the likeliest to be open still."""
        for _ in range(concurrency):
            self._connections.put(PersistentConnection(**options))

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i is the picture of edit i in the server's working size, or a Failure."""
        return map_threaded(self._edit, edits, self._concurrency)

    def probe(self) -> str:
        """Ask the server whether it is there, takes the key and has the model.

        Raises:
            InputError, BackendError: as `goalreel.http.probe.probe_openai`.
        """
        return self._protocol.probe(self._endpoint)

    def _edit(self, edit: Edit) -> Image | Failure:
        if edit.references and not self._protocol.references:
            return self._failure(f"{self._protocol.url} takes one picture an edit", refused=True)
        try:
            status, body, left_out = self._ask(edit)
            if status != 200:
                message = f"the server answered {status}: {error_text(body)}{self._endpoint.advice(status)}"
                refused = status in REFUSED and b"API_KEY_INVALID" not in body  # a 400 of Google's
                return self._failure(message, refused=refused)
            picture = self._protocol.image(edit, body, self._fetch, left_out)
            if _is_blank(picture) and (edit.image is None or not _is_blank(edit.image)):
                return self._failure("its picture has one colour alone: try another seed or prompt")
            return picture
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as e:
            return self._failure(self._endpoint.out_of_reach(e))
        except httpx2.HTTPError as e:
            return self._failure(f"no reply from {self._protocol.url}: {str(e).strip() or type(e).__name__}")
        except Refusal as e:
            return self._failure(str(e), refused=True)
        except ValueError as e:
            return self._failure(f"the server's reply is unusable: {e}")

    def _failure(self, message: str, refused: bool = False) -> Failure:
        return Failure(
            stage="edit", message=self._endpoint.hide_key(message.splitlines()[0]), refused=refused
        )

    def _ask(self, edit: Edit) -> tuple[int, bytes, Collection[str]]:
        """Status and body of the reply to `edit`, and the fields that the server refuses."""
        refused = set(self._refused)
        while True:
            request = self._protocol.request(edit, refused)
            self._endpoint.authorize(request)
            request.url = request.url.copy_merge_params(self._endpoint.query)
            status, body = self._send(request)
            sent = [name for name in self._protocol.optional if name not in refused]
            field = refused_field(refusal_words(body), sent) if status in _REFUSALS else None
            if field is None:
                self._refused |= refused if status == 200 else set()
                return status, body, refused
            refused.add(field)

    def _fetch(self, address: str) -> Image:
        """A picture that the server stores; the key stays here."""
        request = httpx2.Request("GET", address)
        try:
            status, body = self._send(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as e:
            raise ValueError(f"its picture cannot be fetched from {request.url.netloc.decode()}: {e}") from e
        if status != 200:
            raise ValueError(f"its picture cannot be fetched: {status}")
        return Image.decode(body)

    def _check_host(self, request: httpx2.Request) -> None:
        """Check where a request or a redirect goes."""
        if (host := request.url.host) not in self._hosts:
            option = f"allow that with the option picture_host={host}"
            mend = option if request.method == "GET" else "give that address"
            raise ValueError(f"it points to {host}: {mend}")

    def _send(self, request: httpx2.Request) -> tuple[int, bytes]:
        """Status and body of the last try. A late reply is not retried: it may have cost money."""
        pause, tries = self._patience.pause_s, self._patience.tries
        while True:
            tries, retry_after = tries - 1, 0.0
            try:
                connection = self._connections.get()
                try:
                    status, body, retry_after = self._once(connection, request)
                finally:
                    self._connections.put(connection)
                if not is_transient(status) or not tries:
                    return status, body
                log.info("%s answered %d, trying again", self._protocol.url, status)
            except _LOST as e:
                if not tries:
                    raise
                log.info("%s is out of reach (%s), trying again", self._protocol.url, type(e).__name__)
            report_retry(self._patience.tries - tries)
            current_abort().sleep(min(max(pause, retry_after), self._patience.longest_pause_s))
            pause *= 2

    def _once(self, connection: PersistentConnection, request: httpx2.Request) -> tuple[int, bytes, float]:
        """Status, body and the pause in seconds that the server asks for."""
        late = time.monotonic() + self._patience.reply_s
        for _ in range(REDIRECTS + 1):
            with connection.stream(request) as response:
                body = self._receive(response, late)
            following = self._endpoint.redirected(response)
            if following is None:
                return true_status(response.status_code, body), body, retry_after_s(response.headers)
            request = following
        raise ValueError(f"it redirects more than {REDIRECTS} times")

    def _receive(self, response: httpx2.Response, late: float) -> bytes:
        check_encoding(response)
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                raise ValueError(f"more than {MAX_REPLY_BYTES // 2**20} MiB")
            if time.monotonic() > late:
                raise httpx2.ReadTimeout(f"not complete after {self._patience.reply_s:g} s")
        return bytes(body)


def _is_blank(image: Image) -> bool:
    """Whether all pixels have one colour: so many servers answer what their filter stopped."""
    return bool((image.pixels == image.pixels[0, 0]).all())


def remote_editor(
    kind: str,
    rest: str,
    *,
    concurrency: int = CONCURRENCY,
    patience: Patience | None = None,
    picture_hosts: Collection[str] = (),
    api_version: str | None = None,
    size: str | None = None,
    aspect: str | None = None,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> RemoteEditor:
    """Make the editor that `KIND:REST` names.

    `openai` and `gemini` are followed by MODEL@URL (MODEL alone is the service's own), `server` and
    `interleavethinker` by URL. The key comes from the environment: as `openai_endpoint` and `gemini_endpoint`
    say; GOALREEL_TOKEN, then GOALREEL_API_KEY for `server`; GOALREEL_API_KEY for `interleavethinker`.
    `headers` and `extra` are as for `OpenAIChat`; `server` and `interleavethinker` have no more fields.

    Raises:
        InputError: no such kind, no address, or no key where one is needed or one that no header can carry.
    """
    at = partial(Endpoint, rest.rstrip("/"), api_version=api_version, more_headers=headers or {})
    if kind in ("openai", "gemini"):
        model, url = split_model(rest)
        if not model:
            raise InputError(f"an editor is named {kind}:MODEL@URL, or {kind}:MODEL for the service's own")
        if kind == "openai":
            endpoint = openai_endpoint(url, api_version, headers)
            protocol = OpenAIImages(endpoint.address, model, size=size, extra=extra or {})
        else:
            endpoint = gemini_endpoint(url, headers)
            protocol = GeminiImages(endpoint.address, model, aspect=aspect, size=size, extra=extra or {})
    elif kind == "server":
        endpoint = at(("GOALREEL_TOKEN", "GOALREEL_API_KEY"))
        protocol = goalreel_server(endpoint.address)
    elif kind == "interleavethinker":
        endpoint = at(("GOALREEL_API_KEY",))
        protocol = InterleaveThinkerServer(endpoint.address)
    else:
        raise InputError(
            f"no remote editor of kind {kind!r}: use openai:MODEL@URL, gemini:MODEL@URL, server:URL or "
            "interleavethinker:URL"
        )
    return RemoteEditor(
        protocol, endpoint, concurrency=concurrency, patience=patience, picture_hosts=picture_hosts
    )
