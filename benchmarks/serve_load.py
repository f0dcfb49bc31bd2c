"""Fairness of `goalreel serve` under load: one client in twenty asks for what runs away.

    python benchmarks/serve_load.py --json

A server process with the nano Planner and its other defaults. The well-behaved clients ask for plans, each
`--requests` times, one after the other; the others send a word to which nano
writes without an end, and no limit of tokens, until the first have ended. Once without these and once with
them. A client that is answered 429 asks again when the server says.

Keys of --json, with the runaways where nothing else is said: `answered`, the share of well-behaved requests
that have a reply; `p50_s` and `p95_s`, their latencies; `fairness`, `p95_s` over the same without runaways;
`peak_rss_mb` of the server; `clients`; `runaways`, the clients among them; `load`, the machine's before.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from common import argument_parser, parse, report

from goalreel.chat.openai_format import message_json
from goalreel.image import Image
from goalreel.planners.chat import Question, question
from goalreel.types import Task

SERVE = "from goalreel.cli.main import app; app()"
TASKS = ("put the red block in the orange bowl", "put the green block on the blue block")
EVERY = 20
"""One client in so many runs away."""
PATIENCE = 120.0
"""Seconds after which a request counts as not answered."""


def main(argv: Sequence[str] | None = None) -> None:
    """Load the server without and with runaways, and print the result; `--smoke` has three clients."""
    parser = argument_parser(__doc__)
    parser.add_argument("--clients", type=int, default=200, help="all of them")
    parser.add_argument("--requests", type=int, default=2, help="of each well-behaved client")
    options = parse(parser, argv, clients=3, requests=1)
    runaways = max(1, options.clients // EVERY)
    good = options.clients - runaways
    load = round(os.getloadavg()[0], 2)
    quiet, _ = measure(good, 0, options.requests)
    times, rss = measure(good, runaways, options.requests)
    p95 = percentile(times, 0.95)
    result = {
        "answered": round(len(times) / (good * options.requests), 4),
        "p50_s": round(percentile(times, 0.5), 3),
        "p95_s": round(p95, 3),
        "fairness": round(p95 / percentile(quiet, 0.95), 2),
        "peak_rss_mb": round(rss, 1),
        "clients": options.clients,
        "runaways": runaways,
        "load": load,
    }
    report(result, options.json)


def percentile(times: Sequence[float], share: float) -> float:
    """The latency that a share of the answered requests did not exceed; not a number without any."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


def measure(good: int, runaways: int, requests: int) -> tuple[list[float], float]:
    """Give the latencies of answered requests in seconds, and the server's peak memory in MB."""
    with server() as (url, process):
        times = asyncio.run(load_server(url, good, runaways, requests))
        status = Path(f"/proc/{process.pid}/status").read_text()
        return times, int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # pyrefly: ignore[unsupported-operation]


@contextmanager
def server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start `goalreel serve` with the nano Planner, and give its address."""
    command = [sys.executable, "-c", SERVE, "serve", "--planner", "hf:nano-planner", "--port", "0"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if " serves " in line)
            yield line.split()[0], process
        finally:
            process.kill()


async def load_server(url: str, good: int, runaways: int, requests: int) -> list[float]:
    """Send all requests, and give the latencies of the well-behaved ones that were answered."""
    scene = Image(np.full((128, 128, 3), 127, np.uint8))
    questions = [question(Task(id="t", instruction=text, image=scene)) for text in TASKS]
    bodies = [body_of(q) for q in questions if isinstance(q, Question)]
    endless = {"model": "planner", "messages": [{"role": "user", "content": "block"}]}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits) as client:
        await ask(client, bodies[0])  # the first call of a model takes longer

        async def behave(number: int) -> list[float]:
            return [t for _ in range(requests) if (t := await ask(client, bodies[number % 2])) is not None]

        async def run_away() -> None:
            while True:
                await ask(client, endless)

        others = [asyncio.create_task(run_away()) for _ in range(runaways)]
        times = await asyncio.gather(*(behave(number) for number in range(good)))
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    return [t for some in times for t in some]


def body_of(chat_question: Question) -> dict[str, Any]:
    """The request of a client that knows how long a plan is."""
    turns = [message_json(message) for message in chat_question.conversation]
    return {"model": "planner", "messages": turns, "max_tokens": 256}


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> float | None:
    """Ask until there is an answer, and give the seconds; None where there is none."""
    started = time.monotonic()
    while time.monotonic() - started < PATIENCE:
        try:
            answer = await client.post("/v1/chat/completions", json=body)
        except httpx.TransportError:
            return None
        if answer.status_code == 200:
            return time.monotonic() - started
        if answer.status_code not in (429, 503):
            return None
        await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))
    return None


if __name__ == "__main__":
    main()
