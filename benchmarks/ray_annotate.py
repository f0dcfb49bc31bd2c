"""`goalreel annotate --ray`: two workers against one, on this machine, before a server that takes its time.

    python benchmarks/ray_annotate.py --json

The server is a stand-in that takes 0.5 s for a plan or a verdict and 1.0 s for a picture, multiplied by
--scale, however many requests are under way. It looks at no picture and rejects a third of them. Each worker
has 2 requests a role under way, so that the number of workers is the limit.

Keys of --json: `speedup` (of the time from the first request to the last reply, which leaves out the start of
Ray and the build), `wall_speedup` (of all of it), `identical` (both wrote the same bytes), `seconds` and
`wall_seconds` by number of workers, `episodes`, `requests`.

--no-ray, which --smoke implies, annotates in this process both times: Ray alone takes half a minute to start.
"""

import base64
import json
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import JsonServer, argument_parser, chat_completion, parse, report
from parts.square_dataset import make_dataset

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.annotator.workers import Workers
from goalreel.drivers import Limits
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.types import ROLES

CHAT_S, EDIT_S = 0.5, 1.0
BATCH, IN_FLIGHT = 2, 8
FRAMES, SIZE = 12, 64


class SlowModels:
    """Answers after a while; plans two steps and draws by the prompt, so that the request alone decides."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self.starts: list[float] = []
        self.ends: list[float] = []

    def reply(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a request to InterleaveThinker's `/edit` or to OpenAI's chat API."""
        self.starts.append(time.perf_counter())
        time.sleep(self._scale * (EDIT_S if path == "/edit" else CHAT_S))
        body = _draw(request) if path == "/edit" else _chat(request)
        self.ends.append(time.perf_counter())
        return 200, body


def _draw(request: dict[str, Any]) -> dict[str, Any]:
    number = zlib.crc32(f"{request['prompt']} {request['seed']}".encode())
    pixels = np.random.default_rng(number).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
    return {"success": True, "edited_image": base64.b64encode(Image(pixels).png()).decode()}


def _chat(request: dict[str, Any]) -> dict[str, Any]:
    if request["model"] == "critic":
        success = zlib.crc32(json.dumps(request["messages"]).encode()) % 3 > 0
        refined = None if success else "do it with more care"
        answer = {"previous_step_success": success, "refine_prompt": refined}
    else:
        fields = ("step_name", "instruction", "prompt")
        steps = [
            {"step_number": i, **{f: f"{f} {i}" for f in fields}, "auxiliary_text": None} for i in (1, 2)
        ]
        answer = {"execution_plan": steps}
    return chat_completion(f"<think>so</think><answer>{json.dumps(answer)}</answer>")


def time_annotate(root: Path, out: Path, scale: float, workers: int | None) -> tuple[float, float, int]:
    """Annotate with that many workers (None: in this process): seconds at the server and in all, requests.

    Raises:
        RuntimeError: not every episode was annotated.
    """
    slow = SlowModels(scale)
    with JsonServer(slow.reply) as server:
        chat = f"@{server.url}/v1"
        preset = presets.load(
            "api",
            planner=f"openai:planner{chat}",
            critic=f"openai:critic{chat}",
            editor=f"interleavethinker:{server.url}",
        )
        source, options = open_dataset(root), Options()
        models = load(preset, recordings=options.recorded(source), roles=() if workers else ROLES)
        start = time.perf_counter()
        summary = annotate(
            source,
            out,
            models,
            options,
            limits=Limits(BATCH, IN_FLIGHT),
            workers=Workers(preset, workers) if workers else None,
        )
        wall = time.perf_counter() - start
    if not summary.clean:
        raise RuntimeError(summary.as_json())
    return max(slow.ends) - min(slow.starts), wall, len(slow.starts)


def contents(root: Path) -> dict[str, bytes]:
    """Read every file of a folder, by its path in it."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def measure(episodes: int, scale: float, *, ray: bool) -> dict[str, object]:
    """Annotate the same dataset with one worker, then with two."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "in"
        make_dataset(root, episodes, FRAMES, SIZE, "h264")
        outs = {workers: Path(folder) / f"out{workers}" for workers in (1, 2)}
        runs = {
            workers: time_annotate(root, out, scale, workers if ray else None)
            for workers, out in outs.items()
        }
        identical = contents(outs[1]) == contents(outs[2])
    return {
        "speedup": runs[1][0] / runs[2][0],
        "wall_speedup": runs[1][1] / runs[2][1],
        "identical": identical,
        "seconds": {workers: times[0] for workers, times in runs.items()},
        "wall_seconds": {workers: times[1] for workers, times in runs.items()},
        "episodes": episodes,
        "requests": runs[1][2],
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=48)
    parser.add_argument("--scale", type=float, default=1.0, help="of the server's times")
    parser.add_argument("--no-ray", action="store_true", help="annotate in this process")
    options = parse(parser, argv, episodes=2, scale=0.01, no_ray=True)
    report(measure(options.episodes, options.scale, ray=not options.no_ray), options.json)


if __name__ == "__main__":
    main()
