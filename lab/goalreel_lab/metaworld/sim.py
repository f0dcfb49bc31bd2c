"""A task of Meta-World in simulation: its expert, its pictures, and its contacts.

The experts move at up to 0.8 m/s, about four times as fast as robots that people steer. Slower commands make
them fail, so time is stretched: a control step of 1/80 s counts as 1/20 s, and every second one is a frame.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from av.logging import ERROR, set_libav_level
from datasets.utils.logging import disable_progress_bar as disable_progress_bars
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from numpy.typing import NDArray

if sys.platform == "linux" and not os.environ.get("DISPLAY"):
    os.environ.setdefault("MUJOCO_GL", "egl")  # read once, when mujoco is imported

# isort: split
import metaworld
import mujoco
from metaworld.policies import ENV_POLICY_MAP

from goalreel.datasets.writing.video import recording_encoder
from goalreel.errors import InputError
from goalreel_lab.metaworld.tasks import Ending, tasks, wording
from goalreel_lab.metaworld.truth import BodyTruth, RecordingTruth, TaskTruth, write_truth

FPS = 10
_STEPS = 2
"""Control steps a frame."""
_LONGEST = 400
"""Frames after which an expert has failed."""
_CAMERA, _PLACE = "corner2", (0.75, 0.075, 0.7)
"""The camera, and where lerobot moves it: nearer."""
_STAY, _OPEN, _RISE, _HOMEWARDS = 6, 8, 12, 50
"""Frames of each part of an ending."""
_OPPOSITE = 0.6
"""Share of a contact's force direction along the line between the fingers that counts as squeezing."""

type Action = NDArray[np.float64]
"""(4,): three directions and the gripper's effort, all within -1 .. 1; 1 closes."""
type Observation = NDArray[np.float64]
"""(39,), as Meta-World gives it: the hand (m), the gripper's opening, two things of the task, its goal."""


@dataclass(frozen=True)
class BodyState:
    """State of a body at one moment (see `BodyTruth`)."""

    touched: bool
    held: bool
    met: bool
    pose: tuple[float, ...]


@dataclass(frozen=True)
class SimulatedMoment:
    """One moment before an action: (size, size, 3) RGB, the robot's numbers, and the truth."""

    picture: NDArray[np.uint8]
    observation: Observation
    action: Action
    """Next action of the expert."""
    success: bool
    bodies: dict[str, BodyState]

    @property
    def hand(self) -> NDArray[np.float64]:
        """Say where the hand is, in m."""
        return self.observation[:3]

    @property
    def opening(self) -> float:
        """Say how far the gripper is open: 1 is open."""
        return float(self.observation[3])


class Workbench:
    """A task's table, arm and expert; the same task and seed give the same start."""

    def __init__(self, task: str, size: int) -> None:
        self._benchmark = metaworld.MT1(task, seed=0)
        self._env: Any = self._benchmark.train_classes[task]()
        self._env.max_path_length = 10**6
        self._expert = ENV_POLICY_MAP[task]
        model = self._env.model
        self._model: mujoco.MjModel = model
        self._data: mujoco.MjData = self._env.data
        quality = model.vis.quality
        quality.shadowsize = quality.offsamples = 0
        model.camera(_CAMERA).pos[:] = _PLACE
        self._size = size
        names = dict.fromkeys(tasks()[task].objects.values())
        self._bodies = {name: self._geoms(self._model.body(name).id) for name in names}
        self._joints = {name: self._coordinates(geoms) for name, geoms in self._bodies.items()}
        self._hand = self._geoms(self._model.body("right_hand").id)
        self._touched: set[str] = set()
        """Bodies that the hand has touched since the last frame: contact may flicker."""
        self._fingers = [self._geoms(self._model.body(f"{side}claw").id) for side in ("left", "right")]

    @property
    def movable(self) -> dict[str, bool]:
        """Tell of each body that matters whether it can move."""
        return {name: bool(len(joints)) for name, joints in self._joints.items()}

    def run(self, seed: int, ending: Ending) -> list[SimulatedMoment] | None:
        """Record the expert and the ending; None where the expert fails."""
        self._start(seed)
        frames: list[SimulatedMoment] = []
        success = False
        with self._renderer() as renderer, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Constant")  # of Meta-World, about its own experts
            for action in self._actions(ending):
                frames.append(self._frame(renderer, action, success))
                if len(frames) > _LONGEST:
                    return None
                success = self._step(action)
        return frames

    def _renderer(self) -> closing[mujoco.Renderer]:
        return closing(mujoco.Renderer(self._model, self._size, self._size))

    def _start(self, seed: int) -> None:
        self._env.set_task(self._benchmark.train_tasks[seed % len(self._benchmark.train_tasks)])
        self._observation, _ = self._env.reset()
        self._touched = set()

    def _step(self, action: Action) -> bool:
        info: dict[str, Any] = {}
        for _ in range(_STEPS):
            self._observation, _, _, _, info = self._env.step(np.clip(action, -1, 1).astype(np.float32))
            self._touched |= self._touches(self._pairs())
        return bool(info["success"])

    def _actions(self, ending: Ending) -> Iterator[Action]:
        """Yield an action a frame; it is carried out before the next is asked for."""
        expert = self._expert()
        start = self._observation[:3].copy()
        while True:
            action = np.clip(expert.get_action(self._observation), -1, 1).astype(np.float64)
            yield action
            if self._done():
                break
        if ending == "stay":
            for _ in range(_STAY):
                yield np.clip(expert.get_action(self._observation), -1, 1).astype(np.float64)
            return
        for _ in range(_OPEN):
            yield np.array([0, 0, 0, -1.0])
        for _ in range(_RISE):
            yield np.array([0, 0, 0.7, -1.0])
        for _ in range(_HOMEWARDS if ending == "home" else 0):
            way = start - self._observation[:3]
            if np.linalg.norm(way) < 0.01:
                break
            if np.linalg.norm(way[:2]) > 0.03:
                way[2] = max(way[2], 0)  # down only where it began: nothing is in the way there
            yield np.array([*np.clip(10 * way, -1, 1), -1.0])

    def _done(self) -> bool:
        return bool(self._env.evaluate_state(self._observation, np.zeros(4, np.float32))[1]["success"])

    def _picture(self, renderer: mujoco.Renderer) -> NDArray[np.uint8]:
        renderer.update_scene(self._data, camera=_CAMERA)
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        return renderer.render()[::-1, ::-1].copy()  # this camera hangs upside down

    def _frame(self, renderer: mujoco.Renderer, action: Action, success: bool) -> SimulatedMoment:
        return SimulatedMoment(
            picture=self._picture(renderer),
            observation=self._observation.copy(),
            action=action,
            success=success,
            bodies=self._states(),
        )

    def _pairs(self) -> "list[_Pair]":
        contact, number = self._data.contact, self._data.ncon
        return [
            (int(a), int(b), normal)
            for (a, b), normal in zip(contact.geom[:number], contact.frame[:number, :3], strict=True)
        ]

    def _touches(self, pairs: "list[_Pair]") -> set[str]:
        return {name for name, geoms in self._bodies.items() if _meet(pairs, geoms, self._hand)}

    def _states(self) -> dict[str, BodyState]:
        pairs = self._pairs()
        touched = self._touches(pairs) | self._touched
        self._touched = set()
        between = self._data.body("rightpad").xpos - self._data.body("leftpad").xpos
        between = between / np.linalg.norm(between)
        return {
            name: BodyState(
                touched=name in touched,
                held=all(
                    _squeezed(pairs, geoms, finger, sign * between)
                    for finger, sign in zip(self._fingers, (1, -1), strict=True)
                ),
                met=any(
                    _meet(pairs, geoms, other)
                    for tool, other in self._bodies.items()
                    if tool != name and tool in touched
                ),
                pose=tuple(float(x) for x in self._data.qpos[self._joints[name]]),
            )
            for name, geoms in self._bodies.items()
        }

    def _geoms(self, root: int) -> frozenset[int]:
        """The geoms of a body and of all that hangs on it."""
        parents = self._model.body_parentid

        def below(body: int) -> bool:
            while body and body != root:
                body = int(parents[body])
            return body == root

        return frozenset(g for g in range(self._model.ngeom) if below(int(self._model.geom_bodyid[g])))

    def _coordinates(self, geoms: frozenset[int]) -> NDArray[np.int64]:
        """Places in qpos of the positions of the bodies with these geoms, without the turns of a free one."""
        bodies = {int(self._model.geom_bodyid[g]) for g in geoms}
        bodies |= {int(self._model.body_parentid[b]) for b in bodies} - {0}
        model = self._model
        places: list[int] = []
        for joint in range(model.njnt):
            if int(model.jnt_bodyid[joint]) in bodies:
                width = 3 if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE else 1
                places += range(model.jnt_qposadr[joint], model.jnt_qposadr[joint] + width)
        return np.array(places, np.int64)


type _Pair = tuple[int, int, NDArray[np.float64]]


def _meet(pairs: list[_Pair], some: frozenset[int], others: frozenset[int]) -> bool:
    return any((a in some and b in others) or (b in some and a in others) for a, b, _ in pairs)


def _squeezed(
    pairs: list[_Pair], body: frozenset[int], finger: frozenset[int], inwards: NDArray[np.float64]
) -> bool:
    """Tell if a finger presses on a body in the direction of the other finger."""
    for a, b, normal in pairs:  # which points from geom a to geom b
        if (a in finger and b in body and normal @ inwards > _OPPOSITE) or (
            b in finger and a in body and -normal @ inwards > _OPPOSITE
        ):
            return True
    return False


_TRIES = 6
"""Number of starts that an expert is given for one recording."""
_STATE = ("x", "y", "z", "gripper")
_ACTION = ("dx", "dy", "dz", "gripper")


def record_task(out: Path, task: str, seeds: Sequence[int], size: int = 128) -> TaskTruth:
    """Write an episode of a task for each of `seeds` to the new folder `out`.

    The state is the hand's position (m) and the gripper; the action is how far the hand is told to go, in
    shares of the greatest step, and the gripper. Which end of the gripper is closed differs from task to
    task. The dataset appears only when it is complete.

    Raises:
        InputError: the expert fails from every start.
    """
    set_libav_level(ERROR)
    disable_progress_bars()
    closed_high = sorted(tasks()).index(task) % 2 == 1
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as workshop:
        root = Path(workshop) / "dataset"
        dataset = LeRobotDataset.create(
            f"goalreel/{out.name}",
            fps=FPS,
            features={
                "observation.images.corner": {
                    "dtype": "video",
                    "shape": (size, size, 3),
                    "names": ["height", "width", "channels"],
                },
                "observation.state": _numbers(_STATE),
                "action": _numbers(_ACTION),
            },
            root=root,
            robot_type="sawyer",
            rgb_encoder=recording_encoder().lerobot_config(),
        )
        bench = Workbench(task, size)
        episodes = []
        try:
            for seed in seeds:
                frames, episode = _perform(bench, task, seed)
                for frame in frames:
                    dataset.add_frame(_row(frame, closed_high) | {"task": episode.instruction})
                dataset.save_episode(parallel_encoding=False)  # forks otherwise, with a GL context alive
                episodes.append(episode)
        finally:
            dataset.finalize()  # else its destructor would write again after the workshop is gone
        closed = "high" if closed_high else "low"
        truth = TaskTruth(fps=FPS, closed=closed, episodes=tuple(episodes))
        write_truth(root, truth)
        root.rename(out)
    return truth


def _perform(bench: Workbench, task: str, seed: int) -> tuple[list[SimulatedMoment], RecordingTruth]:
    """Record the first start from which the expert succeeds.

    Meta-World has goals in the air. What is to be let go there would fall: then the arm holds on to it.
    """
    stays_done = tasks()[task].kind == "grasp"
    endings: tuple[Ending, ...] = (wording(task, seed).ending, "stay")
    for ending in dict.fromkeys(endings):
        for start in range(seed, seed + 50, 50 // _TRIES):
            frames = bench.run(start, ending)
            if frames and (frames[-1].success or not stays_done):
                return frames, _truth(frames, bench.movable, task, seed, ending)
    raise InputError(f"{task}: Meta-World's expert fails: is this metaworld 3.0.0 with mujoco 3.8.1?")


def _truth(
    frames: Sequence[SimulatedMoment], movable: dict[str, bool], task: str, seed: int, ending: Ending
) -> RecordingTruth:
    bodies = {}
    for name, can_move in movable.items():
        states = [frame.bodies[name] for frame in frames]
        bodies[name] = BodyTruth(
            movable=can_move,
            touched=tuple(state.touched for state in states),
            held=tuple(state.held for state in states),
            met=tuple(state.met for state in states),
            pose=tuple(tuple(round(x, 5) for x in state.pose) for state in states),
        )
    return RecordingTruth(
        task=task,
        seed=seed,
        instruction=wording(task, seed).instruction,
        ending=ending,
        hand=tuple((float(x), float(y), float(z)) for x, y, z in (frame.hand.round(5) for frame in frames)),
        opening=tuple(round(frame.opening, 5) for frame in frames),
        success=tuple(frame.success for frame in frames),
        bodies=bodies,
    )


def _row(frame: SimulatedMoment, closed_high: bool) -> dict[str, Any]:
    opening, effort = frame.opening, frame.action[3]
    gripper = (1 - opening, effort) if closed_high else (opening, -effort)
    return {
        "observation.images.corner": frame.picture,
        "observation.state": np.array([*frame.hand, gripper[0]], np.float32),
        "action": np.array([*frame.action[:3], gripper[1]], np.float32),
    }


def _numbers(names: Sequence[str]) -> dict[str, Any]:
    return {"dtype": "float32", "shape": (len(names),), "names": list(names)}
