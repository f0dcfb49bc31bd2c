"""The cue of labelled episodes: a real robot's recorded joints, sent to the node's process as they came."""

import json
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from support.places import SHARED
from support.ros_bench import BLUE, GREEN, RED
from support.subtasks import add_subtasks
from support.wait import until

from goalreel.datasets.source import Source
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import SubGoal

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not SHARED.is_dir(), reason="real episodes are not at hand"),
]

TASK, LIVE, FASTER = f"{RED} {GREEN} {BLUE}", 4, 3.0


def labelled(root: Path) -> Path:
    """Write the first episodes of a real dataset with sub-task labels, all of one task."""
    for folder in ("meta", "data"):
        shutil.copytree(SHARED / "gr1_sim" / folder, root / folder)
    labels = json.loads((SHARED / "gr1_sim" / "labels.json").read_text())
    boundaries = {episode: labels[str(episode)]["boundaries"] for episode in range(LIVE)}
    add_subtasks(root, boundaries, ["grasp it", "place it", "leave"])
    for path in (root / "meta/tasks.parquet", *root.glob("meta/episodes/*/*.parquet")):
        column = "task" if path.stem == "tasks" else "tasks"
        table = pq.read_table(path)
        text = [TASK] if column == "tasks" else TASK
        same = pa.array([text] * len(table), table[column].type)
        pq.write_table(table.set_column(table.column_names.index(column), column, same), path)
    return root


@pytest.fixture(scope="module")
def node_parameters(tmp_path_factory):
    return {"examples": str(labelled(tmp_path_factory.mktemp("labelled") / "gr1")), "stall_timeout": 60.0}


def test_the_joints_say_when_the_critic_is_asked(robot):
    episode = Source.open(SHARED / "gr1_sim").episode(LIVE)
    truth = json.loads((SHARED / "gr1_sim/labels.json").read_text())[str(LIVE)]["boundaries"]
    reports = robot.listen(DiagnosticArray, "/diagnostics", 10)
    goals = robot.listen(SubGoal, "goalreel/subgoal")
    joints = robot.node.create_publisher(JointState, "joint_states", qos_profile_sensor_data)
    until(joints.get_subscription_count)

    def cues() -> list[str]:
        values = (v for report in reports for status in report.status for v in status.values)
        return [v.value for v in values if v.key == "labelled episodes"]

    handle = robot.send(ExecuteTask, "execute_task", task=TASK)
    until(lambda: goals and goals[-1].active)
    until(lambda: "no cue: the robot sends no motor_0, motor_1, motor_2" in cues())

    def send(frame: int) -> None:
        positions = episode.state[frame].astype(float).tolist()
        joints.publish(JointState(name=list(episode.state_names), position=positions))

    until(lambda: send(0) or "step 1 is under way" in cues())
    robot.colour = RED  # the critic would say yes whenever it is asked
    left: dict[str, float] = {}

    def play(frame: int, second: float) -> bool:
        """Send a frame, and go on with the node; return whether the last sub-goal is shown."""
        send(frame)
        if goals[-1].active and goals[-1].instruction != robot.colour:
            left[robot.colour], robot.colour = second, goals[-1].instruction
        return robot.colour == BLUE

    start = time.monotonic()
    for frame, second in enumerate(episode.timestamps.tolist()):
        time.sleep(max(0.0, start + second / FASTER - time.monotonic()))
        play(frame, second)
    until(lambda: play(frame, second))  # a slow machine is behind
    status, result = robot.result(handle)
    assert left[RED] > truth[0] / episode.fps - 1.5, "not before its boundary"
    assert left[GREEN] > truth[1] / episode.fps - 1.5, "not before its boundary"
    assert (status, result.error_msg) == (4, "")
