"""goalreel's `watch` against lerobot-annotate (lerobot 0.6.1): one dataset, one server, whole commands.

    python benchmarks/watch.py [--dataset DIR] [--json]

The server is a stand-in that takes 1.0 s a reply, 16 at once, and looks at no picture. This measures calls,
what is sent, time, what lands in the dataset and what failures do, never how good a label is. Without
--dataset it takes 8 episodes of the simulated tabletop. lerobot-annotate runs as it comes (`lerobot`), and
without questions about pictures and interjections (`lerobot_subtasks`), which is nearest to what `watch`
does. `watch_faulty` and `lerobot_subtasks_faulty` are the same with 10 % garbage and 5 % HTTP 500.

Keys of --json: `episodes`, `frames`; `calls_ratio`, `wall_ratio`, `megabytes_ratio` (lerobot / watch); the
same for `lerobot_subtasks`: `subtasks_calls_ratio`, `subtasks_wall_ratio`, `subtasks_megabytes_ratio`; and
for each run `seconds`, `status`, `calls` by kind, `text_tokens` (characters / 4), `pictures`, `megabytes` (of
pictures), `garbage` and `errors` in replies, `styles` (rows of language by style), `without_subtasks`
(episodes), `goal_images` (there is a sub-goal camera).

--smoke leaves the faulty runs out and runs the commands in this process, one import for all.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pyarrow.parquet as pq
from common import argument_parser, parse, report
from parts.watch_server import StandIn

from goalreel.datasets.source import Source

GARBAGE, ERRORS = 0.10, 0.05
LEAN = ("--vqa.enabled=false", "--interjections.enabled=false")


def record_tabletop(root: Path, episodes: int, size: int) -> Path:
    """Record episodes of the validation split."""
    from goalreel.tabletop.sim.record import quiet, record
    from goalreel.tabletop.sim.splits import seeds

    quiet()
    record(root, seeds("validation", episodes, 0), size=size)
    return root


def contents(root: Path) -> dict[str, Any]:
    """Count the language and the goal images of a dataset."""
    styles: Counter[str] = Counter()
    without = []
    source = Source.open(root)
    for row in source.rows:
        place = source.info["data_path"].format(
            chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
        )
        names = [n for n in pq.read_schema(root / place).names if n.startswith("language_")]
        table = pq.read_table(
            root / place, columns=names, filters=[("episode_index", "=", row["episode_index"])]
        )
        rows = Counter(entry["style"] for entry in table["language_persistent"][0].as_py() or ())
        rows += Counter(
            entry["style"] or "speech"
            for cell in (table["language_events"].to_pylist() if "language_events" in names else ())
            for entry in cell or ()
        )
        styles += rows
        if not rows["subtask"]:
            without.append(row["episode_index"])
    goals = any(camera.endswith("subgoal") for camera in source.cameras)
    return {"styles": dict(styles), "without_subtasks": without, "goal_images": goals}


type Run = Callable[[Sequence[str], Path], int]
"""Runs a command of this environment, with a file for its output; gives its exit status."""


def run_in_child(command: Sequence[str], log: Path) -> int:
    """Run a command in a process of its own."""
    script = Path(sys.executable).with_name(command[0])
    with log.open("w") as output:
        process = subprocess.run([script, *command[1:]], stdout=output, stderr=subprocess.STDOUT, check=False)
    return process.returncode


def run_here(command: Sequence[str], log: Path) -> int:
    """Run a command in this process."""
    (script,) = entry_points(group="console_scripts", name=command[0])
    main = script.load()
    with (
        log.open("w") as output,
        redirect_stdout(output),
        redirect_stderr(output),
        patch.object(sys, "argv", list(command)),
    ):
        try:
            main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@dataclass(frozen=True)
class Bench:
    """The dataset, the server, and how commands are run."""

    dataset: Path
    server: StandIn
    run: Run

    def measure(self, command: Sequence[str], out: Path, *, faulty: bool) -> dict[str, Any]:
        """Run a command that writes `out`: what it took, and what is in `out` then."""
        if faulty:
            self.server.reset(GARBAGE, ERRORS)
        else:
            self.server.reset()
        start = time.perf_counter()
        status = self.run(command, out.with_suffix(".log"))
        seconds = time.perf_counter() - start
        requests = self.server.requests
        return {
            "seconds": seconds,
            "status": status,
            "calls": dict(requests.calls),
            "text_tokens": requests.characters // 4,
            "pictures": requests.pictures,
            "megabytes": requests.picture_bytes / 1e6,
            "garbage": requests.garbage,
            "errors": requests.errors,
            **contents(out),
        }

    def watch(self, out: Path, *, faulty: bool = False) -> dict[str, Any]:
        """Run `goalreel annotate --preset watch`."""
        model = f"openai:stand-in@{self.server.url}"
        command = ["goalreel", "annotate", str(self.dataset), "--out", str(out), "--preset", "watch"]
        models = ["--planner", f"watch:{model}", "--critic", model, "--replace-rows"]
        return self.measure([*command, *models], out, faulty=faulty)

    def lerobot(self, out: Path, options: Sequence[str] = (), *, faulty: bool = False) -> dict[str, Any]:
        """Run `lerobot-annotate`, which writes into the dataset itself, so into a copy."""
        shutil.copytree(self.dataset, out)
        vlm = ["--vlm.model_id=stand-in", f"--vlm.api_base={self.server.url}", "--vlm.auto_serve=false"]
        return self.measure(["lerobot-annotate", f"--root={out}", *options, *vlm], out, faulty=faulty)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run each way once, then the two nearest with faults."""
    with tempfile.TemporaryDirectory() as name, StandIn(options.delay) as server:
        folder = Path(name)
        dataset = options.dataset or record_tabletop(folder / "data", options.episodes, options.size)
        bench = Bench(dataset, server, run_here if options.smoke else run_in_child)
        runs = {
            "watch": bench.watch(folder / "watch"),
            "lerobot": bench.lerobot(folder / "lerobot"),
            "lerobot_subtasks": bench.lerobot(folder / "lerobot_subtasks", LEAN),
        }
        if not options.smoke:
            runs["watch_faulty"] = bench.watch(folder / "watch_faulty", faulty=True)
            runs["lerobot_subtasks_faulty"] = bench.lerobot(folder / "lerobot_faulty", LEAN, faulty=True)
        rows = Source.open(dataset).rows
    result: dict[str, Any] = {"episodes": len(rows), "frames": sum(row["length"] for row in rows)}
    ours = runs["watch"]
    for prefix, other in (("", runs["lerobot"]), ("subtasks_", runs["lerobot_subtasks"])):
        result[f"{prefix}calls_ratio"] = sum(other["calls"].values()) / sum(ours["calls"].values())
        result[f"{prefix}wall_ratio"] = other["seconds"] / ours["seconds"]
        result[f"{prefix}megabytes_ratio"] = other["megabytes"] / ours["megabytes"]
    return result | runs


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--dataset", type=Path, help="a LeRobot v3.0 dataset; it is only read")
    parser.add_argument("--episodes", type=int, default=8, help="of the simulated tabletop")
    parser.add_argument("--size", type=int, default=128, help="of their square pictures, pixels")
    parser.add_argument("--delay", type=float, default=1.0, help="seconds a reply")
    options = parse(parser, argv, episodes=1, size=64, delay=0.0)
    report(measure(options), options.json)


if __name__ == "__main__":
    main()
