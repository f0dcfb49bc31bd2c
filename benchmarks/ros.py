"""The node under load against a subscriber that does nothing: same camera, same time, same machine.

    python benchmarks/ros.py --json                       # 640x480 and 1920x1080 at 30 Hz, 60 s each
    python benchmarks/ros.py --sizes 640x480 --seconds 10

Three processes over DDS on loopback, with the shared-memory profile that goalreel ships: a camera, a bare
rclpy subscriber, and the goalreel node, which carries out tasks all the while, with models that take
--model-seconds for a plan and an edit. Latency runs from just before `publish` to the callback's first line.

Keys of --json, by size in `sizes`: `p99_ratio` (latency, the node's over the bare subscriber's), `p99_ms`,
`bare_p99_ms`, `median_ms`, `bare_median_ms`, `stale_frames` (looks at a frame more than 1.5 frame periods
older than the newest one the bare subscriber had at that moment), `looks`, `oldest_ms`, `received`,
`bare_received`, `sent` (frames due), `memory_growth_mib` (last quarter over second quarter, median),
`memory_mib`, `cpu` (of one core), `bare_cpu`, `model_calls`. At the top: `p99_ratio` and `stale_frames`, the
worst of all sizes, and `seconds` a size.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import rclpy
from common import argument_parser, parse, report
from numpy.typing import NDArray
from rclpy.executors import SingleThreadedExecutor

from goalreel_interfaces.msg import StoryboardProgress
from goalreel_interfaces.srv import StartExecuteTask

HERE = Path(__file__).parent
PROFILE = HERE.parent / "launch" / "fastdds_shm.xml"
PARTS = HERE / "parts" / "ros.py"
RATE = 30.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
BUSY = (1, 2, 4, 5)
"""States of a task under way: PLANNING, RENDERING, EXECUTING, PAUSED."""
PLANNED = {2, 4}
PATIENCE = 60.0


class Usage:
    """CPU time and memory of a process, read from /proc."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start, self._cpu_at_start = time.monotonic(), self._cpu_seconds()
        self.memory: list[float] = []
        """MiB, a value a sample."""

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def sample(self) -> None:
        """Note the resident memory."""
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        self.memory.append(pages * PAGE / 2**20)

    def cpu(self) -> float:
        """Compute the share of one core since the start."""
        return (self._cpu_seconds() - self._cpu_at_start) / (time.monotonic() - self._start)

    def growth(self) -> float:
        """MiB, the last quarter of the samples over the second."""
        quarter = len(self.memory) // 4
        second, last = self.memory[quarter : 2 * quarter], self.memory[-quarter:]
        return statistics.median(last) - statistics.median(second) if quarter else 0.0


class Load:
    """A client that gives the node tasks."""

    def __init__(self) -> None:
        self._node = rclpy.create_node("load")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._start = self._node.create_client(StartExecuteTask, "/goalreel/start/execute_task")
        self._states: list[int] = []
        self._node.create_subscription(
            StoryboardProgress, "/goalreel/progress", lambda m: self._states.append(m.state), 10
        )

    def close(self) -> None:
        """Leave the graph."""
        self._executor.shutdown()
        self._node.destroy_node()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Spin until the condition holds; end the benchmark if it does not within PATIENCE seconds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            self._executor.spin_once(timeout_sec=0.1)
            if time.monotonic() > end:
                sys.exit("the node did not come up")

    def wait_for_processes(self) -> None:
        """Wait until camera, node and bare subscriber have found one another."""
        graph = self._node
        self.wait(
            lambda: (
                self._start.service_is_ready()
                and graph.count_publishers("image") == 1
                and graph.count_subscribers("image") == 2
            )
        )

    def keep_busy(self, seconds: float, usage: Usage) -> None:
        """Start a new task whenever none is under way, until one has a plan and the time is over."""
        end, due = time.monotonic() + seconds, 0.0

        def drive() -> bool:
            nonlocal due
            now = time.monotonic()
            if now >= due:
                usage.sample()
                due = now + 1.0
                if not self._states or self._states[-1] not in BUSY:
                    self._start.call_async(StartExecuteTask.Request(task="sort the blocks", max_replans=3))
            return now >= end

        while not drive():
            self._executor.spin_once(timeout_sec=0.2)
        self.wait(lambda: drive() and bool(PLANNED.intersection(self._states)))


def measure(size: str, options: argparse.Namespace, folder: Path) -> dict[str, float | int]:
    """Run the three processes at one size; sample for `options.seconds`."""
    python, files = sys.executable, {n: folder / f"{n}-{size}.json" for n in ("bare", "node")}
    settings = ["preset:=server", "autostart:=true", "max_replans:=3", "stall_timeout:=5.0"]
    arguments = ["--ros-args", *(word for s in settings for word in ("-p", s))]
    with contextlib.ExitStack() as stack:

        def launch(*command: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([python, str(PARTS), *command])
            stack.callback(stop, process)
            return process

        bare = launch("bare", str(files["bare"]))
        node = launch("node", str(files["node"]), str(options.model_seconds), *arguments)
        launch("camera", size, str(RATE))
        load = Load()
        stack.callback(load.close)
        load.wait_for_processes()
        time.sleep(options.warm_up)
        start, usage, bare_usage = time.time_ns(), Usage(node.pid), Usage(bare.pid)
        load.keep_busy(options.seconds, usage)
        cpu, bare_cpu, end = usage.cpu(), bare_usage.cpu(), time.time_ns()
    logs = {name: json.loads(file.read_text()) for name, file in files.items()}

    def measured(rows: list[list[int]]) -> NDArray[np.int64]:
        """Keep (stamp, clock) in ns, (n, 2), of the time that is measured."""
        return np.array([r for r in rows if start <= r[0] and r[1] <= end], np.int64).reshape(-1, 2)

    arrivals, bare_arrivals = measured(logs["node"]["arrivals"]), measured(logs["bare"]["arrivals"])
    uses = measured(logs["node"]["uses"])
    if not len(arrivals) or not len(bare_arrivals) or not len(uses):
        counts = len(arrivals), len(bare_arrivals), len(uses)
        sys.exit(f"{size}: nothing arrived (node {counts[0]}, bare {counts[1]}, looks {counts[2]})")
    ages, bare_ages, looks = (age(rows) for rows in (arrivals, bare_arrivals, uses))
    p99, bare_p99 = (float(np.percentile(rows, 99)) for rows in (ages, bare_ages))
    return {
        "p99_ratio": round(p99 / bare_p99, 3),
        "p99_ms": round(p99, 2),
        "bare_p99_ms": round(bare_p99, 2),
        "median_ms": round(float(np.median(ages)), 2),
        "bare_median_ms": round(float(np.median(bare_ages)), 2),
        "stale_frames": stale(uses, bare_arrivals),
        "looks": len(looks),
        "oldest_ms": round(float(looks.max()), 1),
        "received": len(ages),
        "bare_received": len(bare_ages),
        "sent": round(options.seconds * RATE),
        "memory_growth_mib": round(usage.growth(), 1),
        "memory_mib": round(usage.memory[-1], 1),
        "cpu": round(cpu, 3),
        "bare_cpu": round(bare_cpu, 3),
        "model_calls": logs["node"]["model_calls"],
    }


def age(rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the milliseconds between stamp and clock, (n,)."""
    return (rows[:, 1] - rows[:, 0]) / 1e6


def stale(uses: NDArray[np.int64], bare: NDArray[np.int64]) -> int:
    """Count looks at a frame more than 1.5 periods older than what the bare subscriber had just then."""
    newest = np.maximum.accumulate(bare[:, 0])
    index = np.searchsorted(bare[:, 1], uses[:, 1], side="right") - 1
    lag = newest[np.maximum(index, 0)] - uses[:, 0]
    return int((lag > 1.5e9 / RATE)[index >= 0].sum())


def stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process, and kill it if that takes longer than ten seconds."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["640x480", "1920x1080"])
    parser.add_argument("--seconds", type=float, default=60.0, help="measured, a size")
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds before")
    parser.add_argument("--model-seconds", type=float, default=2.0, help="of a plan and of an edit")
    options = parse(parser, argv, sizes=["64x48"], seconds=0.5, warm_up=0.0, model_seconds=0.1)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    os.environ["FASTDDS_DEFAULT_PROFILES_FILE"] = str(PROFILE)
    with tempfile.TemporaryDirectory() as folder, rclpy.init():
        sizes = {size: measure(size, options, Path(folder)) for size in options.sizes}
    worst = {
        "p99_ratio": max(s["p99_ratio"] for s in sizes.values()),
        "stale_frames": sum(s["stale_frames"] for s in sizes.values()),
        "seconds": options.seconds,
    }
    report(worst | {"sizes": sizes}, options.json)


if __name__ == "__main__":
    main()
