"""The node under load against a subscriber that does nothing: in turn, with the same camera.

    python benchmarks/ros.py --json                       # 640x480 and 1920x1080 at 30 Hz, 6 rounds each
    python benchmarks/ros.py --rounds 8 --seconds 15      # narrower intervals: 36 minutes

All takes four minutes of a machine that does nothing else. Three processes over DDS on loopback, with the
shared-memory profile that goalreel ships: a camera, a bare rclpy subscriber, and the goalreel node, which
carries out tasks all the while, with models that take --model-seconds for a plan and an edit. Latency runs
from just before `publish` to the callback's first line.

A round runs the bare subscriber alone for --seconds and the node alone for as long, in changing order, so
that neither takes the other's processor.

Keys of --json, by size in `sizes`: `p99_ratio` (latency, the node's over the bare subscriber's of the round,
geometric mean), `p99_ratio_interval` (95 %, by Student's t over the rounds, of which it takes two), and a
value a round: `p99_ms`, `bare_p99_ms`, `cpu` (of one core), `bare_cpu`. At the top: `p99_ratio` and
`p99_ratio_interval` of the size whose interval ends highest, `seconds` and `rounds`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from common import ROOT, argument_parser, parse, report
from rclpy.executors import SingleThreadedExecutor
from scipy.stats import t

from goalreel_interfaces.msg import StoryboardProgress
from goalreel_interfaces.srv import StartExecuteTask

PROCESSES = Path(__file__).with_name("parts") / "ros.py"
RATE = 30.0
BUSY, PLANNED = {1, 2, 4, 5}, {2, 4}
"""States of a task under way: PLANNING, RENDERING, EXECUTING, PAUSED; and of one with a plan."""
PATIENCE = 60.0


class CpuClock:
    """CPU time of a process, read from /proc."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start, self._cpu_at_start = time.monotonic(), self._cpu_seconds()

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def share(self) -> float:
        """Compute the share of one core since the start."""
        return (self._cpu_seconds() - self._cpu_at_start) / (time.monotonic() - self._start)


class Round(contextlib.ExitStack):
    """A part of a round: its processes, and a client that gives the node tasks; all end with it."""

    def __init__(self) -> None:
        super().__init__()
        self._node = rclpy.create_node("load")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._start = self._node.create_client(StartExecuteTask, "/goalreel/start/execute_task")
        self._states: list[int] = []
        self._node.create_subscription(
            StoryboardProgress, "/goalreel/progress", lambda m: self._states.append(m.state), 10
        )
        self.callback(self._node.destroy_node)
        self.callback(self._executor.shutdown)

    def launch(self, log: Path, warm_up: float, *command: str) -> int:
        """Start a process, wait until frames arrive at it, and for the warm-up; gives its id."""
        process = subprocess.Popen([sys.executable, str(PROCESSES), command[0], str(log), *command[1:]])
        self.callback(stop, process)
        self.wait(
            lambda: (
                (command[0] != "node" or self._start.service_is_ready())
                and self._node.count_publishers("image") == 1
                and log.with_suffix(".started").exists()
            )
        )
        log.with_suffix(".started").unlink()
        time.sleep(warm_up)
        return process.pid

    def wait(self, condition: Callable[[], bool]) -> None:
        """Spin until the condition holds; end the benchmark if it does not within PATIENCE seconds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            self._executor.spin_once(timeout_sec=0.1)
            if time.monotonic() > end:
                sys.exit("the node did not come up")

    def keep_busy(self, seconds: float) -> None:
        """Start a new task whenever none is under way, until one has a plan and the time is over."""
        end, due = time.monotonic() + seconds, 0.0

        def drive() -> bool:
            nonlocal due
            now = time.monotonic()
            if now >= due:
                due = now + 1.0
                if not self._states or self._states[-1] not in BUSY:
                    self._start.call_async(StartExecuteTask.Request(task="sort the blocks", max_replans=3))
            return now >= end

        self._states.clear()  # the plan, and with it a look at the camera, has to be of this time
        while not drive():
            self._executor.spin_once(timeout_sec=0.2)
        self.wait(lambda: drive() and bool(PLANNED.intersection(self._states)))


def run_bare(folder: Path, seconds: float, warm_up: float) -> dict[str, float]:
    """Measure the bare subscriber alone."""
    log = folder / "bare.json"
    with Round() as part:
        clock = CpuClock(part.launch(log, warm_up, "bare"))
        start = time.time_ns()
        time.sleep(seconds)
        window, cpu = (start, time.time_ns()), clock.share()
    return {"bare_p99_ms": p99_ms(window, log), "bare_cpu": cpu}


def run_node(folder: Path, seconds: float, warm_up: float, model_seconds: float) -> dict[str, float]:
    """Measure the node alone."""
    log = folder / "node.json"
    settings = ("preset:=server", "autostart:=true", "max_replans:=3", "stall_timeout:=5.0")
    with Round() as part:
        words = (word for setting in settings for word in ("-p", setting))
        clock = CpuClock(part.launch(log, warm_up, "node", str(model_seconds), "--ros-args", *words))
        start = time.time_ns()
        part.keep_busy(seconds)
        window, cpu = (start, time.time_ns()), clock.share()
    return {"p99_ms": p99_ms(window, log), "cpu": cpu}


def p99_ms(window: tuple[int, int], log: Path) -> float:
    """Compute the 99th percentile of the latency of what was stamped and arrived in a time (ns)."""
    start, end = window
    ages = [clock - stamp for stamp, clock in json.loads(log.read_text()) if start <= stamp and clock <= end]
    return float(np.percentile(ages, 99)) / 1e6 if ages else sys.exit("no frames arrived")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process, and kill it if that takes longer than ten seconds."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compute the keys of a size from those of its rounds."""
    logs = np.log([r["p99_ms"] / r["bare_p99_ms"] for r in rounds])
    error = logs.std(ddof=1) / len(logs) ** 0.5
    ends = np.exp(logs.mean() + error * t.ppf((0.5, 0.025, 0.975), len(logs) - 1))
    ratio, *interval = ends.round(3).tolist()
    return {
        "p99_ratio": ratio,
        "p99_ratio_interval": interval,
        **{key: [round(r[key], 3) for r in rounds] for key in rounds[0]},
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--sizes", nargs="+", default=["640x480", "1920x1080"])
    parser.add_argument("--seconds", type=float, default=6.0, help="measured, a part of a round")
    parser.add_argument("--rounds", type=int, default=6, help="a size")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds before")
    parser.add_argument("--model-seconds", type=float, default=2.0, help="of a plan and of an edit")
    smoke = {"seconds": 0.5, "rounds": 2, "warm_up": 0.0, "model_seconds": 0.1}
    options = parse(parser, argv, sizes=["64x48"], **smoke)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    os.environ["FASTDDS_DEFAULT_PROFILES_FILE"] = str(ROOT / "launch" / "fastdds_shm.xml")
    sizes: dict[str, dict[str, Any]] = {}
    with rclpy.init(), tempfile.TemporaryDirectory() as name:
        folder, times = Path(name), (options.seconds, options.warm_up)
        for size in options.sizes:
            camera = subprocess.Popen([sys.executable, str(PROCESSES), "camera", size, str(RATE)])
            try:
                rounds = []
                for number in range(options.rounds):
                    parts = (
                        lambda: run_bare(folder, *times),
                        lambda: run_node(folder, *times, options.model_seconds),
                    )
                    first, second = (run() for run in (parts if number % 2 == 0 else parts[::-1]))
                    rounds.append(first | second)
            finally:
                stop(camera)
            sizes[size] = summary(rounds)
    worst = max(sizes.values(), key=lambda size: size["p99_ratio_interval"][1])
    top = {key: worst[key] for key in ("p99_ratio", "p99_ratio_interval")}
    report(top | {"seconds": options.seconds, "rounds": options.rounds, "sizes": sizes}, options.json)


if __name__ == "__main__":
    main()
