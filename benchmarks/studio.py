"""How soon a visitor of `goalreel studio` sees something: nano, on this CPU, over HTTP.

    python benchmarks/studio.py [--storyboards N] [--json]

A real `goalreel studio` process is started on an empty folder, and asked for storyboards of an example scene
in turn. Models are loaded during the first one, which is not counted. Times are medians.

Keys of --json: `start_ms`, from the command until the server answers; `cold_picture_ms`, from the first
request until its first picture. Of the others, from the request on: `first_word_ms` until the first piece of
the plan, `first_plan_ms` until the plan, `first_picture_ms` until the first picture is drawn, `storyboard_ms`
until the storyboard is done. `storyboards`: how many were counted.
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
from common import argument_parser, parse, report

EVENTS = {"text": "first_word_ms", "planned": "first_plan_ms", "edited": "first_picture_ms"}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its results."""
    parser = argument_parser(__doc__)
    parser.add_argument("--storyboards", type=int, default=5)
    options = parse(parser, argv, storyboards=1)
    report(measure(options.storyboards), options.json)


def measure(storyboards: int) -> dict[str, object]:
    """Start a studio and ask it for storyboards, one after the other."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, studio(folder) as client:
        start_ms = milliseconds(started)
        scene = client.get("/v1/examples").json()["scenes"][0]
        cold = watch(client, scene)["first_picture_ms"]
        seen = [watch(client, scene) for _ in range(storyboards)]
    times = {name: round(statistics.median(run[name] for run in seen), 1) for name in seen[0]}
    return {"start_ms": start_ms, "cold_picture_ms": cold, "storyboards": storyboards, **times}


def watch(client: httpx.Client, scene: dict[str, str]) -> dict[str, float]:
    """Ask for a storyboard, and note when what comes."""
    times: dict[str, float] = {}
    started = time.perf_counter()
    asked = {"instruction": scene["instruction"], "image": scene["picture"]}
    board = client.post("/v1/storyboards", json=asked).json()["id"]
    with client.stream("GET", f"/v1/storyboards/{board}/events") as response:
        for line in response.iter_lines():
            name = EVENTS.get(line.removeprefix("event: "))
            if name is not None:
                times.setdefault(name, milliseconds(started))
    return {**times, "storyboard_ms": milliseconds(started)}


def milliseconds(since: float) -> float:
    """Time since a moment of `time.perf_counter`."""
    return round(1000 * (time.perf_counter() - since), 1)


@contextmanager
def studio(folder: str) -> Iterator[httpx.Client]:
    """A client of a studio in a process of its own, when it is ready."""
    command = [sys.executable, "-m", "goalreel", "studio", folder, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(m for line in process.stderr if (m := re.search(r"Look at (http://\S+)/ ", line)))
            with httpx.Client(base_url=found[1], timeout=600) as client:
                client.get("/v1/studio")
                yield client
        finally:
            process.terminate()
            process.communicate()


if __name__ == "__main__":
    main()
