"""goalreel's `watch` against lerobot-annotate (lerobot 0.6.1): one dataset, one server, whole commands.

    python benchmarks/watch.py [--dataset DIR] [--json]

The server is a stand-in that takes 1.0 s a reply, 16 at once, and looks at no picture: this measures calls,
what is sent, time, what lands in the dataset and what failures do, never how good a label is. Without
--dataset, 8 episodes of the simulated tabletop. lerobot-annotate runs as it comes (`lerobot`), and without
questions about pictures and interjections (`lerobot_subtasks`), which is nearest to what `watch` does.
`*_faulty` are the same with 10 % garbage and 5 % HTTP 500.

Keys of --json: `calls_ratio`, `wall_ratio`, `megabytes_ratio` (lerobot / watch), the same as `subtasks_*` for
`lerobot_subtasks`, and for each run `seconds`, `status`, `calls` by kind, `text_tokens` (characters / 4),
`pictures`, `megabytes` (of pictures), `garbage` and `errors` given, `styles` (rows of language by style),
`without_subtasks` (episodes), `goal_images` (a sub-goal camera is there).
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pyarrow.parquet as pq
from watch_server import StandIn

from goalreel.datasets.source import Source

DELAY_S = 1.0
GARBAGE, ERRORS = 0.10, 0.05
EPISODES = 8
LEAN = ("--vqa.enabled=false", "--interjections.enabled=false")


def tabletop(root: Path) -> Path:
    """Record EPISODES of the validation split."""
    from goalreel.tabletop.sim.record import quiet, record
    from goalreel.tabletop.sim.splits import seeds

    quiet()
    record(root, seeds("validation", EPISODES, 0))
    return root


def landed(root: Path) -> dict[str, Any]:
    """What language and which cameras a dataset has."""
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
        found = Counter(said["style"] for said in table["language_persistent"][0].as_py() or ())
        found += Counter(
            said["style"] or "speech"
            for cell in (table["language_events"].to_pylist() if "language_events" in names else ())
            for said in cell or ()
        )
        styles += found
        if not found["subtask"]:
            without.append(row["episode_index"])
    goals = any(camera.endswith("subgoal") for camera in source.cameras)
    return {"styles": dict(styles), "without_subtasks": without, "goal_images": goals}


def work(server: StandIn, command: Sequence[str], out: Path, log: Path, faulty: bool) -> dict[str, Any]:
    """Run a command; what it took and what is in `out` then."""
    server.begin(GARBAGE, ERRORS) if faulty else server.begin()
    start = time.perf_counter()
    with log.open("w") as told:
        done = subprocess.run(command, stdout=told, stderr=subprocess.STDOUT, check=False)
    seconds = time.perf_counter() - start
    asked = server.asked
    return {
        "seconds": seconds,
        "status": done.returncode,
        "calls": dict(asked.calls),
        "text_tokens": asked.characters // 4,
        "pictures": asked.pictures,
        "megabytes": asked.picture_bytes / 1e6,
        "garbage": asked.garbage,
        "errors": asked.errors,
        **landed(out),
    }


def watched(server: StandIn, dataset: Path, out: Path, faulty: bool) -> dict[str, Any]:
    """`goalreel annotate --preset watch`."""
    model = f"openai:stand-in@{server.url}"
    run = [str(Path(sys.executable).with_name("goalreel")), "annotate", str(dataset), "--out", str(out)]
    models = ["--preset", "watch", "--planner", f"watch:{model}", "--critic", model, "--replace-rows"]
    return work(server, [*run, *models], out, out.with_suffix(".log"), faulty)


def lerobot(
    server: StandIn, dataset: Path, out: Path, options: Sequence[str], faulty: bool
) -> dict[str, Any]:
    """`lerobot-annotate`, which writes into the dataset itself, so into a copy."""
    shutil.copytree(dataset, out)
    run = [str(Path(sys.executable).with_name("lerobot-annotate")), f"--root={out}", *options]
    vlm = ["--vlm.model_id=stand-in", f"--vlm.api_base={server.url}", "--vlm.auto_serve=false"]
    return work(server, [*run, *vlm], out, out.with_suffix(".log"), faulty)


def measure(dataset: Path | None) -> dict[str, Any]:
    """Each way once, then the two nearest with faults."""
    with tempfile.TemporaryDirectory() as folder, StandIn(DELAY_S) as server:
        place = Path(folder)
        data = dataset or tabletop(place / "data")
        runs = {
            "watch": watched(server, data, place / "watch", False),
            "lerobot": lerobot(server, data, place / "lerobot", (), False),
            "lerobot_subtasks": lerobot(server, data, place / "lerobot_subtasks", LEAN, False),
            "watch_faulty": watched(server, data, place / "watch_faulty", True),
            "lerobot_subtasks_faulty": lerobot(server, data, place / "lerobot_faulty", LEAN, True),
        }
        rows = Source.open(data).rows
    result: dict[str, Any] = {"episodes": len(rows), "frames": sum(row["length"] for row in rows)}
    for prefix, other in (("", runs["lerobot"]), ("subtasks_", runs["lerobot_subtasks"])):
        ours = runs["watch"]
        result[f"{prefix}calls_ratio"] = sum(other["calls"].values()) / sum(ours["calls"].values())
        result[f"{prefix}wall_ratio"] = other["seconds"] / ours["seconds"]
        result[f"{prefix}megabytes_ratio"] = other["megabytes"] / ours["megabytes"]
    return result | runs


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=Path, help="a LeRobot v3.0 dataset; it is only read")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    arguments = parser.parse_args()
    result = measure(arguments.dataset)
    for key, value in result.items():
        print(f"{key:26} {value:.3f}" if isinstance(value, float) else f"{key:26} {value}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
