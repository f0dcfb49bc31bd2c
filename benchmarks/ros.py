"""The node under load against a subscriber that does nothing: in turn, with the same camera.

    python benchmarks/ros.py --json                       # 640x480 and 1920x1080 at 30 Hz, 8 rounds each
    python benchmarks/ros.py --sizes 640x480 --rounds 3
    python benchmarks/ros.py --json --new 2               # two more rounds of each size, and all until now

It takes 36 minutes of a machine that does nothing else, in pieces if need be: a round is a file under --out.
Run it again, and it measures the rounds that are missing. A change of the node, of the benchmark or of the
settings begins anew.

Three processes over DDS on loopback, with the shared-memory profile that goalreel ships: a camera, a bare
rclpy subscriber, and the goalreel node, which carries out tasks all the while, with models that take
--model-seconds for a plan and an edit. Latency runs from just before `publish` to the callback's first line.

A round runs the bare subscriber alone for --seconds and the node alone for as long, in changing order, so
that neither takes the other's processor. Then both run together for as long, to look for old frames. A bare
subscriber starts in one of two modes: one takes a quarter of a core, the other less than a tenth.

Keys of --json, by size in `sizes`: `p99_ratio` (latency, the node's over the bare subscriber's of the round,
geometric mean), `p99_ratio_interval` (95 %, by bootstrap over rounds), `modes` (the same by the bare
subscriber's mode, `slow` or `fast`, with its rounds and CPU). A value a round: `load` (the machine's, as it
began), `p99_ms`, `bare_p99_ms`, `median_ms`, `bare_median_ms`, `cpu` (of one core), `bare_cpu`. Of all
rounds: `received`, `bare_received`, `sent` (frames due, to each), `model_calls`, and together `stale_frames`
(looks at a frame more than 1.5 frame periods older than the newest one the bare subscriber had at that
moment), `looks`, `oldest_ms`. Of the worst round: `memory_growth_mib` (last quarter over second quarter,
median), `memory_mib`. At the top: `p99_ratio` and `p99_ratio_interval` of the size whose interval ends
highest, `stale_frames` of all sizes, `seconds`, and `rounds`, the fewest of a size.
"""

import argparse
import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from common import ROOT, argument_parser, code_digest, parse, report
from parts.ros_rounds import RATE, Runner

from goalreel.files import write_bytes

CODE = ("ros_pkg/goalreel_ros/goalreel_ros", "goalreel/streaming", "benchmarks/parts")
SLOW_CPU = 0.15
"""Share of a core from which on a bare subscriber runs in its slow mode."""
RESAMPLES = 2000


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compute the keys of a size from those of its rounds."""
    logs = np.log([r["p99_ms"] / r["bare_p99_ms"] for r in rounds])
    slow = np.array([r["bare_cpu"] >= SLOW_CPU for r in rounds])
    sampled = np.random.default_rng(0).choice(logs, (RESAMPLES, len(logs))).mean(axis=1)
    modes = {
        name: {
            "rounds": int(chosen.sum()),
            "p99_ratio": round(float(np.exp(logs[chosen].mean())), 3),
            "bare_cpu": round(float(np.mean([r["bare_cpu"] for r in np.array(rounds)[chosen]])), 3),
        }
        for name, chosen in (("slow", slow), ("fast", ~slow))
        if chosen.any()
    }
    lists = ("load", "p99_ms", "bare_p99_ms", "median_ms", "bare_median_ms", "cpu", "bare_cpu")
    sums = ("received", "bare_received", "stale_frames", "looks", "model_calls")
    maxima = ("oldest_ms", "memory_growth_mib", "memory_mib")
    return {
        "p99_ratio": round(float(np.exp(logs.mean())), 3),
        "p99_ratio_interval": [round(float(np.exp(end)), 3) for end in np.percentile(sampled, (2.5, 97.5))],
        "modes": modes,
        **{key: [round(r[key], 3) for r in rounds] for key in lists},
        **{key: sum(r[key] for r in rounds) for key in sums},
        **{key: round(max(r[key] for r in rounds), 1) for key in maxima},
    }


def saved_rounds(size: str, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Measure the rounds that `folder` has no file of, `options.new` at most, and read all."""
    files = [folder / f"{size}_{number}.json" for number in range(options.rounds)]
    missing = [number for number, file in enumerate(files) if not file.exists()][: options.new]
    if missing:
        with tempfile.TemporaryDirectory() as logs:
            runner = Runner(size, options.seconds, options.warm_up, options.model_seconds, Path(logs))
            with runner.camera():
                for number in missing:
                    measured = {"load": os.getloadavg()[0]} | runner.run(number)
                    write_bytes(files[number], json.dumps(measured).encode())
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def folder_name(options: argparse.Namespace) -> str:
    """Name the folder of rounds that may be combined, by their settings and the code that they measured."""
    return code_digest(f"{options.seconds} {options.warm_up} {options.model_seconds}", CODE)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["640x480", "1920x1080"])
    parser.add_argument("--seconds", type=float, default=15.0, help="measured, a part of a round")
    parser.add_argument("--rounds", type=int, default=8, help="a size")
    parser.add_argument("--new", type=int, help="rounds of a size that are measured now, at most")
    parser.add_argument("--warm-up", type=float, default=2.0, help="seconds before")
    parser.add_argument("--model-seconds", type=float, default=2.0, help="of a plan and of an edit")
    parser.add_argument("--out", type=Path, default=Path("out/ros"), help="rounds; run again to go on")
    smoke = {"seconds": 0.5, "rounds": 1, "warm_up": 0.0, "model_seconds": 0.1}
    options = parse(parser, argv, sizes=["64x48"], out=None, **smoke)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    os.environ["FASTDDS_DEFAULT_PROFILES_FILE"] = str(ROOT / "launch" / "fastdds_shm.xml")
    with contextlib.ExitStack() as stack:
        stack.enter_context(rclpy.init())
        out = options.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = out / folder_name(options)
        measured = {size: saved_rounds(size, options, folder) for size in options.sizes}
    due = options.seconds * RATE
    sizes = {size: summary(rounds) | {"sent": round(due * len(rounds))} for size, rounds in measured.items()}
    worst = max(sizes.values(), key=lambda size: size["p99_ratio_interval"][1])
    top = {
        "p99_ratio": worst["p99_ratio"],
        "p99_ratio_interval": worst["p99_ratio_interval"],
        "stale_frames": sum(s["stale_frames"] for s in sizes.values()),
        "seconds": options.seconds,
        "rounds": min(map(len, measured.values())),
    }
    report(top | {"sizes": sizes}, options.json)


if __name__ == "__main__":
    main()
