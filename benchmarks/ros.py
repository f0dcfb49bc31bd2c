"""The node under load against a subscriber that does nothing: same camera, same time, same machine.

    python benchmarks/ros.py --json                       # 640x480 and 1920x1080 at 30 Hz, 60 s each
    python benchmarks/ros.py --sizes 640x480 --seconds 10

Three processes over DDS on loopback, with the shared-memory profile that goalreel ships: a camera, a bare
rclpy subscriber, and the goalreel node, which all the while carries out tasks with models that take 2 s a
plan and an edit. Latency is from just before `publish` to the first line of the callback.

Keys of --json, by size: `p99_ratio` (latency, the node's over the bare subscriber's), `p99_ms`,
`bare_p99_ms`, `median_ms`, `bare_median_ms`, `stale_frames` (looks at a frame more than 1.5 frame periods
older than the newest one the bare subscriber had at that moment), `looks`, `oldest_ms`, `received`,
`bare_received`, `sent` (frames due), `memory_growth_mib` (last quarter over second quarter, median),
`memory_mib`, `cpu` (of one core), `bare_cpu`, `model_calls`. At the top: `p99_ratio` and `stale_frames`, the
worst of all sizes.
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
from pathlib import Path

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor

from goalreel_interfaces.msg import StoryboardProgress
from goalreel_interfaces.srv import StartAnnotateTask

HERE = Path(__file__).parent
PROFILE = HERE.parent / "launch" / "fastdds_shm.xml"
PARTS = HERE / "parts" / "ros.py"
WARM_UP = 3.0
RATE = 30.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage:
    """CPU and memory of a process, read from /proc."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began, self._first = time.monotonic(), self._cpu()
        self.memory: list[float] = []

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def sample(self) -> None:
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        self.memory.append(pages * PAGE / 2**20)

    def cpu(self) -> float:
        return (self._cpu() - self._first) / (time.monotonic() - self._began)

    def growth(self) -> float:
        quarter = len(self.memory) // 4
        second, last = self.memory[quarter : 2 * quarter], self.memory[-quarter:]
        return statistics.median(last) - statistics.median(second) if quarter else 0.0


def keep_busy(seconds: float, node: Usage, bare: Usage) -> float:
    """Ask for a new task whenever none is under way; the bare subscriber's share of a core."""
    client = rclpy.create_node("load")
    executor = SingleThreadedExecutor()
    executor.add_node(client)
    start = client.create_client(StartAnnotateTask, "/goalreel/start/annotate_task")
    if not start.wait_for_service(timeout_sec=20):
        sys.exit("the node did not come up")
    busy = (1, 2, 4, 5)  # PLANNING, RENDERING, EXECUTING, PAUSED
    state = [0]
    client.create_subscription(
        StoryboardProgress, "/goalreel/progress", lambda m: state.__setitem__(0, m.state), 10
    )
    end, due = time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < end:
        executor.spin_once(timeout_sec=0.2)
        if now >= due:
            node.sample()
            due = now + 1.0
            if state[0] not in busy:
                start.call_async(StartAnnotateTask.Request(task="sort the blocks", max_replans=3))
    share = bare.cpu()
    executor.shutdown()
    client.destroy_node()
    return share


def measure(size: str, seconds: float, folder: Path) -> dict[str, float | int]:
    """One size."""
    python, files = sys.executable, {n: folder / f"{n}-{size}.json" for n in ("bare", "node")}
    settings = ["preset:=server", "autostart:=true", "max_replans:=3", "stall_timeout:=5.0"]
    arguments = ["--ros-args", *(word for s in settings for word in ("-p", s))]
    with contextlib.ExitStack() as stack:

        def launch(*command: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([python, str(PARTS), *command])
            stack.callback(stop, process)
            return process

        bare = launch("bare", str(files["bare"]))
        node = launch("node", str(files["node"]), *arguments)
        launch("camera", size, str(RATE))
        time.sleep(WARM_UP + 5)
        began = time.time_ns()
        watched = Usage(node.pid)
        bare_cpu = keep_busy(seconds, watched, Usage(bare.pid))
        cpu, ended = watched.cpu(), time.time_ns()
    seen = {name: json.loads(file.read_text()) for name, file in files.items()}

    def within(rows: list[list[int]]) -> np.ndarray:
        """(stamp, clock) in ns, (n, 2), of what happened while it was measured."""
        kept = [r for r in rows if began <= r[0] and r[1] <= ended]
        return np.array(kept, np.int64).reshape(-1, 2)

    arrivals, bare_arrivals = within(seen["node"]["arrivals"]), within(seen["bare"]["arrivals"])
    uses = within(seen["node"]["uses"])
    if not len(arrivals) or not len(bare_arrivals) or not len(uses):
        counts = len(arrivals), len(bare_arrivals), len(uses)
        sys.exit(f"{size}: nothing arrived (node {counts[0]}, bare {counts[1]}, looks {counts[2]})")
    ours, theirs, looks = (age(rows) for rows in (arrivals, bare_arrivals, uses))
    bare_p99 = float(np.percentile(theirs, 99))
    return {
        "p99_ratio": round(float(np.percentile(ours, 99)) / bare_p99, 3),
        "p99_ms": round(float(np.percentile(ours, 99)), 2),
        "bare_p99_ms": round(bare_p99, 2),
        "median_ms": round(float(np.median(ours)), 2),
        "bare_median_ms": round(float(np.median(theirs)), 2),
        "stale_frames": stale(uses, bare_arrivals),
        "looks": len(looks),
        "oldest_ms": round(float(looks.max()), 1),
        "received": len(ours),
        "bare_received": len(theirs),
        "sent": round(seconds * RATE),
        "memory_growth_mib": round(watched.growth(), 1),
        "memory_mib": round(watched.memory[-1], 1),
        "cpu": round(cpu, 3),
        "bare_cpu": round(bare_cpu, 3),
        "model_calls": seen["node"]["model_calls"],
    }


def age(rows: np.ndarray) -> np.ndarray:
    """Milliseconds between stamp and clock."""
    return (rows[:, 1] - rows[:, 0]) / 1e6


def stale(uses: np.ndarray, bare: np.ndarray) -> int:
    """Looks at a frame more than 1.5 periods older than what the bare subscriber had just then."""
    newest = np.maximum.accumulate(bare[:, 0])
    had = np.searchsorted(bare[:, 1], uses[:, 1], side="right") - 1
    behind = newest[np.maximum(had, 0)] - uses[:, 0]
    return int((behind > 1.5e9 / RATE)[had >= 0].sum())


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["640x480", "1920x1080"])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    os.environ["FASTDDS_DEFAULT_PROFILES_FILE"] = str(PROFILE)
    rclpy.init()
    with tempfile.TemporaryDirectory() as folder:
        sizes = {size: measure(size, options.seconds, Path(folder)) for size in options.sizes}
    rclpy.try_shutdown()
    result = {
        "p99_ratio": max(s["p99_ratio"] for s in sizes.values()),
        "stale_frames": sum(s["stale_frames"] for s in sizes.values()),
        "seconds": options.seconds,
        "sizes": sizes,
    }
    if options.json:
        print(json.dumps(result))
        return
    for size, numbers in sizes.items():
        print(size)
        for key, value in numbers.items():
            print(f"  {key:20} {value}")


if __name__ == "__main__":
    main()
