"""A mobile base is no arm and no gripper, and a drive belongs to the steps around it."""

import numpy as np
import pytest
from support.arms import A, Arm, B, Motions, planned
from support.recordings import make_dataset

import goalreel
from goalreel.datasets.source import Source
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.planners.kinematic.roles import find_base, named_base

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
LEKIWI = (*(f"arm_{name}.pos" for name in JOINTS), "x.vel", "y.vel", "theta.vel")


class Rover(Arm):
    """An arm on a base: rows of a LeKiwi's state, with angles in degrees."""

    def __init__(self):
        super().__init__()
        self.drives = []

    def drive(self, seconds=2.0, dim=6, speed=0.2):
        start = len(self.rows)
        self.go(self.rows[-1][:3], seconds, self.rows[-1][3])
        self.drives.append((start, len(self.rows), dim, speed))
        return self

    @property
    def state(self):
        rows = np.array(self.rows)
        state = np.zeros((len(rows), 9), np.float32)
        state[:, :3], state[:, 5] = 100 * rows[:, :3], 100 * rows[:, 3]
        for start, end, dim, speed in self.drives:
            state[start:end, dim] = speed
        return state

    def plan(self, instruction, granularity="event"):
        recording = Motions(instruction, self.state, LEKIWI)
        layout = infer_robot([recording], robot_type="lekiwi").layout
        return planned(recording, granularity, layout)


FETCH = Rover().drive().take(A).home(0.4).drive(dim=8, speed=30).go(B, 1, 0.4).open().home().drive(speed=-0.2)


@pytest.mark.parametrize(
    ("names", "base"),
    [
        (LEKIWI, (6, 7, 8)),
        (("base_x", "base_y", "base_theta", "ee_x", "ee_y", "ee_z", "gripper"), (0, 1, 2)),
        (("gripper", "mobile_base.vx", "mobile_base.vy", "mobile_base.vtheta"), (1, 2, 3)),
        (("kLeftGripper", "kBaseVelX", "kBaseVelYaw"), (1, 2)),
        (("gripper", "linear_vel", "angular_vel"), (1, 2)),
        (("left_wheel_vel", "right_wheel_vel", "gripper"), (0, 1)),
        (("vx", "vy", "vz", "wx", "wy", "wz", "gripper"), ()),
        (("x.vel", "y.vel", "z.vel"), ()),
        (("x", "y", "theta"), ()),
        (("base.pos", "shoulder.pos", "gripper.pos"), ()),
        (("base_ee_x", "base_ee_y", "base_ee_z", "gripper"), ()),
    ],
)
def test_a_base_is_known_by_its_names(names, base):
    assert named_base(names) == base


@pytest.mark.parametrize(
    ("robot_type", "dims", "found"),
    [
        ("lekiwi", (9, 9), ((6, 7, 8), "state")),
        ("mobile_aloha", (14, 16), ((14, 15), "action")),
        ("aloha", (14, 14), ((), "state")),
        ("so101_follower", (9, 9), ((), "state")),
        (None, (9, 9), ((), "state")),
    ],
)
def test_a_base_without_names_is_known_by_the_robot(robot_type, dims, found):
    state, action = (np.zeros((5, n), np.float32) for n in dims)
    recording = Motions("go", state, state_names=(), commands=action)
    assert find_base(recording, robot_type)[:2] == found


def test_a_base_is_neither_gripper_nor_arm():
    recording = Motions("put the cup in the box", FETCH.state, LEKIWI)
    robot = infer_robot([recording], robot_type="lekiwi")
    layout = robot.layout
    assert (layout.gripper, layout.position, layout.base) == ((5,), (0, 1, 2, 3, 4), (6, 7, 8))
    (finding,) = (f for f in robot.findings if f.field == "base")
    assert (finding.value, finding.confidence) == ("6:9", "certain")
    assert Layout.parse(str(layout)).base == layout.base
    unnamed = infer_robot([Motions("it", FETCH.state, ())], robot_type="lekiwi").layout
    assert (unnamed.gripper, unnamed.base) == ((5,), (6, 7, 8))
    stated = infer_robot([Motions("it", FETCH.state, ())], Layout.parse("base=6:9,closed=low")).layout
    assert (stated.gripper, stated.base) == ((5,), (6, 7, 8))


@pytest.mark.parametrize(
    "instruction",
    ["pick up the cup and put it in the box", "drive to the shelf, pick up the cup and put it in the box"],
)
def test_a_drive_belongs_to_the_steps_around_it(instruction):
    plan = FETCH.plan(instruction)
    assert [step.name for step in plan.steps] == ["pick up the cup", "put the cup in the box"]
    assert not any(step.doubts for step in plan.steps)


def test_what_is_carried_by_the_base_alone_is_carried():
    plan = Rover().take(A).drive().open().home().plan("put the cup in the box")
    sure = [step.name for step in plan.steps if not step.doubts]
    assert sure == ["pick up the cup", "put the cup in the box"]


def test_a_real_dataset_of_a_mobile_robot(tmp_path):
    task = "drive to the shelf, pick up the cup, go to the box and put it in the box"
    robot = {"states": [FETCH.state, FETCH.state], "names": LEKIWI, "robot_type": "lekiwi"}
    root = make_dataset(tmp_path / "in", dtype="image", cameras=["front"], task=task, **robot)
    report = goalreel.check(root)
    (base,) = (finding for finding in report.robot if finding.field == "base")
    assert str(base) == "base=6:9 (certain): named x.vel, y.vel, theta.vel, in state"
    assert report.named == 2
    goalreel.annotate(root, tmp_path / "out")
    rows = Source.open(tmp_path / "out").episode(0).subtasks("rows")
    assert [text for _, text in rows] == [step.name for step in FETCH.plan(task).steps]
