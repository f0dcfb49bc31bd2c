"""Small real LeRobot datasets, made by lerobot itself."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("MUJOCO_GL", "egl")

SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"


def moving_square(frame: int, episode: int, size: int = 48) -> np.ndarray:
    """A picture that tells its frame and episode apart: a bright square on a dark, textured ground."""
    rng = np.random.default_rng(0)
    picture = rng.integers(20, 60, (size, size, 3), np.uint8)
    left = 2 * frame % (size - 12)
    picture[10 + 4 * episode : 22 + 4 * episode, left : left + 12] = (250, 60 * episode, 20)
    return picture


def make_dataset(
    root: Path,
    lengths: Sequence[int] = (12, 9, 15),
    *,
    dtype: str = "video",
    cameras: Sequence[str] = ("front", "wrist"),
    fps: int = 10,
    task: str = "put the red block in the blue bowl",
    **create: object,
) -> Path:
    """Write a dataset through `LeRobotDataset.create`: state x, y, z, gripper; one grasp an episode."""
    from lerobot.configs.video import RGBEncoderConfig
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    picture = {"dtype": dtype, "shape": (48, 48, 3), "names": ["height", "width", "channels"]}
    numbers = {"dtype": "float32", "shape": (4,), "names": ["x", "y", "z", "gripper"]}
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
    for episode, length in enumerate(lengths):
        for i in range(length):
            grip = 0.0 if length // 3 <= i < 2 * length // 3 else 1.0
            state = np.array([0.1 * i, 0.05 * episode, np.sin(i / 3), grip], np.float32)
            pictures = {f"observation.images.{c}": moving_square(i, episode) for c in cameras}
            dataset.add_frame({**pictures, "observation.state": state, "action": state, "task": task})
        dataset.save_episode()
    dataset.finalize()
    return root


@pytest.fixture(scope="session")
def video_dataset(tmp_path_factory) -> Path:
    """Three episodes, two cameras, one file each. Read only."""
    return make_dataset(tmp_path_factory.mktemp("video") / "data")


@pytest.fixture(scope="session")
def image_dataset(tmp_path_factory) -> Path:
    """The same as stored images. Read only."""
    return make_dataset(tmp_path_factory.mktemp("image") / "data", dtype="image")


@pytest.fixture(scope="session")
def sharded_dataset(tmp_path_factory) -> Path:
    """Several data and video files, two episodes in some. Read only."""
    root = tmp_path_factory.mktemp("sharded") / "data"
    return make_dataset(root, (12, 9, 15, 8), data_files_size_in_mb=0.001, video_files_size_in_mb=0.005)


@pytest.fixture(params=["droid_new_setup", "g1_inspire"])
def real_dataset(request) -> Path:
    root = SHARED / request.param
    if not root.is_dir():
        pytest.skip(f"no real episodes at {root}")
    return root
