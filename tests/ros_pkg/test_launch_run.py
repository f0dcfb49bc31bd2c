"""The launch files run, where ROS's own `ros2 launch` is at hand and a built workspace is sourced."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.ros import ENV
from support.wait import until

from goalreel_ros.client import GoalreelClient


def _missing() -> str:
    """Say why they cannot run here, or nothing."""
    if shutil.which("ros2") is None:
        return "needs ros2 launch, which is no wheel: source a ROS 2 installation"
    found = subprocess.run(["ros2", "pkg", "prefix", "goalreel_ros"], capture_output=True)
    return "needs goalreel_ros in a sourced workspace: scripts/colcon_packages.sh" if found.returncode else ""


pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.skipif(bool(why := _missing()), reason=why)]


@contextmanager
def launched(file: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`ros2 launch` of one of our files, and what it has said so far."""
    process = subprocess.Popen(
        ["ros2", "launch", "goalreel_ros", file, *arguments],
        env=os.environ | ENV,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:  # a failed test: launch, not a kill, ends the nodes
            process.send_signal(signal.SIGINT)
            process.wait(60)
        reader.join(10)


def _ends_cleanly(process: subprocess.Popen[str], lines: list[str]) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0, "".join(lines)
    assert not re.search("Traceback|process has died", "".join(lines)), "".join(lines)


def test_the_node_starts_with_the_models_that_are_named_and_ends_on_ctrl_c():
    with launched("goalreel.launch.py", "namespace:=robot1", "preset:=server", "autostart:=false") as (
        process,
        lines,
    ):
        with GoalreelClient(server="/robot1/goalreel", timeout=60, args=[]) as client:
            client.lifecycle.configure()
        _ends_cleanly(process, lines)


def test_the_tabletop_carries_its_task_out():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with launched("tabletop.launch.py", "namespace:=robot2", f"port:={port}") as (process, lines):
        until(lambda: re.search(r"ready: (['\"])(.+)\1, models at", "".join(lines)), 60)
        instruction = re.search(r"ready: (['\"])(.+)\1, models at", "".join(lines))[2]
        with GoalreelClient(server="/robot2/goalreel", timeout=60, args=[]) as client:
            client.wait_until_active(60)
            task = client.execute(instruction)
            assert client.wait_for_subgoal(60).active
            task.result(300)
        _ends_cleanly(process, lines)
