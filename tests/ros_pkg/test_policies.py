"""Policies that follow the node: each code block of the pages, the example, lerobot's rollout, its camera.

They share a real node, and the import of lerobot, which takes seconds.
"""

import importlib.util
import json
import os
import re
import shlex
import signal
import sys
import threading
import tomllib
from array import array
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from types import ModuleType
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest
from py_trees.common import Status
from support.cli import kept_signals
from support.pages import blocks
from support.places import ROOT, SUPPORT
from support.recordings import make_dataset, moving_square, storyboard
from support.ros import Other
from support.ros_bench import GREEN, RED, Robot, near, node as start, painted
from support.wait import until
from typer.main import get_command

from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.image import Image
from goalreel_ros.client import GoalreelClient, GoalreelError

PAGES = [
    f"docs/how-to/{name}.md"
    for name in ("behaviour-trees", "connect-a-policy", "rollout-without-ros", "train-a-policy")
]
BLOCKS = [block for page in PAGES for block in blocks(page)]
TASK = "put the red block in the bowl"


def block(marker: str) -> str:
    """The one code block that contains `marker`, its lines joined; remembers that it was looked at."""
    (found,) = [b for b in BLOCKS if marker in b[1]]
    USED.add(found[1])
    return found[1].replace("\\\n", "")


USED: set[str] = set()


@pytest.mark.process
def test_the_plain_subscriber(node, client, tmp_path):
    script = tmp_path / "subscriber.py"
    script.write_text(block("def on_subgoal"))
    assert len(script.read_text().splitlines()) <= 40
    process = Other(str(script))
    task = client.execute(RED)
    until(lambda: any(re.search(rf"{RED}: a picture of [1-9]\d+ bytes", line) for line in process.lines))
    task.cancel()
    until(lambda: "hold still" in process.lines[-1])
    node.process.send_signal(signal.SIGSTOP)
    until(lambda: "gone or hangs" in process.lines[-1])
    node.process.send_signal(signal.SIGCONT)
    process.stop(signal.SIGKILL)


@pytest.mark.process
def test_the_client_example(client, robot, capsys):
    seen_by_policy = []

    def act(instruction: str, picture: np.ndarray | None) -> None:
        if picture is not None:
            seen_by_policy.append((instruction, near(picture, RED)))
            robot.colour = RED

    exec(block("while not task.done").replace(TASK, RED), {"act": act})
    assert (RED, True) in seen_by_policy
    assert capsys.readouterr().out == "done, re-planned 0 times\n"


@pytest.mark.parametrize(
    ("base", "xml", "given"),
    [
        ("RosActionNode<Action>", "BTCPP_format", {"action_name"}),
        ("nav2_behavior_tree::BtActionNode<Action>", "<FollowPath", {"server_name", "server_timeout"}),
    ],
)
def test_a_tree_in_xml_uses_the_ports_of_the_leaf_in_cpp(base, xml, given):
    leaf, tree = block(base), ElementTree.fromstring(block(xml))
    ports = {*given, *re.findall(r'(?:In|Out)putPort<[^>]*>\("(\w+)"', leaf)}
    used = [node.attrib for node in tree.iter("ExecuteTask")]
    assert used
    assert "task" in used[0]
    assert set().union(*used) <= ports
    assert "nav2_behavior_tree goalreel_interfaces" in block("add_library")


def test_what_is_to_be_installed_is_what_is_tested():
    pip, install, *names = shlex.split(block("pip install"))
    assert (pip, install) == ("pip", "install")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["ros"]
    assert set(names[:-2]) <= set(extras)
    assert [(ROOT / name).is_dir() for name in names[-2:]] == [True, True]


def read_by_lerobot(words, kind, monkeypatch):
    """A command line as lerobot's own parser reads it."""
    from lerobot.configs import parser
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()  # as lerobot's commands do: ours is one
    monkeypatch.setattr(sys, "argv", words)

    @parser.wrap()
    def parse(cfg: kind) -> kind:
        return cfg

    return parse()


def test_the_recipes_command_lines(monkeypatch):
    import lerobot.policies.factory  # noqa: F401  (registers every policy)
    from lerobot.configs.train import TrainPipelineConfig

    from goalreel.cli.main import app

    (_, command, *words), train = map(shlex.split, block("lerobot-train").strip().splitlines())
    words[0] = str(ROOT)  # a folder that is there
    given = get_command(app).get_command(None, command).make_context(command, words).params
    assert (given["granularity"], given["task_per_frame"]) == ("subtask", True)
    assert train[0] == "lerobot-train"
    config = read_by_lerobot(train, TrainPipelineConfig, monkeypatch)
    assert (config.policy.type, config.policy.push_to_hub) == ("act", False)
    assert config.dataset.root == str(given["out"])


def test_lerobots_command_line(tmp_path, monkeypatch):
    from lerobot.scripts.lerobot_rollout import RolloutConfig  # which registers every robot
    from support.act_policy import save_act

    words = shlex.split(block("type: goalreel, ").replace("my_policy", str(save_act(tmp_path / "policy"))))
    assert words[0] == "lerobot-rollout"
    config = read_by_lerobot(words, RolloutConfig, monkeypatch)
    camera = config.robot.cameras["subgoal"]
    assert (camera.type, camera.width, camera.height) == ("goalreel", 640, 480)
    assert config.task == TASK


def test_goalreels_own_command_line(tmp_path):
    from support.act_policy import save_act

    from goalreel.cli.main import app
    from goalreel.streaming.rollout import NewestGoal, add_camera, read_options

    policy = save_act(tmp_path / "policy")
    goalreel, rollout, *words = shlex.split(block("goalreel rollout").replace("my_policy", str(policy)))
    assert (goalreel, rollout) == ("goalreel", "rollout")
    given = get_command(app).get_command(None, "rollout").make_context("rollout", words).params
    assert (given["instruction"], given["preset"]) == (TASK, "server")
    config = read_options(given["instruction"], given["lerobot_options"])
    assert config.task == TASK
    assert add_camera(config, NewestGoal(print), given["subgoal_camera"], given["subgoal_form"])
    camera = config.robot.cameras["subgoal"]
    assert (camera.width, camera.height, camera.fps) == (64, 48, 30)


@pytest.mark.process
def test_the_leaf_of_a_behaviour_tree(client, robot, monkeypatch):
    monkeypatch.setattr("goalreel_ros.client.GoalreelClient", lambda: client)
    code = block("children=[red, green]").replace(TASK, RED).replace("put the green block in the bowl", GREEN)
    exec(code, leaves := {})
    tree, red, green = leaves["tree"], leaves["red"], leaves["green"]

    def ticked() -> str:
        tree.tick_once()
        return red.board.subgoal.name if red.board.subgoal is not None else ""

    until(lambda: ticked() == RED)
    robot.colour = RED
    until(lambda: ticked() == GREEN)
    assert (red.status, green.status) == (Status.SUCCESS, Status.RUNNING)
    tree.stop(Status.INVALID)
    assert green.run.wait(60)
    until(lambda: not client.subgoal().active)


@pytest.mark.process
def test_every_block_was_run():
    """After the others of the pages, because it looks at what they did."""
    assert {body for _, body in BLOCKS} == USED


# -- the example, and lerobot's rollout, with a real ACT checkpoint


@pytest.fixture
def example() -> ModuleType:
    """The policy's example as a module: a process of its own would import lerobot anew."""
    spec = importlib.util.spec_from_file_location("example", ROOT / "examples" / "follow_subgoals.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.process
@pytest.mark.long
def test_a_policy_follows_the_node(client, robot, scripted, example, tmp_path, monkeypatch, capsys):
    from support.act_policy import save_act

    film = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for _ in range(3000):
        film.write(np.full((48, 64, 3), 90, np.uint8))
    film.release()
    words = [str(save_act(tmp_path / "policy")), str(tmp_path / "film.avi"), f"{RED}, {GREEN}"]
    monkeypatch.setattr(sys, "argv", [example.__file__, *words])
    send, sent = example.send, []

    def note(action: np.ndarray) -> None:
        send(action)
        sent.append(tuple(round(float(a), 4) for a in action))

    monkeypatch.setattr(example, "send", note)

    def acts(distinct: int) -> None:
        """Wait for its actions, without a goal and for each: the client here may hear of one sooner."""
        until(lambda: len(set(sent)) >= distinct or following.done(), 300)
        assert not following.done() or following.result() is None

    with ThreadPoolExecutor(1) as pool:
        try:
            with scripted.planner.gate.shut():
                following = pool.submit(example.main)
                acts(1)
                assert not until(client.subgoal).active
            acts(2)
            until(lambda: client.subgoal().instruction == RED)
            robot.colour = RED
            acts(3)
            until(lambda: client.subgoal().instruction == GREEN)
            robot.colour = GREEN
            assert following.result(60) is None
        finally:
            with suppress(GoalreelError):  # there is no task any more
                client.cancel()
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    assert printed == [list(action) for action in sent]
    assert all(len(action) == 2 for action in sent)


@pytest.mark.process
@pytest.mark.long
def test_lerobot_rollout_reads_the_live_goal(client, robot, tmp_path, monkeypatch):
    """lerobot's command line runs in this process: another one would import it anew."""
    from lerobot.scripts import lerobot_rollout
    from support.act_policy import save_act

    task = client.execute(f"{RED} {GREEN}")
    until(lambda: client.subgoal().active)
    log = tmp_path / "log.jsonl"
    monkeypatch.syspath_prepend(SUPPORT)
    monkeypatch.setattr(sys, "argv", [
        "lerobot-rollout", "--robot.discover_packages_path=still_robot", "--robot.type=still",
        f"--robot.log={log}",
        "--robot.cameras={subgoal: {type: goalreel, width: 64, height: 48, timeout_s: 60, warmup_s: 20}}",
        f"--policy.path={save_act(tmp_path / 'policy')}", "--fps=10", "--play_sounds=false",
        "--return_to_initial_position=false",
    ])  # fmt: skip
    monkeypatch.setattr(lerobot_rollout, "init_logging", lambda: None)  # it would take pytest's handlers away

    def lines() -> list[dict]:
        whole = log.read_text().rpartition("\n")[0] if log.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def shown(line: dict) -> str:
        return (RED, GREEN, "")[np.array(line["shown"]["subgoal"]).reshape(-1, 3).mean(0).argmax()]

    over = threading.Event()

    def person() -> None:
        """Has another goal come, and ends the rollout once it is seen."""
        try:
            until(lambda: over.is_set() or len(lines()) > 5, 120)
            robot.colour = RED
            until(lambda: over.is_set() or shown(lines()[-1]) == GREEN)
        finally:
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGINT)

    with kept_signals(), ThreadPoolExecutor(1) as pool:
        done = pool.submit(person)
        try:
            lerobot_rollout.main()
        finally:
            over.set()
    assert done.result() is None
    task.cancel(60)
    first, *_, last = lines()
    assert (shown(first), shown(last)) == (RED, GREEN)
    assert not np.allclose(first["action"], last["action"], atol=1e-4)


# -- the example of a behaviour tree


@pytest.mark.process
def test_a_policy_that_gets_nowhere_has_it_planned_again_and_is_given_up(client, robot):
    words = (f"{RED} {GREEN}", "--patience=0.5", "--replans=1", "--ros-args", "--log-level", "info")
    tree = Other(str(ROOT / "examples" / "behaviour_tree.py"), *words)
    until(lambda: tree.process.poll() is not None, 120)
    tree.stop()
    assert tree.process.returncode == 1, "\n".join(tree.lines)
    last = max(i for i, line in enumerate(tree.lines) if re.search(r"do it \[", line))
    assert any("no re-plan is left" in line for line in tree.lines[last:])
    until(lambda: not client.subgoal().active)  # the task was cancelled


# -- a policy sees live what it was trained on: the same pixels from the node as in an annotated dataset

KEY = "observation.images.subgoal"
LATER = 6
"""A frame on which the robot has done something, though not what is wanted."""


FORM = "difference"
"""One that follows the camera."""


@pytest.fixture
def trained_on(tmp_path) -> list[np.ndarray]:
    """The sub-goal camera of a dataset with the goal that the node will have, frame by frame."""
    folder = tmp_path
    source = Source.open(make_dataset(folder / "in", (12,), cameras=("front",)))
    board = storyboard(12, ("accepted",), drawn=(0,))
    (step,) = board.steps
    goal = step.attempts[0].model_copy(update={"image": Image(painted(moving_square(0, 0), RED))})
    board = board.model_copy(update={"steps": (step.model_copy(update={"attempts": (goal,)}),)})
    with Records.open(folder / "out", {}, source.fingerprint()) as records:
        records.commit(0, board)
        build(source, folder / "out", records, form=FORM)
    frames = Source.open(folder / "out").episode(0).frames(KEY, range(12))
    return [image.pixels.astype(int) for image in frames]


def film(robot, frame: int) -> None:
    """Let the robot's camera see a frame of the dataset."""
    data = array("B", moving_square(frame, 0).tobytes())
    robot.film(lambda: robot.frame(size=(48, 48), data=data))


def coarse(picture: np.ndarray) -> np.ndarray:
    """Give what two codecs leave of the noise in the pictures: the means of 4x4 pixels."""
    return cv2.resize(picture.astype(np.float32), (12, 12), interpolation=cv2.INTER_AREA)


@pytest.mark.process
def test_the_camera_shows_what_the_policy_was_trained_on(served, trained_on):
    from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig

    arm = ["--ros-args", "-r", "__ns:=/arm"]
    topic = "/arm/goalreel/subgoal/image/compressed"
    config = GoalreelCameraConfig(topic=topic, width=48, height=48, timeout_s=60, warmup_s=0)
    known = {0: trained_on[0], LATER: trained_on[LATER], "black": np.zeros((48, 48, 3))}
    with (
        start(*arm[1:], url=served[1], subgoal_form=FORM, image_timeout=120.0),
        closing(Robot(args=arm)) as robot,
        GoalreelClient(timeout=60, args=arm) as client,
        GoalreelCamera(config) as camera,
    ):

        def shown() -> object:
            """Which of them; None where it is none."""
            seen = coarse(camera.read_latest(60_000))
            errors = {name: float(np.abs(seen - coarse(picture)).mean()) for name, picture in known.items()}
            best = min(errors, key=errors.get)
            return best if errors[best] < 5 else None

        film(robot, 0)
        task = client.execute(RED)
        until(lambda: shown() == 0)
        film(robot, LATER)
        until(lambda: shown() == LATER)
        robot.stop_filming()
        until(lambda: shown() == "black")  # no fresh frame, no picture that is made of it
        film(robot, 0)
        until(lambda: shown() == 0)
        task.cancel()
        until(lambda: shown() == "black")
