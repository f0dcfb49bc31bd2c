"""`goalreel annotate --ray`: two workers against one, on this machine, before a server that takes its time.

    python benchmarks/ray_annotate.py --json

The server is a stand-in that takes 0.5 s for a plan or a verdict and 1.0 s for a picture, however many it is
asked for at once, and looks at none; a third of the pictures are rejected. Each worker has 2 requests a role
under way, so that the number of workers is what limits.

Keys of --json: `speedup` (of the time from the first request to the last reply, which leaves out the start of
Ray and the build), `wall_speedup` (of all of it), `identical` (both wrote the same bytes), `seconds` and
`wall_seconds` by number of workers, `episodes`, `requests`.
"""

import argparse
import base64
import json
import tempfile
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from write import make_dataset

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.annotator.workers import Workers
from goalreel.batch import Limits
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load

CHAT_S, EDIT_S = 0.5, 1.0
BATCH, IN_FLIGHT = 2, 8
FRAMES, SIZE = 12, 64


class SlowServer:
    """Plans two steps; draws by the prompt; the words of a request decide."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def reply(self, path: str, request: dict) -> dict:
        """What a request is answered, after a while."""
        self.begun.append(time.perf_counter())
        time.sleep(EDIT_S if path == "/edit" else CHAT_S)
        said = _edited(request) if path == "/edit" else _said(request)
        self.ended.append(time.perf_counter())
        return said


def _edited(request: dict) -> dict:
    number = zlib.crc32(f"{request['prompt']} {request['seed']}".encode())
    pixels = np.random.default_rng(number).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
    return {"success": True, "edited_image": base64.b64encode(Image(pixels).png()).decode()}


def _said(request: dict) -> dict:
    if request["model"] == "critic":
        good = zlib.crc32(json.dumps(request["messages"]).encode()) % 3 > 0
        answer = {"previous_step_success": good, "refine_prompt": None if good else "do it with more care"}
    else:
        fields = ("step_name", "instruction", "prompt")
        steps = [
            {"step_number": i, **{f: f"{f} {i}" for f in fields}, "auxiliary_text": None} for i in (1, 2)
        ]
        answer = {"execution_plan": steps}
    text = f"<think>so</think><answer>{json.dumps(answer)}</answer>"
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "choices": [choice]}


def _handler(server: SlowServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(server.reply(self.path, request)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def work(root: Path, out: Path, count: int) -> tuple[float, float, int]:
    """Annotate with `count` workers: seconds at the server, seconds in all, requests."""
    server = SlowServer()
    chat = f"@{server.url}/v1"
    names = presets.load(
        "api",
        planner=f"openai:planner{chat}",
        critic=f"openai:critic{chat}",
        editor=f"interleavethinker:{server.url}",
    )
    source, options = open_dataset(root), Options()
    models = load(names, recordings=options.recorded(source), roles=())
    begin = time.perf_counter()
    summary = annotate(
        source, out, models, options, limits=Limits(BATCH, IN_FLIGHT), workers=Workers(names, count)
    )
    wall = time.perf_counter() - begin
    if not summary.clean:
        raise RuntimeError(summary.as_json())
    return max(server.ended) - min(server.begun), wall, len(server.begun)


def _contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def measure(episodes: int) -> dict[str, object]:
    """One worker, then two, over the same dataset."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "in"
        make_dataset(root, episodes, FRAMES, SIZE)
        outs = {count: Path(folder) / f"out{count}" for count in (1, 2)}
        found = {count: work(root, out, count) for count, out in outs.items()}
        identical = _contents(outs[1]) == _contents(outs[2])
    return {
        "speedup": found[1][0] / found[2][0],
        "wall_speedup": found[1][1] / found[2][1],
        "identical": identical,
        "seconds": {count: times[0] for count, times in found.items()},
        "wall_seconds": {count: times[1] for count, times in found.items()},
        "episodes": episodes,
        "requests": found[1][2],
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=48)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    arguments = parser.parse_args()
    result = measure(arguments.episodes)
    for key, value in result.items():
        print(f"{key:16} {value:.3f}" if isinstance(value, float) else f"{key:16} {value}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
