"""Deterministic models and a real server for tests of `goalreel.serving`: plain functions of the request."""

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence

import httpx
import numpy as np

from goalreel.chat.conversation import Conversation, NoReply, Token, TokenReply, cut_off
from goalreel.errors import BackendError
from goalreel.http.server import BoundedServer
from goalreel.image import Image
from goalreel.loop import TASK
from goalreel.serving.app import create_app
from goalreel.serving.settings import Models, ServeSettings
from goalreel.types import Edit, Failure
from support.scripted import TextChat, spelled
from support.wait import until


class EchoChat(TextChat):
    """Says back the last turn: its texts, and each image as WxH and the colour of its first pixel.

    `gate` holds every call until it is set; `batches` records what came together.
    """

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.schemas: list[object] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def replies(self, conversations: Sequence[Conversation], *, schema=None) -> list[str | NoReply]:
        said = [" ".join(map(describe, c[-1].parts)) for c in conversations]
        self.batches.append(said)
        self.schemas.append(schema)
        self.entered.release()
        assert self.gate.wait(60)
        if any("no backend" in s for s in said):
            raise BackendError("the card fell off the bus\nwith details")
        if any("bug" in s for s in said):
            raise RuntimeError("a bug in the model")
        return [NoReply("too long") if "no reply" in s else cut_off(s) if "endless" in s else s for s in said]


class TokenEcho(EchoChat):
    """Also tells tokens where it is asked: each letter, for which a `?` could have stood with 0.25."""

    def answer(self, requests):
        return [
            TokenReply(r.text, tuple(Token(c, {"?": 0.25, c: 0.5, "!": 0.0}) for c in r.text))
            if isinstance(r, TokenReply) and request.tokens
            else r
            for request, r in zip(requests, super().answer(requests), strict=True)
        ]


class TokenCritic(TextChat):
    """Accepts every picture, with a probability of 0.75."""

    def replies(self, conversations, *, schema=None):
        answer = spelled(
            '{"previous_step_success": ', {"true": 0.6, "false": 0.2}, ', "refine_prompt": null}'
        )
        return [answer for _ in conversations]


class TintEditor:
    """Inverts the picture and writes prompt length and seed into its first pixel; 8x6 from text alone."""

    def __init__(self) -> None:
        self.batches: list[list[Edit]] = []

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        self.batches.append(list(edits))
        return [tinted(e.image, e.prompt, e.seed) for e in edits]


def describe(part: str | Image) -> str:
    if isinstance(part, str):
        return part
    return f"{part.size[0]}x{part.size[1]}:{','.join(map(str, part.pixels[0, 0]))}"


def tinted(image: Image | None, prompt: str, seed: int) -> Image | Failure:
    if "refuse" in prompt:
        return Failure(stage="edit", message="not that")
    pixels = np.zeros((6, 8, 3), np.uint8) if image is None else 255 - image.pixels
    pixels[0, 0] = (len(prompt) % 256, seed % 256, seed // 256 % 256)
    return Image(pixels)


def picture(seed: int = 0, size: tuple[int, int] = (20, 10)) -> Image:
    """Random pixels, (width, height)."""
    return Image(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8))


@contextlib.contextmanager
def serving(models: Models, **settings: object) -> Iterator[str]:
    """A real server on a free port of 127.0.0.1, in a thread; yields its URL."""
    with running(create_app(models, ServeSettings(**settings))) as (url, _):
        yield url


@contextlib.contextmanager
def talking(models: Models, **settings: object) -> Iterator[httpx.Client]:
    """As `serving`; yields a client of the server."""
    with serving(models, **settings) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


@contextlib.contextmanager
def running(app: object, **options: object) -> Iterator[tuple[str, BoundedServer]]:
    """Any application on a real server, in a thread; yields its URL and the server."""
    server = BoundedServer(app, **{"port": 0, "timeout_graceful_shutdown": 5} | options)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", server
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()


def say(client: httpx.Client, text: str, model: str = "planner", **more: object) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return client.post("/v1/chat/completions", json=body)


def content(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


class PlannerChat(EchoChat):
    """Plans one step a `#` of the instruction; with `...` in it, gives no plan at all."""

    def replies(self, conversations: Sequence[Conversation], *, schema=None) -> list[str | NoReply]:
        replies = super().replies(conversations, schema=schema)
        return [r if isinstance(r, NoReply) or "..." in r else plan_of(r) for r in replies]


class CriticChat(EchoChat):
    """Accepts a prompt that was refined once, and the end of a task; refines every other."""

    def replies(self, conversations: Sequence[Conversation], *, schema=None) -> list[str | NoReply]:
        replies = super().replies(conversations, schema=schema)
        return [verdict_of("carefully" in r or TASK in r) for r in replies if isinstance(r, str)]


def plan_of(text: str) -> str:
    steps = [
        {"step_number": i + 1, "step_name": f"s{i}", "instruction": f"i{i}", "prompt": f"do {i}"}
        for i in range(text.count("#"))
    ]
    return f"<think>.</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


def verdict_of(success: bool) -> str:
    verdict = {"previous_step_success": success, "refine_prompt": "" if success else "carefully"}
    return f"<think>.</think><answer>{json.dumps(verdict)}</answer>"
