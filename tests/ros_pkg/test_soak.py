"""Task after task: the node's memory, threads and open files stay what they were.

GOALREEL_SOAK_SECONDS says for how long: ten minutes without it. `-s` prints what was measured.
"""

import os
import time
from itertools import count
from pathlib import Path
from statistics import median

import pytest
from support.ros_bench import BLUE, GREEN, RED, Robot, node
from support.wait import until

from goalreel_interfaces.action import ExecuteTask, GenerateStoryboard
from goalreel_interfaces.msg import SubGoal
from goalreel_interfaces.srv import Command

SECONDS = float(os.environ.get("GOALREEL_SOAK_SECONDS", "600"))
LIMITS = {"memory": 32.0, "threads": 8, "handles": 4}
"""Growth that is no leak: MiB, and numbers, from the second quarter of the samples to the last."""
TASK = f"{RED} {GREEN} {BLUE}"


def sample(pid: int) -> dict[str, float]:
    """Resident memory in MiB, and the numbers of threads and open files of a process."""
    process = Path(f"/proc/{pid}")
    pages = int((process / "statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "threads": len(list((process / "task").iterdir())),
        "handles": len(list((process / "fd").iterdir())),
    }


def grown(samples: list[dict[str, float]]) -> dict[str, float]:
    """What grew by more than its limit."""
    quarter = len(samples) // 4
    parts = samples[quarter : 2 * quarter], samples[-quarter:]
    growth = {name: median(s[name] for s in parts[1]) - median(s[name] for s in parts[0]) for name in LIMITS}
    return {name: value for name, value in growth.items() if value > LIMITS[name]}


def soak(robot: Robot, pid: int) -> list[dict[str, float]]:
    """Give the node tasks that end in each way, for SECONDS; a sample after each."""
    samples, end = [], time.monotonic() + SECONDS
    with robot.obeying() as goals:
        for number in count():
            if time.monotonic() > end:
                return samples
            goals.clear()
            if number % 5 == 0:
                handle = robot.send(GenerateStoryboard, "generate_storyboard", task=TASK)
            else:
                handle = robot.send(ExecuteTask, "execute_task", task=TASK)
            if number % 5 == 1:
                robot.call(Command, "pause")
                until(lambda: goals and goals[-1].reason == SubGoal.REASON_PAUSED)
                robot.call(Command, "resume")
            elif number % 5 == 2:
                robot.call(Command, "cancel")
            elif number % 5 == 3:
                robot.say(GREEN)  # preempts it, and is preempted
            robot.result(handle)
            samples.append(sample(pid))


@pytest.fixture
def robot():
    robot = Robot()
    robot.film(lambda: robot.frame(size=(640, 480)), 0.2)  # a picture that is kept weighs 0.9 MiB
    yield robot
    robot.close()


@pytest.mark.process
@pytest.mark.slow
def test_nothing_grows_while_task_follows_task(served, robot):
    with node(url=served[1]) as process:
        samples = soak(robot, process.process.pid)
    quarter = len(samples) // 4
    for name in LIMITS:
        values = [s[name] for s in samples]
        quarters = [median(values[i * quarter : (i + 1) * quarter]) for i in range(4)]
        print(f"{name}: medians {quarters} of the quarters of {len(samples)} tasks, at most {max(values)}")  # noqa: T201
    assert not grown(samples)


def test_what_grows_is_found():
    grows = [{name: limit * number / 8 for name, limit in LIMITS.items()} for number in range(32)]
    assert grown(grows).keys() == LIMITS.keys()
    assert not grown(grows[:1] * 32)
