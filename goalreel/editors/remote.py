"""Editors behind HTTP: OpenAI-compatible servers, Gemini, goalreel's own and InterleaveThinker's."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import httpx2

from goalreel.editors.formats import GeminiImages, ImageFormat, InterleaveThinkerImages, OpenAIImages, Refusal
from goalreel.errors import InputError
from goalreel.http.client import REFUSED, HttpClient, HttpError, Reply, refusal_words, refused_field, run
from goalreel.http.endpoint import SERVER_KEYS, Endpoint, gemini_endpoint, openai_endpoint, split_model
from goalreel.image import Image
from goalreel.types import Edit, Failure


class RemoteEditor:
    """Sends edits concurrently, over all calls at most `concurrency`; one bad edit costs only itself.

    An optional field that a server refuses (`ImageFormat.optional`) is not sent again. A late reply is not
    asked for again: it may have cost money. The pictures follow no redirect to another server. `timeout_s` is
    for one try, from sending to the last byte.
    """

    def __init__(
        self,
        form: ImageFormat,
        endpoint: Endpoint,
        *,
        concurrency: int = 8,
        retries: int = 4,
        timeout_s: float = 300.0,
    ) -> None:
        self._format = form
        self._client = HttpClient(
            endpoint, timeout_s=timeout_s, retries=retries, retry_late=False, leave=False
        )
        self._refused: set[str] = set()
        self._free = asyncio.Semaphore(concurrency)

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i is the picture of edit i in the server's working size, or a Failure."""
        return run(self._edit_all(edits))

    def probe(self) -> str:
        """Ask the server for the model, as `goalreel.http.probe.probe_openai`."""
        return self._format.probe(self._client.endpoint)

    async def _edit_all(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._edit(edit)) for edit in edits]
        return [task.result() for task in tasks]

    async def _edit(self, edit: Edit) -> Image | Failure:
        if edit.references and not self._format.references:
            return self._failure(f"{self._client.endpoint.shown} takes one picture an edit", refused=True)
        async with self._free:
            try:
                reply, refused = await self._ask(edit)
                picture = await asyncio.to_thread(self._format.picture, reply.body)
                if _is_blank(picture) and (edit.image is None or not _is_blank(edit.image)):
                    return self._failure("its picture has one colour alone: try another seed or prompt")
                return await asyncio.to_thread(self._format.fitted, picture, edit, refused)
            except HttpError as e:
                google_key = e.reply is not None and b"API_KEY_INVALID" in e.reply.body  # a 400
                return self._failure(self._client.explain(e), refused=e.status in REFUSED and not google_key)
            except Refusal as e:
                return self._failure(str(e), refused=True)
            except ValueError as e:
                return self._failure(f"the server's reply is unusable: {e}")

    def _failure(self, message: str, refused: bool = False) -> Failure:
        hidden = self._client.endpoint.hide_key(message.splitlines()[0])
        return Failure(stage="edit", message=hidden, refused=refused)

    async def _ask(self, edit: Edit) -> tuple[Reply, Collection[str]]:
        """Return the reply to `edit`, and the fields that the server refuses."""
        refused = set(self._refused)

        def build() -> httpx2.Request:
            route, content = self._format.request(edit, refused)
            return self._client.request("POST", route, **content)

        def find(reply: Reply) -> str | None:
            sent = [name for name in self._format.optional if name not in refused]
            return refused_field(refusal_words(reply.body), sent)

        reply = await self._client.send_accepted(build, refused, find)
        self._refused |= refused
        return reply, refused


def _is_blank(image: Image) -> bool:
    """Return whether all pixels have one colour: so many servers answer what their filter stopped."""
    return bool((image.pixels == image.pixels[0, 0]).all())


def remote_editor(
    kind: str, rest: str, *, extra: Mapping[str, Any] | None = None, **options: Any
) -> RemoteEditor:
    """Make the editor that `KIND:REST` names.

    `openai` and `gemini` are followed by MODEL@URL (MODEL alone is the service's own), `server` and
    `interleavethinker` by URL. The key comes from the environment: as `openai_endpoint` and `gemini_endpoint`
    say; GOALREEL_TOKEN, then GOALREEL_API_KEY for `server`; GOALREEL_API_KEY for `interleavethinker`.
    `extra` is as for `OpenAIChat`; `server` and `interleavethinker` have no more fields. The `options` are
    those of `RemoteEditor`.

    Raises:
        InputError: no such kind, no address, or no key where one is needed or one that no header can carry.
    """
    model, url = split_model(rest)
    address = rest.rstrip("/")
    form: ImageFormat
    match kind:
        case "openai" | "gemini" if not model:
            raise InputError(f"an editor is named {kind}:MODEL@URL, or {kind}:MODEL for the service's own")
        case "openai":
            form, endpoint = OpenAIImages(model, extra=extra or {}), openai_endpoint(url, extra)
        case "gemini":
            form, endpoint = GeminiImages(model, extra=extra or {}), gemini_endpoint(url, extra)
        case "server":
            form, endpoint = OpenAIImages("editor", is_own=True), Endpoint(f"{address}/v1", SERVER_KEYS)
        case "interleavethinker":
            form, endpoint = InterleaveThinkerImages(), Endpoint(address, ("GOALREEL_API_KEY",))
        case _:
            known = "openai:MODEL@URL, gemini:MODEL@URL, server:URL or interleavethinker:URL"
            raise InputError(f"no remote editor of kind {kind!r}: use {known}")
    return RemoteEditor(form, endpoint, **options)
