"""Small real LeRobot datasets, made by lerobot itself, and storyboards of their episodes."""

import json
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


@cache
def ground(size: int) -> np.ndarray:
    return np.random.default_rng(0).integers(20, 60, (size, size, 3), np.uint8)


def moving_square(frame: int, episode: int, size: int = 48) -> np.ndarray:
    """A picture that tells its frame and four episodes apart: a bright square on a dark, textured ground."""
    episode %= 4
    picture = ground(size).copy()
    left = 2 * frame % (size - 12)
    picture[10 + 4 * episode : 22 + 4 * episode, left : left + 12] = (250, 60 * episode, 20)
    return picture


def set_feature(features, name: str, feature: object) -> None:
    """The library goes through all features again for each one: most of what opening a dataset takes."""
    from datasets.features.features import require_decoding

    dict.__setitem__(features, name, feature)
    features._column_requires_decoding[name] = require_decoding(feature)


def make_dataset(
    root: Path,
    lengths: Sequence[int] = (12, 9, 15),
    *,
    dtype: str = "video",
    cameras: Sequence[str] = ("front", "wrist"),
    fps: int = 10,
    task: str = "put the red block in the blue bowl",
    size: int = 48,
    states: Sequence[np.ndarray] = (),
    names: Sequence[str] = ("x", "y", "z", "gripper"),
    **create: object,
) -> Path:
    """Write a dataset through `LeRobotDataset.create`: state x, y, z, gripper; one grasp an episode.

    `states` are other states, an array for each episode, of dimensions with `names`.

    Nothing but the robot's type tells which end of the gripper is closed: it is low.
    """
    from datasets import Features
    from lerobot.configs.video import RGBEncoderConfig
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    Features.__setitem__ = set_feature
    picture = {"dtype": dtype, "shape": (size, size, 3), "names": ["height", "width", "channels"]}
    numbers = {"dtype": "float32", "shape": (len(names),), "names": list(names)}
    create.setdefault("robot_type", "koch_follower")
    dataset = LeRobotDataset.create(
        "local/test",
        fps=fps,
        features={
            **{f"observation.images.{c}": dict(picture) for c in cameras},
            "observation.state": dict(numbers),
            "action": dict(numbers),
        },
        root=root,
        use_videos=dtype == "video",
        rgb_encoder=RGBEncoderConfig(vcodec="h264", g=4, crf=18) if dtype == "video" else None,
        **create,
    )
    for episode, length in enumerate([len(state) for state in states] or lengths):
        for i in range(length):
            grip = 0.0 if length // 3 <= i < 2 * length // 3 else 1.0
            values = states[episode][i] if states else [0.1 * i, 0.05 * episode, np.sin(i / 3), grip]
            state = np.array(values, np.float32)
            pictures = {f"observation.images.{c}": moving_square(i, episode, size) for c in cameras}
            dataset.add_frame({**pictures, "observation.state": state, "action": state, "task": task})
        dataset.save_episode(parallel_encoding=False)  # forks otherwise, with threads alive
    dataset.finalize()
    return root


def renamed(root: Path, out: Path, names: dict[str, str]) -> Path:
    """A copy of a dataset whose features have other names."""
    shutil.copytree(root, out)
    info = json.loads((out / "meta/info.json").read_text())
    info["features"] = {names.get(k, k): v for k, v in info["features"].items()}
    (out / "meta/info.json").write_text(json.dumps(info))
    for path in out.glob("data/**/*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.rename_columns([names.get(c, c) for c in table.column_names]), path)
    return out


def storyboard(
    length: int,
    statuses: Sequence[str] = ("accepted", "accepted", "accepted"),
    *,
    camera: str = "observation.images.front",
    names: Sequence[str] = ("reach the block", "grasp the block", "put it in the bowl"),
    drawn: Sequence[int] = (),
    vain: Sequence[int] = (),
    tried: Sequence[int] = (),
    tail: int = 0,
    instruction: str = "put the block in the bowl",
    phases: Sequence[tuple[str, int, int]] = (),
    doubts: Sequence[str] = (),
):
    """A storyboard of an episode of `length` frames, its last `tail` frames outside every segment.

    Steps in `drawn` have a picture that is no frame of the recording, those in `vain` were tried in vain;
    those in `tried` have a rejected picture before it. `doubts` are those of every step's words.
    """
    from goalreel.image import Image
    from goalreel.types import Attempt, MotionPhase, Segment, Step, Storyboard, StoryboardStep, Task, Verdict

    cuts = np.linspace(0, length - tail, len(statuses) + 1).astype(int).tolist()
    steps = []
    for i, status in enumerate(statuses):
        frame, pixels = f"{camera}#{cuts[i + 1] - 1}", np.zeros((48, 48, 3), np.uint8)
        if i in drawn:
            pixels[:, :, i % 3], frame = 40 * (i + 1), None
        verdict = Verdict(success=status == "accepted")
        attempts = [Attempt(prompt="p", seed=i, image=Image(pixels, frame=frame), verdict=verdict)]
        if i in tried:
            no = Verdict(success=False, reasoning="The block is blue.", probability=0.12)
            grey = Image(np.full_like(pixels, 90))
            attempts.insert(0, Attempt(prompt="another prompt", seed=9, image=grey, verdict=no))
        outcome = "failed" if i in vain else "done"
        step = Step(
            name=names[i], instruction=names[i], prompt=names[i], outcome=outcome, doubts=tuple(doubts)
        )
        segment = Segment(start=cuts[i], end=cuts[i + 1])
        told = {"status": status, "attempts": tuple(attempts), "chosen": len(attempts) - 1}
        steps.append(StoryboardStep(step=step, segment=segment, **told))
    below = tuple(MotionPhase(name=name, segment=Segment(start=a, end=b)) for name, a, b in phases)
    return Storyboard(task=Task(id="t", instruction=instruction), steps=tuple(steps), phases=below)


def lerobot_reads(root: Path) -> bool:
    """Whether lerobot gives the first frames of a dataset, and every third one."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    try:
        dataset = LeRobotDataset("local/test", root=root, video_backend="pyav")
        assert [dataset[i] for i in range(len(dataset)) if i < 3 or i % 3 == 0]
    except Exception:  # noqa: BLE001  (it fails in as many ways as datasets do)
        return False
    return True


def load(root: Path, backend: str = "pyav", episodes: list[int] | None = None):
    """A dataset as lerobot loads it."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset("local/test", root=root, video_backend=backend, episodes=episodes)
