"""Cost of `goalreel annotate` beyond its pictures: its wall time over that of a bare PyAV script.

    python benchmarks/startup.py --json

Both sides are fresh processes, measured from the start of the interpreter, in turn. The script decodes the
frames that annotate decodes, each once, and encodes a goal video of the same runs of pictures with the same
encoder, options and threads. It draws no border, plans, judges and writes nothing else, and imports only PyAV
and numpy. The default dataset is ../shared/data/droid_new_setup.

Keys of --json: `annotate_over_floor`, the ratio of the medians; `annotate_s` and `floor_s`, those medians;
`turns`.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from common import SHARED, argument_parser, parse, report
from numpy.typing import NDArray
from parts.scale_data import make

from goalreel.annotator.annotate import open_dataset
from goalreel.datasets import episode
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.video import VideoIndex, decode
from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.datasets.writing.plan import BuildPlan, TextOptions

FLOOR = Path(__file__).with_name("parts") / "floor.py"
GOALREEL = "from goalreel.cli.main import app; app()"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure both sides and print the result; `--smoke` records a dataset and starts two processes."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--dataset", type=Path, default=SHARED / "droid_new_setup", help="LeRobot, with videos"
    )
    parser.add_argument("--turns", type=int, default=7, help="processes of each kind")
    options = parse(parser, argv, turns=1)
    with tempfile.TemporaryDirectory(prefix="goalreel-startup-") as work:
        dataset = make(Path(work) / "data", episodes=2, block=2) if options.smoke else options.dataset
        result = measure(dataset, Path(work), options.turns)
    report(result, options.json)


def measure(dataset: Path, work: Path, turns: int) -> dict[str, Any]:
    """Time both sides in turn."""
    (work / "workload.json").write_text(json.dumps(record_workload(dataset, work / "recorded")))
    annotate, floor = list[float](), list[float]()
    for turn in range(turns):
        annotate.append(seconds("-c", GOALREEL, "annotate", dataset, "--out", work / f"out{turn}"))
        floor.append(seconds(FLOOR, work / "workload.json", work / f"floor{turn}.mp4"))
    annotate_s, floor_s = statistics.median(annotate), statistics.median(floor)
    return {
        "annotate_over_floor": round(annotate_s / floor_s, 2),
        "annotate_s": round(annotate_s, 3),
        "floor_s": round(floor_s, 3),
        "turns": turns,
    }


def seconds(*arguments: object) -> float:
    """Time a Python process with its start, and with bytecode as once installed."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    command = [sys.executable, *map(str, arguments)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def record_workload(dataset: Path, out: Path) -> dict[str, Any]:
    """Annotate once in this process, and write down which frames are decoded and what is encoded.

    The result has `frames`, presentation times by video; `runs`, each a video and the time of the frame that
    is shown, or None twice for black, with its number of frames; `size`, `fps` and the encoder's `settings`.
    """
    from goalreel.cli.main import app

    frames: dict[str, set[int]] = {}

    def decode_noted(index: VideoIndex, pts: Sequence[int]) -> dict[int, NDArray[np.uint8]]:
        frames.setdefault(str(index.path), set()).update(pts)
        return decode(index, pts)

    with patch.object(episode, "decode", decode_noted):
        app(["annotate", str(dataset), "--out", str(out)], standalone_mode=False)
    source = open_dataset(dataset)
    records = Records(out / "meta" / "goalreel", source=source.fingerprint().shared)
    build = BuildPlan.prepare(source, out, records, None, SUBGOAL, None, False, TextOptions(), "bordered")
    runs = [run for index in build.clock for run in episode_runs(build, source, index)]
    return {
        "frames": {path: sorted(pts) for path, pts in frames.items()},
        "runs": runs,
        "size": build.size,
        "fps": str(source.info["fps"]),
        "settings": asdict(build.encoder) | {"options": build.encoder.codec_options()},
    }


def episode_runs(build: BuildPlan, source: Source, index: int) -> list[tuple[str | None, int | None, int]]:
    """List (video, presentation time, frames) of each picture of the goal video in one episode."""
    length = build.clock[index].frames
    goals = build.goals.get(index)
    runs: list[tuple[str | None, int | None, int]] = []
    for count, reference in goals.runs(length) if goals else [(length, None)]:
        if reference is None:
            runs.append((None, None, count))
            continue
        camera, _, frame = reference.removeprefix("frame:").rpartition("#")
        video, (pts,) = source.episode(index).locate(camera, [int(frame)])
        runs.append((str(video.path), pts, count))
    return runs


if __name__ == "__main__":
    main()
