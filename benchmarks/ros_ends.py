"""How soon the node lets go: of a goal that is cancelled, and of everything on a signal.

    python benchmarks/ros_ends.py --json

The real node in a process of its own, and a planner behind HTTP that has not answered yet. Keys of --json:
`cancel_ms`, from the request to cancel to its acknowledgement, median and worst of `cancels`; `end_s`, from
SIGINT or SIGTERM to the end of the process, median and worst of `ends`; `bad_ends`, how many of those had an
exit status other than 0.
"""

import argparse
import http.server
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import rclpy
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage

from goalreel.image import Image
from goalreel_interfaces.action import GenerateStoryboard

PATIENCE = 60.0
REPLY = {"id": "0", "object": "chat.completion", "created": 0, "model": "slow"}
REPLY |= {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "?"}}]
}


class Slow(http.server.BaseHTTPRequestHandler):
    """A planner that answers when it may."""

    asked, may = threading.Semaphore(0), threading.Semaphore(0)

    def do_POST(self) -> None:
        Slow.asked.release()
        Slow.may.acquire()
        data = json.dumps(REPLY).encode()
        with suppress(BrokenPipeError):  # who asked has ended
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Asking:
    """A client of the node, which spins while it waits."""

    def __init__(self) -> None:
        self._node = Node("ros_ends")
        self.client = ActionClient(self._node, GenerateStoryboard, "/goalreel/generate_storyboard")
        png = Image(np.full((48, 64, 3), 90, np.uint8)).png()
        self._picture = CompressedImage(format="png", data=array("B", png))

    def wait(self, there: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not there():
            rclpy.spin_once(self._node, timeout_sec=0.01)
            if time.monotonic() > end:
                sys.exit("the node did not answer")

    def done(self, future: Future) -> Any:
        self.wait(future.done)
        return future.result()

    def ask(self) -> Any:
        """A goal whose plan the planner has been asked for."""
        self.wait(self.client.server_is_ready)
        goal = GenerateStoryboard.Goal(task="tidy up", text_only=True, image=[self._picture])
        while True:
            handle = self.done(self.client.send_goal_async(goal))
            result = handle.get_result_async()
            self.wait(lambda: Slow.asked.acquire(blocking=False) or result.done())  # noqa: B023
            if not result.done():
                return handle
            time.sleep(0.1)  # it was not active yet


@contextmanager
def running(asking: Asking, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A node, until it has ended and the client knows that."""
    models = [f"{role}:=server:{url}" for role in ("planner", "editor", "critic")]
    given = [word for value in ("preset:=server", *models) for word in ("-p", value)]
    command = [sys.executable, "-m", "goalreel_ros.main", "--ros-args", "--log-level", "error", *given]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
    asking.wait(lambda: not asking.client.server_is_ready())


def cancels(asking: Asking, url: str, count: int) -> list[float]:
    """Milliseconds each."""
    took = []
    with running(asking, url):
        for _ in range(count):
            handle = asking.ask()
            began = time.perf_counter()
            asking.done(handle.cancel_goal_async())
            took.append(1e3 * (time.perf_counter() - began))
            asking.done(handle.get_result_async())
            Slow.may.release()
    return took


def ends(asking: Asking, url: str, count: int) -> tuple[list[float], int]:
    """Seconds each, and how many ended with another status than 0."""
    took, bad = [], 0
    for i in range(count):
        with running(asking, url) as process:
            asking.ask()
            began = time.perf_counter()
            process.send_signal((signal.SIGINT, signal.SIGTERM)[i % 2])
            bad += process.wait(PATIENCE) != 0
            took.append(time.perf_counter() - began)
        Slow.may.release()
    return took, bad


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cancels", type=int, default=30)
    parser.add_argument("--ends", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with rclpy.init():
        asking = Asking()
        cancelled = cancels(asking, url, options.cancels)
        ended, bad = ends(asking, url, options.ends)
    result = {
        "cancel_ms": [round(f(cancelled), 1) for f in (statistics.median, max)],
        "cancels": len(cancelled),
        "end_s": [round(f(ended), 2) for f in (statistics.median, max)],
        "ends": len(ended),
        "bad_ends": bad,
    }
    if options.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:10} {value}")


if __name__ == "__main__":
    main()
