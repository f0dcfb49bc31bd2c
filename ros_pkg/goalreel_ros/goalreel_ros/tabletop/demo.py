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
from dataclasses import dataclass, field
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
from goalreel_interfaces.msg import StoryboardStep
from goalreel_ros.client import GoalreelClient, GoalreelError
from goalreel_ros.pictures import decode
from goalreel_ros.qos import LATCHED

FPS = 10
START = 300.0
"""Seconds for the processes to be there."""
SPIN_SECONDS = 0.02
TRACKING = {"track_rate": 10.0, "critic_period": 0.5, "gate": 0.3}
"""The node's settings for a robot that is faster than a real one."""

app = typer.Typer(add_completion=False)
WIDTH, CELL = 720, 320
STRIP = 180
"""Minimal width of a picture of the strip."""


@dataclass(frozen=True)
class FilmFrame:
    """One camera frame and the active sub-goal: its number from 1 (0: none), name and picture.

    Without one, `message` is what the node says of its progress.
    """

    live: Image
    number: int = 0
    name: str = ""
    goal: Image | None = None
    message: str = ""


@dataclass
class Film:
    """Frames in order, `fps` a second. `reached` has the numbers of the completed steps."""

    task: str
    fps: int
    frames: list[FilmFrame] = field(default_factory=list)
    reached: frozenset[int] = frozenset()

    def write(self, path: Path) -> None:
        """Write the film as MP4 (H.264)."""
        write_film((self._page(frame) for frame in self.frames), path, self.fps)

    def strip(self) -> Image:
        """Lay out each goal image beside the camera frame at the end of its sub-goal."""
        last = {frame.number: frame for frame in self.frames if frame.number}
        cells = []
        for number, frame in sorted(last.items()):
            goal = (Line(f"{number}. goal", 17, INK, 1), Line(frame.name, 15, MUTED, 3))
            end = f"{number}. {'reached' if number in self.reached else 'not reached'}"
            cells += [Cell(frame.goal, goal), Cell(frame.live, (Line(end, 17, INK, 1),))]
        return lay_out((Line(self.task, 20, INK, 5),), cells, 4 * (STRIP + 40), STRIP)

    def _page(self, frame: FilmFrame) -> Image:
        caption = f"goal {frame.number}: {frame.name}" if frame.number else frame.message
        camera = Cell(frame.live, (Line("camera", 17, INK, 1),))
        goal = Cell(frame.goal, (Line(caption, 17, INK, 2),), note=Line("no goal", 17, MUTED, 1))
        return lay_out((Line(self.task, 17, INK, 5),), (camera, goal), WIDTH, CELL)


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
        self.create_subscription(String, "tabletop/truth", self._on_truth, LATCHED)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self)

    def spin_once(self) -> None:
        """Receive a message that has arrived."""
        self._executor.spin_once(SPIN_SECONDS)

    def _on_truth(self, message: String) -> None:
        self.truth = json.loads(message.data)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="Folder for film and strip.")] = Path("out/ros_demo"),
    seed: Annotated[int, typer.Option(min=0, max=999_999, help="Scene and instruction.")] = 3,
    rate: Annotated[float, typer.Option(min=0.1, max=20, help="Times real time.")] = 3.0,
    misread: Annotated[int, typer.Option(help="Sub-goal whose first picture goes wrong; -1: none.")] = 0,
    preset: Annotated[
        str, typer.Option(help="Models of the node, such as nano. [default: those that ask the simulator]")
    ] = "",
) -> None:
    """Let the simulated robot carry out an instruction by goal images alone, and film it."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    out.mkdir(parents=True, exist_ok=True)
    with one_line_errors("interrupted"), rclpy.init():
        film, truth, problem = _run(seed, rate, misread, preset)
    film.write(out / "film.mp4")
    (out / "strip.png").write_bytes(film.strip().png())
    for goal in truth["goals"]:
        typer.echo(f"{'holds' if goal['holds'] else 'DOES NOT HOLD'}: {goal['text']}")
    if problem is not None:
        typer.echo(f"the task ended as {problem}")
    typer.echo(f"look at {out / 'film.mp4'} and {out / 'strip.png'}")
    ended_well = problem is None or problem.code is ErrorCode.UNCONFIRMED
    raise typer.Exit(0 if ended_well and all(goal["holds"] for goal in truth["goals"]) else 1)


def _run(
    seed: int, rate: float, misread: int, preset: str
) -> tuple[Film, dict[str, Any], GoalreelError | None]:
    """Run the loop, and give the film, the truth at its end, and why the task did not end well.

    Raises:
        TimeoutError: a process did not start in time.
    """
    with ExitStack() as stack:
        stack.enter_context(
            process("tabletop.simulator", seed=seed, rate=rate, port=0, misread=f"[{misread}]")
        )
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
        film, problem = _film(client, watcher)
        return film, watcher.truth, problem


def _film(client: GoalreelClient, watcher: TableWatcher) -> tuple[Film, GoalreelError | None]:
    film = Film(watcher.truth["instruction"], FPS)
    task = client.execute(film.task)
    watcher.frames.clear()
    while not task.done:
        watcher.spin_once()
        goal, picture = client.subgoal(), client.goal_image
        while watcher.frames:
            live = decode(watcher.frames.pop(0))
            if goal is None or picture is None:
                progress = client.progress()
                film.frames.append(FilmFrame(live, message=progress.message if progress else ""))
            else:
                film.frames.append(FilmFrame(live, goal.index + 1, goal.name, decode(goal.goal_image)))
    problem = None
    try:
        result = task.result()
    except GoalreelError as e:
        result, problem = e.result, e
    if result is not None:
        done = StoryboardStep.STATUS_COMPLETED
        film.reached = frozenset(s.index + 1 for s in result.storyboard.steps if s.status == done)
    return film, problem


if __name__ == "__main__":
    app()
