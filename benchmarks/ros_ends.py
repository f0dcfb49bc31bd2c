"""How soon the node lets go: of a goal that is cancelled, and of everything on a signal.

    python benchmarks/ros_ends.py --json

The real node runs in a process of its own, before a planner behind HTTP that has not answered yet.

Keys of --json: `cancel_ms`, from the request to cancel to its acknowledgement, median and worst of `cancels`;
`end_s`, from SIGINT or SIGTERM to the end of the process, median and worst of `ends`; `bad_ends`, how many of
those had an exit status other than 0.
"""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import rclpy
from common import JsonServer, argument_parser, chat_completion, parse, report
from rclpy.action.client import ActionClient
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage

from goalreel.image import Image
from goalreel_interfaces.action import GenerateStoryboard

PATIENCE = 60.0


class HeldPlanner:
    """A chat model that answers a request when it is released."""

    def __init__(self) -> None:
        self._requests, self._answers = threading.Semaphore(0), threading.Semaphore(0)

    def reply(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer once `release` is called."""
        self._requests.release()
        self._answers.acquire()
        return 200, chat_completion("?")

    def has_request(self) -> bool:
        """Tell whether a request has come since the last time this was true."""
        return self._requests.acquire(blocking=False)

    def release(self) -> None:
        """Let one request be answered."""
        self._answers.release()


class Client:
    """A client of the node, which spins while it waits."""

    def __init__(self, planner: HeldPlanner) -> None:
        self._planner = planner
        self._node = Node("ros_ends")
        self.actions = ActionClient(self._node, GenerateStoryboard, "/goalreel/generate_storyboard")
        png = Image(np.full((48, 64, 3), 90, np.uint8)).png()
        self._picture = CompressedImage(format="png", data=array("B", png))

    def wait(self, condition: Callable[[], bool]) -> None:
        """Spin until the condition holds; end the benchmark if it does not within PATIENCE seconds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            rclpy.spin_once(self._node, timeout_sec=0.01)
            if time.monotonic() > end:
                sys.exit("the node did not answer")

    def result(self, future: Future) -> Any:
        """Wait for a future's result."""
        self.wait(future.done)
        return future.result()

    def start_goal(self) -> Any:
        """Start a goal, and wait until the planner has been asked for its plan."""
        self.wait(self.actions.server_is_ready)
        goal = GenerateStoryboard.Goal(task="tidy up", text_only=True, image=[self._picture])
        while True:
            handle = self.result(self.actions.send_goal_async(goal))
            result = handle.get_result_async()
            self.wait(lambda result=result: self._planner.has_request() or result.done())
            if not result.done():
                return handle
            time.sleep(0.1)  # the node was not active yet


@contextmanager
def running_node(client: Client, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a node until it has ended and the client has noticed."""
    models = [f"{role}:=server:{url}" for role in ("planner", "editor", "critic")]
    parameters = [word for value in ("preset:=server", *models) for word in ("-p", value)]
    command = [sys.executable, "-m", "goalreel_ros.main", "--ros-args", "--log-level", "error", *parameters]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
    client.wait(lambda: not client.actions.server_is_ready())


def time_cancels(client: Client, planner: HeldPlanner, count: int) -> list[float]:
    """Cancel goals; milliseconds each."""
    times = []
    for _ in range(count):
        handle = client.start_goal()
        start = time.perf_counter()
        client.result(handle.cancel_goal_async())
        times.append(1e3 * (time.perf_counter() - start))
        client.result(handle.get_result_async())
        planner.release()
    return times


def time_end(client: Client, planner: HeldPlanner, process: subprocess.Popen[bytes], how: int) -> float:
    """End a node by a signal while its planner is busy; seconds."""
    client.start_goal()
    start = time.perf_counter()
    process.send_signal(how)
    process.wait(PATIENCE)
    seconds = time.perf_counter() - start
    planner.release()
    return seconds


def measure(cancels: int, ends: int) -> dict[str, object]:
    """Cancel goals of the first node, then end that one and others by turns of the two signals."""
    planner = HeldPlanner()
    cancel_ms: list[float] = []
    end_s: list[float] = []
    bad = 0
    with JsonServer(planner.reply) as server, rclpy.init():
        client = Client(planner)
        for i in range(ends):
            with running_node(client, server.url) as process:
                cancel_ms += time_cancels(client, planner, 0 if i else cancels)
                end_s.append(time_end(client, planner, process, (signal.SIGINT, signal.SIGTERM)[i % 2]))
            bad += process.returncode != 0
    return {
        "cancel_ms": [round(f(cancel_ms), 1) for f in (statistics.median, max)],
        "cancels": len(cancel_ms),
        "end_s": [round(f(end_s), 2) for f in (statistics.median, max)],
        "ends": len(end_s),
        "bad_ends": bad,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--cancels", type=int, default=30)
    parser.add_argument("--ends", type=int, default=10)
    options = parse(parser, argv, cancels=1, ends=1)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    report(measure(options.cancels, options.ends), options.json)


if __name__ == "__main__":
    main()
