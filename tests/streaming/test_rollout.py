"""`goalreel rollout`: lerobot's own rollout of a real ACT policy, on a simulated robot, without ROS."""

import itertools
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from draccus.wrappers import docstring
from lerobot.datasets.language import LANGUAGE_PERSISTENT
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from support.act_policy import CAMERAS, save_act
from support.cli import fails, invoke, kept_signals
from support.places import SUPPORT
from support.recordings import make_dataset
from support.subtasks import add_subtasks
from support.wait import until

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from support.boards import record

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.streaming.board import Board, Goal, StepPanel
from goalreel.streaming.cue import ExamplesCue
from goalreel.streaming.rollout import add_camera, read_options
from goalreel.streaming.subgoalcamera import (
    GoalGatedEngine,
    NewestGoal,
    SubgoalCamera,
    SubgoalCameraConfig,
    SubgoalTaskStep,
)
from goalreel.subgoal_camera import in_form
from goalreel.tabletop.env import HOME_TIP
from goalreel.tabletop.grammar import sample_episode
from goalreel.types import Attempt, Step, Verdict

SEED = 21
EPISODE = sample_episode(SEED)
QUICK = ("-p", "critic_period=0", "-p", "track_rate=20", "-p", "max_image_age=60")


REST = (*map(float, HOME_TIP), 0.0, 1.0)
"""The arm at home, its gripper open."""


class Bench:
    """Words of `goalreel rollout` on the table, and what its robot and its policy have written down."""

    def __init__(self, folder: Path, policy: Path) -> None:
        self.policy = policy
        self.log, self.read = folder / "actions.jsonl", folder / "tasks.jsonl"

    def words(
        self, *more: str, instruction: str = EPISODE.instruction, robot: tuple[str, ...] = ()
    ) -> list[str]:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        models = [f"--{role}=server:http://127.0.0.1:{port}" for role in ("planner", "editor", "critic")]
        return [
            "rollout", instruction, "--preset=server", *models, *QUICK, *more, "--",
            "--robot.discover_packages_path=tabletop_robot", "--robot.type=tabletop",
            f"--robot.seed={SEED}", f"--robot.models_port={port}", f"--robot.log={self.log}",
            f"--policy.path={self.policy}", "--fps=10", "--return_to_initial_position=false",
            *robot,
        ]  # fmt: skip

    @property
    def actions(self) -> list:
        lines = self.log.read_text().splitlines() if self.log.is_file() else []
        return [json.loads(line) for line in lines]

    @property
    def tasks(self) -> list[str]:
        """Give what the policy read as its task, without repetitions."""
        lines = (json.loads(line) for line in self.read.read_text().splitlines())
        return [task for task, _ in itertools.groupby(t[0] if isinstance(t, list) else t for t in lines)]


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """(one with the sub-goal camera, one without)"""
    with pytest.MonkeyPatch.context() as patch:
        # For each command line draccus searches lerobot's sources anew for what its --help would say.
        patch.setattr(docstring, "get_attribute_docstring", cache(docstring.get_attribute_docstring))
        patch.syspath_prepend(SUPPORT)
        from tabletop_robot import NoteTask

        yield [
            save_act(tmp_path_factory.mktemp("policy"), cameras, rest=REST, spread=1e-4, steps=[NoteTask()])
            for cameras in (CAMERAS, CAMERAS[:1])
        ]


@pytest.fixture
def bench(policies, tmp_path, monkeypatch):
    it = Bench(tmp_path, policies[0])
    monkeypatch.setenv("TASKS_READ", str(it.read))
    return it


@pytest.fixture(autouse=True)
def signals():
    with kept_signals():
        yield


@pytest.mark.long
def test_a_policy_is_led_through_a_plan(bench):
    done, goals = invoke(*bench.words()), EPISODE.goals
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"done: {len(goals)} sub-goals in "), done.stdout
    assert len(bench.tasks) == len(goals)
    for number, name in enumerate(bench.tasks, 1):
        assert f"{number}/{len(goals)}: {name} (accepted)\n" in done.stderr
        assert " is " not in name, "the step's name, as annotated datasets have it, not the state it leads to"
    assert EPISODE.instruction not in bench.tasks
    *acted, last = bench.actions
    assert last == "let go"
    assert all(np.max(a["subgoal"]) > 0 for a in acted), "it acts only where a sub-goal is to be seen"
    shown = [tuple(a["subgoal"]) for a in acted]
    assert len(set(shown)) >= len(goals), "each sub-goal has a picture of its own"
    assert not np.allclose(acted[0]["action"], acted[-1]["action"], rtol=0, atol=1e-9), "the policy sees it"


@pytest.mark.long
def test_labelled_episodes_get_the_numbers_that_lerobot_reads(bench, tmp_path, monkeypatch):
    rng, names = np.random.default_rng(0), ("x.pos", "y.pos", "z.pos", "yaw.pos", "gripper.pos")
    root, text = tmp_path / "labelled", EPISODE.instruction
    states = [rng.normal(size=(30, 5)).cumsum(axis=0) for _ in range(2)]
    make_dataset(root, states=states, names=names, dtype="image", task=text)
    add_subtasks(root, dict.fromkeys(range(2), (10, 20)), ["grasp it", "put it in", "leave"])
    missing: list[list[str]] = []
    push = ExamplesCue.push

    def watched(cue: ExamplesCue, numbers) -> None:
        push(cue, numbers)
        missing.append([name for name in cue.names if f"{name}.pos" not in numbers])

    monkeypatch.setattr(ExamplesCue, "push", watched)
    done = invoke(*bench.words("-p", f"examples={root}"))
    assert done.exit_code == 0, done.stderr
    assert missing
    assert not any(missing)


def rows_of(root: Path) -> list[list[tuple[str, str]]]:
    """Give the rows that hold on each recorded frame, as lerobot's loader and renderer find them."""
    dataset = LeRobotDataset("recorded", root=root)
    frames = (dataset[i] for i in range(len(dataset)))
    return [
        [(r["style"], r["content"]) for r in f[LANGUAGE_PERSISTENT] if r["timestamp"] <= f["timestamp"]]
        for f in frames
    ]


def recorded(strategy: str, root: Path) -> tuple[str, ...]:
    """Options of lerobot-rollout that record."""
    video = str(strategy != "episodic").lower()  # streamed: otherwise lerobot forks to encode it
    return (
        f"--strategy.type={strategy}", "--dataset.repo_id=me/rollout_table", f"--dataset.root={root}",
        "--dataset.push_to_hub=false", "--dataset.fps=10", "--play_sounds=false",
        f"--dataset.video={video}", f"--dataset.streaming_encoding={video}",
    )  # fmt: skip


def press(patch: pytest.MonkeyPatch, key: Callable[[], str]) -> None:
    """Stand in for the keyboard: after each action of the robot, press the key that `key` names, if any."""
    from lerobot.rollout.strategies import dagger, highlight
    from tabletop_robot import TabletopRobot

    pressed, act = [], TabletopRobot.send_action
    for module in (dagger, highlight):
        patch.setattr(module, "create_key_listener", lambda press, **_: pressed.append(press))

    def send_action(robot, action):
        act(robot, action)
        if name := key():
            pressed[-1](name)

    patch.setattr(TabletopRobot, "send_action", send_action)


@pytest.mark.long
@pytest.mark.parametrize(
    "strategy", ["sentry", *(pytest.param(name, marks=pytest.mark.lab) for name in ("episodic", "highlight"))]
)
def test_what_was_followed_becomes_rows_of_the_recording(bench, tmp_path, strategy, monkeypatch):
    root = tmp_path / "recorded"
    recording = recorded(strategy, root)
    if strategy == "highlight":  # what lies before the key is recorded too
        keys = iter("s")
        press(monkeypatch, lambda: next(keys, "") if len(bench.tasks) > 1 else "")
    done = invoke(*bench.words(robot=recording))
    assert done.exit_code == 0, done.stderr
    rows = rows_of(root)
    followed = [[text for style, text in frame if style == "subtask"][-1] for frame in rows]
    assert [name for name, _ in itertools.groupby(followed)] == bench.tasks
    assert LeRobotDataset("recorded", root=root)[0]["task"] == EPISODE.instruction
    memories = [text for style, text in rows[-1] if style == "memory"]
    assert memories == [f"Done so far: {'; '.join(bench.tasks[:n])}" for n in range(1, len(bench.tasks))]
    assert [text for style, text in rows[-1] if style == "plan"][-1] == f"1. {bench.tasks[-1]}"
    if strategy != "sentry":
        return
    limits = ("-p", "max_replans=0", "-p", "stall_timeout=2")
    again = (*recording, "--resume=true", "--robot.patience=1000000")
    assert "REPLANS_EXHAUSTED" in fails(*bench.words(*limits, robot=again))
    again = rows_of(root)
    assert again[: len(rows)] == rows, "the rows of an earlier rollout stay"
    assert {style for style, _ in again[-1]} == {"plan", "subtask"}, "attempted, and never remembered as done"


@pytest.mark.long
@pytest.mark.parametrize("autonomous", ["true", pytest.param("false", marks=pytest.mark.lab)])
def test_a_person_may_take_over_for_as_long_as_it_takes(bench, tmp_path, autonomous, monkeypatch):
    """lerobot passes no frames on meanwhile: the task waits, and the rows go on."""
    reasons, told = [], NewestGoal.on_goal
    monkeypatch.setattr(NewestGoal, "on_goal", lambda self, g: told(self, g) or reasons.append(g.reason))

    def keys() -> Iterator[str]:
        yield from ("space", "tab")
        yield from itertools.takewhile(lambda _: "paused" not in reasons, itertools.repeat(""))
        yield from ("tab", "space")
        yield from itertools.repeat("")

    pressed = keys()
    press(monkeypatch, lambda: next(pressed))
    by_hand = ("--teleop.type=hand", "--strategy.smooth_handover=false")
    root = tmp_path / "recorded"
    how = (*recorded("dagger", root), *by_hand, f"--strategy.record_autonomous={autonomous}")
    done = invoke(*bench.words(robot=how))
    assert done.exit_code == 0, done.stderr
    rows, dataset = rows_of(root), LeRobotDataset("recorded", root=root)
    hand = [i for i in range(len(rows)) if dataset[i]["intervention"]]
    assert {[text for style, text in rows[i] if style == "subtask"][-1] for i in hand} == {bench.tasks[0]}
    assert (len(rows) > len(hand)) == (autonomous == "true")


@pytest.mark.long
def test_ctrl_c_lets_the_robot_go_and_is_one_line(bench):
    def interrupt() -> None:
        until(lambda: bench.actions or ended.is_set(), 240)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    ended = threading.Event()
    somebody = threading.Thread(target=interrupt)
    somebody.start()
    try:
        done = invoke(*bench.words(robot=("--robot.patience=1000000",)))
    finally:
        ended.set()
        somebody.join()
    assert done.exit_code == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "goalreel: interrupted"
    assert bench.actions[-1] == "let go"


@pytest.mark.lab
def test_a_policy_without_the_camera_is_told_in_words(bench, policies):
    bench.policy = policies[1]
    done = invoke(*bench.words())
    assert done.exit_code == 0, done.stderr
    assert "observation.images.subgoal: it is told in words alone" in done.stderr
    assert len(bench.tasks) == len(EPISODE.goals)
    bench.log.unlink()
    assert "nothing of the plan would reach it" in fails(*bench.words("--text=instruction"))
    assert bench.actions == [], "before the robot is touched"


def test_what_ends_otherwise_is_one_line(bench):
    assert "PLANNER_FAILED" in fails(*bench.words(instruction="sing"))
    assert bench.actions == ["let go"], "no action without a sub-goal"
    short = bench.words(robot=("--robot.patience=1000000", "--duration=1"))
    assert "ended before the task did: see --duration" in fails(*short)


@pytest.mark.parametrize(
    ("more", "robot", "message"),
    [
        ((), ("--task=dance",), "--task is goalreel's own"),
        ((), ("--robt.type=x",), "unrecognized arguments: --robt.type=x"),
        (("-p", "track_rate=99"), (), "-p track_rate: Input should be less than or equal to 30"),
        (("-p", "colour=red"), (), "-p colour: there is no such setting"),
        (("--preset=hindsight", "--planner=kinematic"), (), "only reads recordings"),
        ((), ("--robot.remote=true",), "a tabletop does not open its cameras here"),
        (("--subgoal-form=beside",), (), "--subgoal-form beside shows the live frame too"),
        (("--camera=wrist",), (), "the robot's cameras are front: 'wrist' is none of them"),
    ],
)
def test_what_does_not_fit_is_one_line(bench, more, robot, message):
    said = fails(*bench.words(*more, robot=robot))
    assert message in said
    assert not any("action" in line for line in bench.actions)


def goal_of(text: str, active: bool = True, colour: int = 200) -> Goal:
    step = Step(name=text, instruction=text, prompt=text)
    picture = Image(np.full((24, 64, 3), colour, np.uint8))
    attempt = Attempt(prompt=text, seed=0, image=picture, verdict=Verdict(success=True))
    panel = StepPanel(0, record(step, attempt), 1, image_status="accepted")
    return Goal(Board(steps=(panel,)), panel, "active" if active else "paused", 1)


def test_the_camera_shows_the_goal_as_datasets_do():
    said = []
    goals = NewestGoal(said.append)
    camera = SubgoalCamera(SubgoalCameraConfig(width=64, height=48, fps=10, goals=goals, form="plain"))
    with camera:
        assert camera.read().max() == 0
        goals.on_goal(goal_of("red"))
        picture = camera.async_read()
        assert picture.shape == (48, 64, 3)
        assert (picture[24] == 200).all()
        assert picture[:12].max() == 0, "borders, never stretched"
        picture[:] = 0
        assert camera.read_latest().max() == 200, "and never changed by who reads"
        goals.on_goal(goal_of("red", active=False))
        assert camera.read_latest().max() == 0
    assert said == ["1/1: red (accepted)", "1/1: hold still"]
    goals.on_goal(goal_of("red"))
    marked = SubgoalCameraConfig(width=64, height=24, fps=10, goals=goals, form="bordered")
    with SubgoalCamera(marked) as camera:
        wanted = in_form("bordered", np.full((24, 64, 3), 200, np.uint8))
        assert np.array_equal(camera.read(), wanted), "in the form of the dataset"


class Counting:
    """An engine that answers with how often it was asked since its reset."""

    def __init__(self) -> None:
        self.asked = 0

    def get_action(self, obs_frame):
        self.asked += 1
        return self.asked

    def reset(self) -> None:
        self.asked = 0


def test_a_new_goal_drops_what_was_imagined_and_none_holds_the_robot():
    goals = NewestGoal(lambda line: None)
    following = GoalGatedEngine(Counting(), goals, lambda observation: None)
    assert following.get_action({}) is None
    goals.on_goal(goal_of("red"))
    assert [following.get_action({}) for _ in range(3)] == [None, 1, 2]
    assert following.subtask == "red"
    goals.on_goal(goal_of("green"))
    assert [following.get_action({}) for _ in range(2)] == [None, 1]
    goals.on_goal(goal_of("green", active=False))
    assert [following.get_action({}) for _ in range(2)] == [None, None]
    assert following.subtask is None


def test_the_words_stand_in_for_the_task_alone():
    words = iter(["red", "red", None])
    step = SubgoalTaskStep(lambda: next(words))
    assert step.complementary_data({"task": "all", "index": 1}) == {"task": "red", "index": 1}
    assert step.complementary_data({"task": ["all"]}) == {"task": ["red"]}
    assert step.complementary_data({"task": "all"}) == {"task": "all"}


def test_a_robot_without_cameras_of_lerobots_is_refused(policies):
    config = read_options("go", [f"--policy.path={policies[0]}", "--robot.type=earthrover_mini_plus"])
    with pytest.raises(InputError, match=r"robot type earthrover_mini_plus has no --robot\.cameras"):
        add_camera(config, NewestGoal(lambda line: None), "subgoal", "plain")
