"""One round of `benchmarks/ros.py`: the bare subscriber alone, the node alone, and both together."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rclpy
from numpy.typing import NDArray
from rclpy.executors import SingleThreadedExecutor

from goalreel_interfaces.msg import StoryboardProgress
from goalreel_interfaces.srv import StartExecuteTask

PROCESSES = Path(__file__).with_name("ros.py")
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

    def wait_for_processes(self, subscribers: int, *, node: bool) -> None:
        """Wait until the camera and so many subscribers have found one another."""
        graph = self._node
        self.wait(
            lambda: (
                (not node or self._start.service_is_ready())
                and graph.count_publishers("image") == 1
                and graph.count_subscribers("image") == subscribers
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

        self._states.clear()  # the plan, and with it a look at the camera, has to be of this time
        while not drive():
            self._executor.spin_once(timeout_sec=0.2)
        self.wait(lambda: drive() and bool(PLANNED.intersection(self._states)))


@dataclass(frozen=True)
class Window:
    """A time that is measured, in ns of the wall clock."""

    start: int
    end: int

    def of(self, rows: list[list[int]]) -> NDArray[np.int64]:
        """Keep (stamp, clock) in ns, (n, 2), of that time; end the benchmark if nothing is left."""
        inside = np.array([r for r in rows if self.start <= r[0] and r[1] <= self.end], np.int64).reshape(
            -1, 2
        )
        return inside if len(inside) else sys.exit("no frames arrived")


class Runner:
    """Runs rounds at one size of frames, WxH, while the camera runs. Times are in seconds."""

    def __init__(self, size: str, seconds: float, warm_up: float, model_seconds: float, folder: Path) -> None:
        self._size, self._folder = size, folder
        self._seconds, self._warm_up, self._model_seconds = seconds, warm_up, model_seconds

    @contextlib.contextmanager
    def camera(self) -> Iterator[None]:
        """Run the camera."""
        with contextlib.ExitStack() as stack:
            self.launch(stack, "camera", self._size, str(RATE))
            yield

    def run(self, number: int) -> dict[str, float]:
        """Measure the round of that number: of every second one, the node comes first."""
        parts = self.run_bare, self.run_node
        results = [part() for part in (parts if number % 2 == 0 else reversed(parts))]
        return {key: value for result in results for key, value in result.items()}

    def launch(self, stack: contextlib.ExitStack, *command: str) -> subprocess.Popen[bytes]:
        """Start a part, which the stack ends."""
        process = subprocess.Popen([sys.executable, str(PROCESSES), *command])
        stack.callback(stop, process)
        return process

    def wait_for_frames(self, load: Load, log: Path) -> None:
        """Wait until frames arrive at a part, and for the warm-up."""
        load.wait(log.with_suffix(".started").exists)
        log.with_suffix(".started").unlink()
        time.sleep(self._warm_up)

    def run_bare(self) -> dict[str, float]:
        """Measure the bare subscriber alone."""
        log = self._folder / "bare.json"
        with contextlib.ExitStack() as stack:
            load = Load()
            stack.callback(load.close)
            bare = self.launch(stack, "bare", str(log))
            load.wait_for_processes(1, node=False)
            self.wait_for_frames(load, log)
            start, usage = time.time_ns(), Usage(bare.pid)
            time.sleep(self._seconds)
            window, cpu = Window(start, time.time_ns()), usage.cpu()
        ages = age(window.of(json.loads(log.read_text())["arrivals"]))
        return {
            "bare_p99_ms": p99(ages),
            "bare_median_ms": float(np.median(ages)),
            "bare_cpu": cpu,
            "bare_received": len(ages),
        }

    def run_node(self) -> dict[str, float]:
        """Measure the node alone, then look for old frames with the bare subscriber beside it."""
        log, reference = self._folder / "node.json", self._folder / "reference.json"
        settings = ["preset:=server", "autostart:=true", "max_replans:=3", "stall_timeout:=5.0"]
        arguments = ["--ros-args", *(word for s in settings for word in ("-p", s))]
        with contextlib.ExitStack() as stack:
            load = Load()
            stack.callback(load.close)
            node = self.launch(stack, "node", str(log), str(self._model_seconds), *arguments)
            load.wait_for_processes(1, node=True)
            self.wait_for_frames(load, log)
            start, usage = time.time_ns(), Usage(node.pid)
            load.keep_busy(self._seconds, usage)
            alone, cpu = Window(start, time.time_ns()), usage.cpu()
            self.launch(stack, "bare", str(reference))
            load.wait_for_processes(2, node=True)
            self.wait_for_frames(load, reference)
            start = time.time_ns()
            load.keep_busy(self._seconds, usage)
            together = Window(start, time.time_ns())
        rows, bare = json.loads(log.read_text()), json.loads(reference.read_text())
        ages, uses = age(alone.of(rows["arrivals"])), together.of(rows["uses"])
        return {
            "p99_ms": p99(ages),
            "median_ms": float(np.median(ages)),
            "cpu": cpu,
            "received": len(ages),
            "stale_frames": stale(uses, together.of(bare["arrivals"])),
            "looks": len(uses),
            "oldest_ms": float(age(uses).max()),
            "memory_growth_mib": usage.growth(),
            "memory_mib": usage.memory[-1],
            "model_calls": rows["model_calls"],
        }


def p99(ages: NDArray[np.float64]) -> float:
    """Compute the 99th percentile."""
    return float(np.percentile(ages, 99))


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
