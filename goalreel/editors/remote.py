"""Editors behind HTTP: OpenAI-compatible servers, goalreel's own and InterleaveThinker's."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Semaphore

import httpx2

from goalreel.concurrency import map_threaded
from goalreel.editors.protocols import (
    InterleaveThinkerServer,
    OpenAIImages,
    Protocol,
    error_text,
    goalreel_server,
)
from goalreel.errors import InputError
from goalreel.http import REFUSED, certificates, check_address, is_transient, read_key, report_retry
from goalreel.image import Image
from goalreel.types import Edit, Failure

log = logging.getLogger(__name__)

MAX_REPLY_BYTES = 64 * 2**20
CONCURRENCY = 8
"""Edits in progress at once, over all calls."""
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
    """Sends edits concurrently; each has its own tries, so that one bad edit costs only itself."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        key: str | None = None,
        concurrency: int = CONCURRENCY,
        patience: Patience | None = None,
    ) -> None:
        """`key` is sent as a bearer token and kept out of every message."""
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, got {concurrency}")
        self._protocol = protocol
        self._key = key
        self._concurrency = concurrency
        self._free = Semaphore(concurrency)
        self._patience = patience or Patience()
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(self._patience.reply_s, connect=self._patience.connect_s),
            limits=httpx2.Limits(max_connections=concurrency),
            verify=certificates(),
        )

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i is the picture of edit i in the server's working size, or a Failure."""
        return map_threaded(self._edit, edits, self._concurrency)

    def _edit(self, edit: Edit) -> Image | Failure:
        try:
            status, body = self._send(self._protocol.request(edit))
            if status != 200:
                message = f"the server answered {status}: {error_text(body)}"
                return self._failure(message, refused=status in REFUSED)
            return self._protocol.image(edit, body)
        except httpx2.HTTPError as e:
            return self._failure(f"no reply from {self._protocol.url}: {str(e).strip() or type(e).__name__}")
        except ValueError as e:
            return self._failure(f"the server's reply is unusable: {e}")

    def _failure(self, message: str, refused: bool = False) -> Failure:
        line = message.splitlines()[0]
        line = line.replace(self._key, "***") if self._key else line
        return Failure(stage="edit", message=line, refused=refused)

    def _send(self, request: httpx2.Request) -> tuple[int, bytes]:
        """Status and body of the last try. A late reply is not retried: it may have cost money."""
        pause, tries = self._patience.pause_s, self._patience.tries
        while True:
            tries, retry_after = tries - 1, 0.0
            try:
                with self._free:  # not the client's own limit, for which the wait is a part of the reply's
                    status, body, retry_after = self._once(request)
                if not is_transient(status) or not tries:
                    return status, body
                log.info("%s answered %d, trying again", self._protocol.url, status)
            except _LOST as e:
                if not tries:
                    raise
                log.info("%s is out of reach (%s), trying again", self._protocol.url, type(e).__name__)
            report_retry(self._patience.tries - tries)
            time.sleep(min(max(pause, retry_after), self._patience.longest_pause_s))
            pause *= 2

    def _once(self, request: httpx2.Request) -> tuple[int, bytes, float]:
        """Status, body and the pause asked for by Retry-After in seconds."""
        late = time.monotonic() + self._patience.reply_s
        content, headers = request.read(), request.headers
        with self._client.stream("POST", request.url, content=content, headers=headers) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_REPLY_BYTES:
                    raise ValueError(f"more than {MAX_REPLY_BYTES // 2**20} MiB")
                if time.monotonic() > late:
                    raise httpx2.ReadTimeout(f"not complete after {self._patience.reply_s:g} s")
            retry_after = response.headers.get("Retry-After", "")
        return response.status_code, bytes(body), float(retry_after) if retry_after.isdecimal() else 0.0


def remote_editor(
    kind: str, rest: str, *, concurrency: int = CONCURRENCY, patience: Patience | None = None
) -> RemoteEditor:
    """Make the editor that `KIND:REST` names.

    `openai` is followed by MODEL@URL (MODEL alone is OpenAI's own), `server` and `interleavethinker` by URL.
    The key comes from the environment: GOALREEL_TOKEN for `server`; GOALREEL_API_KEY for all of them, and
    after it OPENAI_API_KEY for `openai`.

    Raises:
        InputError: no such kind, no address, or no key where one is needed or one that no header can carry.
    """
    if kind == "openai":
        protocol, key = _openai(rest)
    elif kind == "server":
        protocol, key = goalreel_server(_address(rest)), read_key("GOALREEL_TOKEN", "GOALREEL_API_KEY")
    elif kind == "interleavethinker":
        protocol, key = InterleaveThinkerServer(_address(rest)), read_key("GOALREEL_API_KEY")
    else:
        raise InputError(
            f"no remote editor of kind {kind!r}: use openai:MODEL@URL, server:URL or interleavethinker:URL"
        )
    return RemoteEditor(protocol, key=key, concurrency=concurrency, patience=patience)


def _openai(name: str) -> tuple[OpenAIImages, str | None]:
    """The protocol and the key of `openai:NAME`."""
    model, at, url = name.partition("@")
    if not model:
        raise InputError(
            "an OpenAI-compatible editor is named openai:MODEL@URL, or openai:MODEL for OpenAI's own"
        )
    if at:
        return OpenAIImages(_address(url), model), read_key("GOALREEL_API_KEY", "OPENAI_API_KEY")
    if key := read_key("OPENAI_API_KEY"):
        return OpenAIImages("https://api.openai.com/v1", model), key
    raise InputError(f"{model} at OpenAI needs a key: set OPENAI_API_KEY, or give another address")


def _address(text: str) -> str:
    check_address(text)
    return text.rstrip("/")
