"""How long a policy waits for its next sub-goal: rendered ahead, against rendered when it is asked for.

    python benchmarks/ros_handover.py --json                   # 30 tasks, everything five times as fast
    python benchmarks/ros_handover.py --tasks 5 --scale 0.1

The real node runs in a process of its own, over DDS on loopback; camera, policy and clock are here. Tasks,
plans, goal images and what the camera sees (the scripted expert at work) are the simulated tabletop's.
Planner, editor and critic answer rightly after a delay, and the critic rejects some first attempts, the same
in every part. All delays and periods are multiplied by --scale, and what is measured is divided by it. So the
milliseconds that messages take count for more than they are.

There are three parts. In the first the policy ends each step by ~/set_active_step, so that nothing but the
hand-over is measured. In the second nobody says so, and the node's critic has to see it. In the third every
picture is asked for with ~/generate_storyboard when its step begins; planning is not counted.

Keys of --json: `ready_share`, of the steps after a task's first, those whose goal was there when they began
(their first message on ~/subgoal is an active one), in the first part; `seen_ready_share`, the same in the
second; `speedup`, mean wait for the goal of such a step in the third part over that in the first. [median,
95th percentile] in seconds: `first_goal_s`, from the instruction to the first active sub-goal, `handover_s`,
from ~/set_active_step to the next one, `seen_s`, from the picture of the step done to the next one,
`on_demand_s`. `late`: [SEED, STEP, attempts of its picture, seconds waited] of those not ready in the first
part. `tasks`, `steps` (after the first), and the settings: `split`, `first`, `scale`, `planner`, `editor`,
`critic`, `step`, `rejected`, `goals_ahead`.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from common import argument_parser, parse, report
from numpy.typing import NDArray
from parts import handover
from parts.handover import SIZE, Latency, Observer, Scene
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image as RawImage

from goalreel.tabletop.sim.splits import seeds
from goalreel_interfaces.action import GenerateStoryboard
from goalreel_interfaces.msg import Storyboard, StoryboardStep, SubGoal
from goalreel_ros.client import GoalreelClient
from goalreel_ros.client.background_node import BackgroundNode
from goalreel_ros.qos import LATCHED

RATE = 30.0
SETTLE = 0.1
"""Seconds for which the camera shows a step's end before the policy says so: three frames, as of an arm that
has come to rest."""
PATIENCE = 120.0


class Policy:
    """The robot's side: a camera that shows a film, and the arrival times of sub-goals."""

    def __init__(self) -> None:
        self._background = BackgroundNode("policy", args=[])
        node = self._background.node
        self._camera = node.create_publisher(RawImage, "image", qos_profile_sensor_data)
        self._film: NDArray[np.uint8] = np.zeros((1, SIZE, SIZE, 3), np.uint8)
        self._start, self._seconds = 0.0, 1.0
        self._changed = threading.Condition()
        self._arrivals: list[tuple[float, SubGoal]] = []
        self.board = Storyboard()
        node.create_subscription(SubGoal, "goalreel/subgoal", self._on_subgoal, LATCHED)
        node.create_subscription(Storyboard, "goalreel/storyboard", self._on_storyboard, LATCHED)
        node.create_timer(1 / RATE, self._publish)
        self._background.start()

    def close(self) -> None:
        """Leave the graph."""
        self._background.close()

    def show(self, film: NDArray[np.uint8], seconds: float) -> None:
        """Show a film, (n, h, w, 3), in that time, and its last picture until the next film."""
        self._film, self._start, self._seconds = film, time.monotonic(), seconds

    def clear(self) -> None:
        """Forget the sub-goals that have arrived."""
        with self._changed:
            self._arrivals.clear()

    def wait(self, index: int) -> tuple[float, bool]:
        """Wait for sub-goal `index`: when it became active, and whether its first message said so."""
        with self._changed:
            if not self._changed.wait_for(lambda: any(g.active for _, g in self._about(index)), PATIENCE):
                sys.exit(f"sub-goal {index} did not come")
            arrivals = self._about(index)
        return next(at for at, goal in arrivals if goal.active), arrivals[0][1].active

    def _about(self, index: int) -> list[tuple[float, SubGoal]]:
        return [(at, goal) for at, goal in self._arrivals if goal.index == index and goal.name]

    def _on_subgoal(self, message: SubGoal) -> None:
        with self._changed:
            self._arrivals.append((time.monotonic(), message))
            self._changed.notify_all()

    def _on_storyboard(self, message: Storyboard) -> None:
        self.board = message

    def _publish(self) -> None:
        film, share = self._film, (time.monotonic() - self._start) / self._seconds
        picture = film[min(int(share * len(film)), len(film) - 1)]
        message = RawImage(height=SIZE, width=SIZE, encoding="rgb8", step=3 * SIZE)
        message.header.stamp = self._background.node.get_clock().now().to_msg()
        message.data = array("B", picture.tobytes())
        self._camera.publish(message)


@dataclass
class Waits:
    """Seconds that the policy waited for sub-goals."""

    first: list[float] = field(default_factory=list)
    """For the first of a task."""
    next: list[float] = field(default_factory=list)
    """For each of the others."""
    ready: list[bool] = field(default_factory=list)
    late: list[tuple[int, int, int, float]] = field(default_factory=list)
    """(seed, step, attempts of its picture, seconds) of those that were not ready."""


def follow(
    client: GoalreelClient, policy: Policy, scene: Scene, observer: Observer, seconds: float, waits: Waits
) -> None:
    """Carry out one task, `seconds` a step, and note the waits."""
    policy.show(scene.films[0][:1], 1.0)
    time.sleep(SETTLE)
    policy.clear()
    reached = time.monotonic()
    task = client.execute(scene.tagged_instruction(None, observer))
    for index, film in enumerate(scene.films):
        arrival, ready = policy.wait(index)
        (waits.next if index else waits.first).append(arrival - reached)
        if index:
            waits.ready.append(ready)
            if not ready:
                attempts = list(policy.board.steps)[index].attempts
                waits.late.append((scene.seed, index, attempts, arrival - reached))
        # The film's last picture is the step done: from then on the critic could see it.
        duration = max(seconds - SETTLE, 0.0)
        policy.show(film, duration * len(film) / (len(film) - 1))
        time.sleep(duration)
        reached = time.monotonic()
        if observer == "policy":
            time.sleep(SETTLE)
            reached = time.monotonic()
            client.set_active_step(index, StoryboardStep.STATUS_COMPLETED)
    task.result(PATIENCE)


def demand(client: GoalreelClient, policy: Policy, scene: Scene, index: int) -> float:
    """Seconds for one picture, from the first call of the editor on."""
    starts: list[float] = []

    def on_feedback(feedback: GenerateStoryboard.Feedback) -> None:
        if feedback.phase == GenerateStoryboard.Feedback.PHASE_GENERATING and not starts:
            starts.append(time.monotonic())

    policy.show(scene.films[index][:1], 1.0)
    time.sleep(SETTLE)
    client.generate(scene.tagged_instruction(index, "policy"), on_feedback=on_feedback)
    return time.monotonic() - starts[0]


@contextmanager
def running(folder: Path, latency: Latency, scale: float, goals_ahead: int) -> Iterator[GoalreelClient]:
    """Run the node, and a client of it."""
    scaled = Latency(
        latency.planner * scale, latency.editor * scale, latency.critic * scale, latency.rejected
    )
    settings = {
        "critic_period": 2.0 * scale,
        "track_rate": min(30.0, 5.0 / scale),
        "goals_ahead": goals_ahead,
    }
    parameters = [word for name, value in settings.items() for word in ("-p", f"{name}:={value}")]
    arguments = ["--ros-args", "--log-level", "error", "-p", "preset:=server", *parameters]
    process = subprocess.Popen([*handover.command(folder, scaled), *arguments])
    try:
        with GoalreelClient(timeout=PATIENCE, args=[]) as client:
            client.wait_until_active(PATIENCE)
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def measure(options: argparse.Namespace, latency: Latency) -> dict[str, object]:
    """Measure all parts, one after the other, on the same tasks."""
    waits: dict[Observer, Waits] = {"policy": Waits(), "critic": Waits()}
    on_demand: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenes = [handover.film_scene(seed) for seed in seeds(options.split, options.tasks, options.first)]
        for scene in scenes:
            scene.save(folder)
        policy = Policy()
        with running(folder, latency, options.scale, options.goals_ahead) as client:
            for scene in scenes:
                for observer in waits:
                    follow(client, policy, scene, observer, options.step * options.scale, waits[observer])
                on_demand += [demand(client, policy, scene, i) for i in range(1, len(scene.steps))]
        policy.close()
    return summary(waits, on_demand, options.scale)


def summary(waits: dict[Observer, Waits], on_demand: list[float], scale: float) -> dict[str, object]:
    """Compute the keys that the module's docstring lists, without the settings."""

    def spread(seconds: list[float]) -> list[float]:
        return [round(float(p) / scale, 3) for p in np.percentile(seconds, (50, 95))]

    policy, critic = waits["policy"], waits["critic"]
    return {
        "ready_share": round(float(np.mean(policy.ready)), 3),
        "seen_ready_share": round(float(np.mean(critic.ready)), 3),
        "speedup": round(float(np.mean(on_demand) / np.mean(policy.next)), 1),
        "first_goal_s": spread(policy.first + critic.first),
        "handover_s": spread(policy.next),
        "seen_s": spread(critic.next),
        "on_demand_s": spread(on_demand),
        "late": [(*which, round(seconds / scale, 1)) for *which, seconds in policy.late],
        "tasks": len(policy.first),
        "steps": len(policy.next),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=30)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--planner", type=float, default=3.0, help="seconds a call")
    parser.add_argument("--editor", type=float, default=4.0, help="seconds a call")
    parser.add_argument("--critic", type=float, default=1.5, help="seconds a call")
    parser.add_argument("--step", type=float, default=8.0, help="seconds that the policy takes for a step")
    parser.add_argument("--rejected", type=float, default=0.1, help="share of first attempts")
    parser.add_argument("--goals-ahead", type=int, default=0, help="the node's parameter goals_ahead")
    # The scene with two sub-goals, whose first pictures are all rejected.
    options = parse(parser, argv, tasks=1, first=2, scale=0.02, step=60.0, rejected=1.0)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    latency = Latency(options.planner, options.editor, options.critic, options.rejected)
    settings = {k: v for k, v in vars(options).items() if k not in ("json", "smoke", "tasks")}
    report(measure(options, latency) | settings, options.json)


if __name__ == "__main__":
    main()
