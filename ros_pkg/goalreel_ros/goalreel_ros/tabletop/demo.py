# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""`python -m goalreel_ros.tabletop.demo`: the closed loop in three processes, and a film of it.

It starts simulator, goalreel node and follower as processes and sends the scene's instruction. The film shows
the camera's frames beside the goal image of the moment.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import rclpy
import typer
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image as RawImage
from std_msgs.msg import String

from goalreel.annotator.report.film import write_film
from goalreel.annotator.report.sheet import INK, MUTED, Cell, Line, lay_out
from goalreel.cli.errors import one_line_errors
from goalreel.image import Image
from goalreel.streaming.board import ErrorCode
from goalreel_ros import pictures, qos
from goalreel_ros.client import GoalreelClient, GoalreelError

START = 300.0
"""Seconds for the processes to be there."""
TRACKING = {"track_rate": 10.0, "critic_period": 0.5, "gate": 0.3}
"""The node's settings for a robot that is faster than a real one."""

app = typer.Typer(add_completion=False)
WIDTH, CELL = 720, 320
type FilmFrame = tuple[Image, str, Image | None]
"""A camera frame; the name of the sub-goal, or what the node says of its progress; the goal image."""


def page(task: str, live: Image, caption: str, goal: Image | None = None) -> Image:
    """Lay a camera frame and the goal image of the moment out side by side below the task."""
    camera = Cell(live, (Line("camera", 17, INK, 1),))
    shown = Cell(goal, (Line(caption, 17, INK, 2),), note=Line("no goal", 17, MUTED, 1))
    return lay_out((Line(task, 17, INK, 5),), (camera, shown), WIDTH, CELL)


@contextmanager
def process(module: str, *remaps: str, **parameters: object) -> Iterator[None]:
    """`python -m goalreel_ros.MODULE` with its ROS parameters, until the end of the block."""
    arguments = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    arguments += [word for remap in remaps for word in ("-r", remap)]
    command = [sys.executable, "-m", f"goalreel_ros.{module}", "--ros-args", *arguments]
    running = subprocess.Popen(command)
    try:
        yield
    finally:
        running.terminate()
        running.wait()


class TableWatcher(Node):
    """Receives camera frames and the simulator's `truth`."""

    def __init__(self) -> None:
        super().__init__("watcher")
        self.truth: dict[str, Any] = {}
        self.frames: list[RawImage] = []
        self.create_subscription(RawImage, "image", self.frames.append, qos_profile_sensor_data)
        self.create_subscription(String, "tabletop/truth", self._on_truth, qos.LATCHED)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self)

    def spin_once(self) -> None:
        """Receive a message that has arrived."""
        self._executor.spin_once(0.02)

    def _on_truth(self, message: String) -> None:
        self.truth = json.loads(message.data)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder for the film.")] = Path("out/ros_demo"),
    seed: Annotated[int, typer.Option(min=0, max=999_999, help="Scene and instruction.")] = 3,
    rate: Annotated[float, typer.Option(min=0.1, max=20, help="Times real time.")] = 3.0,
    preset: Annotated[
        str, typer.Option(help="Models of the node, such as nano. [default: those that ask the simulator]")
    ] = "",
) -> None:
    """Let the simulated robot carry out an instruction by goal images alone, and film it."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    out.mkdir(parents=True, exist_ok=True)
    with one_line_errors("interrupted"), rclpy.init():
        frames, truth, problem = _run(seed, rate, preset)
    write_film((page(truth["instruction"], *frame) for frame in frames), out / "film.mp4", 10)
    for goal in truth["goals"]:
        typer.echo(f"{'holds' if goal['holds'] else 'DOES NOT HOLD'}: {goal['text']}")
    if problem is not None:
        typer.echo(f"the task ended as {problem}")
    typer.echo(f"look at {out / 'film.mp4'}")
    ended_well = problem is None or problem.code is ErrorCode.UNCONFIRMED
    raise typer.Exit(0 if ended_well and all(goal["holds"] for goal in truth["goals"]) else 1)


def _run(seed: int, rate: float, preset: str) -> tuple[list[FilmFrame], dict[str, Any], GoalreelError | None]:
    """Run the loop, and give the film's frames, the truth at its end, and why the task did not end well."""
    with ExitStack() as stack:
        stack.enter_context(process("tabletop.simulator", seed=seed, rate=rate, port=0))
        watcher = TableWatcher()
        stack.callback(watcher.destroy_node)
        deadline = time.monotonic() + START
        while not watcher.truth:
            watcher.spin_once()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no simulator within {START:g} s")
        exact = dict.fromkeys(("planner", "editor", "critic"), watcher.truth["models"])
        models = {"preset": preset} if preset else exact
        stack.enter_context(process("tabletop.follower", "subgoal:=goalreel/subgoal", seed=seed))
        stack.enter_context(process("main", **models, **TRACKING))
        client = stack.enter_context(GoalreelClient())
        client.wait_until_active(START)
        frames, problem = _film(client, watcher)
        return frames, watcher.truth, problem


def _film(client: GoalreelClient, watcher: TableWatcher) -> tuple[list[FilmFrame], GoalreelError | None]:
    frames: list[FilmFrame] = []
    task = client.execute(watcher.truth["instruction"])
    watcher.frames.clear()
    while not task.done:
        watcher.spin_once()
        goal, progress = client.subgoal(), client.progress()
        caption, picture = progress.message if progress is not None else "", None
        if goal is not None and client.goal_image is not None:
            caption, picture = f"goal {goal.index + 1}: {goal.name}", pictures.decode(goal.goal_image)
        while watcher.frames:
            frames.append((pictures.decode(watcher.frames.pop(0)), caption, picture))
    try:
        task.result()
    except GoalreelError as e:
        return frames, e
    return frames, None


if __name__ == "__main__":
    app()
