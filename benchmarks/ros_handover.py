"""How long a policy waits for its next sub-goal: rendered ahead, against rendered when it is asked for.

    python benchmarks/ros_handover.py --json                   # 30 tasks, everything five times as fast
    python benchmarks/ros_handover.py --tasks 5 --scale 0.1

The real node in a process of its own, over DDS on loopback; camera, policy and clock here. Tasks, plans,
goal images and what the camera sees (the scripted expert at work) are the simulated tabletop's. Planner,
editor and critic answer rightly after a delay, and the critic rejects some first attempts, the same in every
part. All delays and periods are multiplied by --scale, and what is measured is divided by it: the
milliseconds that messages take therefore count for more than they are.

Parts: `told`, the policy ends each step by ~/set_active_step, so that nothing but the hand-over is measured;
`seen`, nobody says so, and the node's critic has to see it; `on_demand`, every picture is asked for with
~/generate_storyboard when its step begins, planning not counted.

Keys of --json: `ready_share`, of the steps after a task's first, those whose goal was there when they began
(their first message on ~/subgoal is an active one), in `told`; `seen_ready_share`, the same in `seen`;
`speedup`, mean wait for the goal of such a step on demand over that in `told`. [median, 95th percentile] in
seconds: `first_goal_s`, from the instruction to the first active sub-goal, `handover_s`, from
~/set_active_step to the next one, `seen_s`, from the picture of the step done to the next one,
`on_demand_s`. `late`: [SEED, STEP, attempts of its picture, seconds waited] of those not ready in `told`.
`tasks`, `steps` (after the first), and the settings.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image as RawImage

sys.path.append(str(Path(__file__).parent))
from parts import handover
from parts.handover import SIZE, Latency, Scene, Teller

from goalreel.tabletop.sim.splits import seeds
from goalreel_interfaces.action import GenerateStoryboard
from goalreel_interfaces.msg import Storyboard, StoryboardStep, SubGoal
from goalreel_ros.client import GoalreelClient
from goalreel_ros.client.background_node import Beside
from goalreel_ros.qos import LATCHED

RATE = 30.0
SETTLE = 0.1
"""Seconds for which the camera shows a step's end before the policy says so: three frames, as of an arm that
has come to rest."""
PATIENCE = 120.0


class Policy:
    """The robot's side: a camera that shows a film, and when each sub-goal came."""

    def __init__(self) -> None:
        self._beside = Beside("policy", args=[])
        node = self._beside.node
        self._camera = node.create_publisher(RawImage, "image", qos_profile_sensor_data)
        self._film, self._began, self._seconds = np.zeros((1, SIZE, SIZE, 3), np.uint8), 0.0, 1.0
        self._heard = threading.Condition()
        self._goals: list[tuple[float, SubGoal]] = []
        self.board = Storyboard()
        node.create_subscription(SubGoal, "goalreel/subgoal", self._on_subgoal, LATCHED)
        node.create_subscription(Storyboard, "goalreel/storyboard", self._on_storyboard, LATCHED)
        node.create_timer(1 / RATE, self._publish)
        self._beside.start()

    def close(self) -> None:
        self._beside.close()

    def show(self, film: NDArray[np.uint8], seconds: float) -> None:
        """Show (n, h, w, 3) from now on, in that time, and then its last picture until the next film."""
        self._film, self._began, self._seconds = film, time.monotonic(), seconds

    def begin(self) -> None:
        """Forget what has come."""
        with self._heard:
            self._goals.clear()

    def wait(self, index: int) -> tuple[float, bool]:
        """When sub-goal `index` came to be active, and whether the first message about it said so."""
        with self._heard:
            if not self._heard.wait_for(lambda: any(g.active for _, g in self._about(index)), PATIENCE):
                sys.exit(f"sub-goal {index} did not come")
            about = self._about(index)
        return next(at for at, goal in about if goal.active), about[0][1].active

    def _about(self, index: int) -> list[tuple[float, SubGoal]]:
        return [(at, goal) for at, goal in self._goals if goal.index == index and goal.name]

    def _on_subgoal(self, message: SubGoal) -> None:
        with self._heard:
            self._goals.append((time.monotonic(), message))
            self._heard.notify_all()

    def _on_storyboard(self, message: Storyboard) -> None:
        self.board = message

    def _publish(self) -> None:
        film, share = self._film, (time.monotonic() - self._began) / self._seconds
        picture = film[min(int(share * len(film)), len(film) - 1)]
        message = RawImage(height=SIZE, width=SIZE, encoding="rgb8", step=3 * SIZE)
        message.header.stamp = self._beside.node.get_clock().now().to_msg()
        message.data = array("B", picture.tobytes())
        self._camera.publish(message)


@dataclass
class Waits:
    """Seconds, as measured."""

    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    ready: list[bool] = field(default_factory=list)
    late: list[tuple[int, int, int, float]] = field(default_factory=list)


def follow(
    client: GoalreelClient, policy: Policy, scene: Scene, teller: Teller, seconds: float, waits: Waits
) -> None:
    """Carry one task out, `seconds` a step."""
    policy.show(scene.films[0][:1], 1.0)
    time.sleep(SETTLE)
    policy.begin()
    reached = time.monotonic()
    task = client.annotate(scene.asked(None, teller))
    for index, film in enumerate(scene.films):
        came, ready = policy.wait(index)
        (waits.later if index else waits.first).append(came - reached)
        if index:
            waits.ready.append(ready)
            if not ready:
                waits.late.append((scene.seed, index, policy.board.steps[index].attempts, came - reached))
        # The film's last picture is the step done: from then on the critic could see it.
        shown = max(seconds - SETTLE, 0.0)
        policy.show(film, shown * len(film) / (len(film) - 1))
        time.sleep(shown)
        reached = time.monotonic()
        if teller == "policy":
            time.sleep(SETTLE)
            reached = time.monotonic()
            client.set_active_step(index, StoryboardStep.STATUS_COMPLETED)
    task.result(PATIENCE)


def demand(client: GoalreelClient, policy: Policy, scene: Scene, index: int) -> float:
    """Seconds for one picture, from the first call of the editor on."""
    began: list[float] = []

    def on_feedback(feedback: GenerateStoryboard.Feedback) -> None:
        if feedback.phase == GenerateStoryboard.Feedback.PHASE_GENERATING and not began:
            began.append(time.monotonic())

    policy.show(scene.films[index][:1], 1.0)
    time.sleep(SETTLE)
    client.generate(scene.asked(index, "policy"), on_feedback=on_feedback)
    return time.monotonic() - began[0]


@contextmanager
def running(folder: Path, latency: Latency, scale: float) -> Iterator[GoalreelClient]:
    """The node at work, and a client of it."""
    scaled = Latency(
        latency.planner * scale, latency.editor * scale, latency.critic * scale, latency.rejected
    )
    periods = {"critic_period": 2.0 * scale, "track_rate": min(30.0, 5.0 / scale)}
    given = [word for name, value in periods.items() for word in ("-p", f"{name}:={value}")]
    arguments = ["--ros-args", "--log-level", "error", "-p", "preset:=server", *given]
    process = subprocess.Popen([*handover.command(folder, scaled), *arguments])
    try:
        with GoalreelClient(timeout=PATIENCE, args=[]) as client:
            client.wait_until_active(PATIENCE)
            yield client
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def measure(options: argparse.Namespace, latency: Latency) -> dict[str, object]:
    """All parts, one after the other, on the same tasks."""
    parts: dict[Teller, Waits] = {"policy": Waits(), "critic": Waits()}
    asked: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenes = [handover.play(seed) for seed in seeds(options.split, options.tasks, options.first)]
        for scene in scenes:
            scene.save(folder)
        policy = Policy()
        with running(folder, latency, options.scale) as client:
            for scene in scenes:
                for teller, waits in parts.items():
                    follow(client, policy, scene, teller, options.step * options.scale, waits)
                asked += [demand(client, policy, scene, i) for i in range(1, len(scene.steps))]
        policy.close()
    return report(parts, asked, options.scale)


def report(parts: dict[Teller, Waits], asked: list[float], scale: float) -> dict[str, object]:
    """The keys that the module's docstring lists, but for the settings."""

    def spread(seconds: list[float]) -> list[float]:
        return [round(float(p) / scale, 3) for p in np.percentile(seconds, (50, 95))]

    told, seen = parts["policy"], parts["critic"]
    return {
        "ready_share": round(float(np.mean(told.ready)), 3),
        "seen_ready_share": round(float(np.mean(seen.ready)), 3),
        "speedup": round(float(np.mean(asked) / np.mean(told.later)), 1),
        "first_goal_s": spread(told.first + seen.first),
        "handover_s": spread(told.later),
        "seen_s": spread(seen.later),
        "on_demand_s": spread(asked),
        "late": [(*which, round(seconds / scale, 1)) for *which, seconds in told.late],
        "tasks": len(told.first),
        "steps": len(told.later),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=30)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--planner", type=float, default=3.0, help="seconds a call")
    parser.add_argument("--editor", type=float, default=4.0, help="seconds a call")
    parser.add_argument("--critic", type=float, default=1.5, help="seconds a call")
    parser.add_argument("--step", type=float, default=8.0, help="seconds that the policy takes for a step")
    parser.add_argument("--rejected", type=float, default=0.1, help="share of first attempts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", str(90 + os.getpid() % 10))
    os.environ.setdefault("MUJOCO_GL", "egl")
    latency = Latency(options.planner, options.editor, options.critic, options.rejected)
    result = measure(options, latency)
    result |= {name: value for name, value in vars(options).items() if name not in ("json", "tasks")}
    if options.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:16} {value}")


if __name__ == "__main__":
    main()
