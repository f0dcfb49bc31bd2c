"""Record Meta-World's experts as LeRobot v3.0 datasets, one for each task, with the truth beside each."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from av.logging import ERROR, set_libav_level
from datasets.utils.logging import disable_progress_bar as disable_progress_bars
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from goalreel.datasets.writing.video import recording_encoder
from goalreel.errors import InputError
from goalreel_lab.metaworld.sim import FPS, SimulatedMoment, Workbench
from goalreel_lab.metaworld.tasks import Ending, tasks, wording
from goalreel_lab.metaworld.truth import BodyTruth, RecordingTruth, TaskTruth, write_truth

_TRIES = 6
"""How many starts an expert is given for one recording."""
_STATE = ("x", "y", "z", "gripper")
_ACTION = ("dx", "dy", "dz", "gripper")


def record_task(out: Path, task: str, seeds: int, size: int = 128) -> TaskTruth:
    """Write `seeds` episodes of a task to the new folder `out`.

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
            for seed in range(seeds):
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
