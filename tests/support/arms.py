"""Recordings of an arm without pictures, made by hand."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from goalreel.planners.kinematic.planner import KinematicPlanner, Layout
from goalreel.types import Task

HOME, UP = np.array([0.3, 0.0, 0.3]), np.array([0, 0, 0.15])
A, B, C = (np.array([x, y, 0.02]) for x, y in ((0.5, -0.2), (0.5, 0.2), (0.6, 0.0)))


@dataclass(frozen=True)
class Motions:
    """A Recording without pictures, 10 fps."""

    instruction: str
    state: np.ndarray
    state_names: tuple[str, ...] = ("x", "y", "z", "gripper")
    action_names: tuple[str, ...] = ()
    fps: float = 10.0
    id: str = "it"
    commands: np.ndarray | None = None

    @property
    def action(self):
        return np.zeros((len(self.state), 0), np.float32) if self.commands is None else self.commands

    @property
    def timestamps(self):
        return np.arange(len(self.state), dtype=np.float32) / self.fps


class Arm:
    """Rows x, y, z, gripper (1 open, 0.4 on a thing), and the frames at which contact changes."""

    def __init__(self):
        self.rows = [[*HOME, 1.0]]
        self.contacts = []

    def go(self, to, seconds, grip):
        here = np.array(self.rows[-1][:3])
        for t in np.linspace(0, 1, round(10 * seconds) + 1)[1:]:
            self.rows.append([*(here + (np.asarray(to) - here) * t), grip])
        return self

    def close(self, grip=0.4):
        self.contacts.append(len(self.rows))
        return self.go(self.rows[-1][:3], 0.5, grip)

    def open(self):
        self.contacts.append(len(self.rows))
        return self.go(self.rows[-1][:3], 0.5, 1.0)

    def take(self, a):
        return self.go(a + UP, 1, 1).go(a, 0.6, 1).close()

    def put(self, b, grip=0.4):
        return self.go(self.rows[-1][:3] + UP, 0.6, grip).go(b + UP, 1, grip).go(b, 0.6, grip).open()

    def home(self, grip=1.0):
        return self.go(self.rows[-1][:3] + UP, 0.5, grip).go(HOME, 0.8, grip)

    def plan(self, instruction, granularity="event", dims=("x", "y", "z", "gripper")):
        return planned(Motions(instruction, np.array(self.rows, np.float32), dims), granularity)


def planned(recording, granularity="event", layout=None, **options):
    """The kinematic planner's answer about a recording; `layout` may be its text."""
    layout = Layout.parse(layout) if isinstance(layout, str) else layout
    planner = KinematicPlanner({recording.id: recording}, granularity, layout, **options)
    return planner.plan([Task(id=recording.id, instruction=recording.instruction)])[0]


def names(plan):
    return [step.name for step in plan.steps]


def starts(plan):
    return [segment.start for segment in plan.segments]


def near(found, true, slack=4):
    return len(found) == len(true) and all(abs(a - b) <= slack for a, b in zip(found, true, strict=True))


def sentences(table):
    """The lines of a table of tests/planners/sentences.txt: texts, or tuples of several columns."""
    text = (Path(__file__).parents[1] / "planners/sentences.txt").read_text(encoding="utf-8")
    part = next(part for part in text.split("\n== ") if part.partition("\n")[0].partition(":")[0] == table)
    lines = [line.replace("\\n", "\n").split(" = ") for line in part.strip().split("\n")[1:]]
    return [line[0] if len(line) == 1 else tuple(line) for line in lines]
