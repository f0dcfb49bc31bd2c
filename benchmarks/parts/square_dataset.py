"""A small LeRobot dataset: two cameras see a square that moves."""

from pathlib import Path

import numpy as np
from lerobot.configs.video import RGBEncoderConfig
from lerobot.datasets.lerobot_dataset import LeRobotDataset


def make_dataset(root: Path, episodes: int, frames: int, size: int, codec: str | None = None) -> None:
    """Record it with lerobot; `size` is the side of the square pictures, in pixels."""
    picture = {"dtype": "video", "shape": (size, size, 3), "names": ["height", "width", "channels"]}
    numbers = {"dtype": "float32", "shape": (7,), "names": None}
    features = {"observation.images.front": dict(picture), "observation.images.wrist": dict(picture)}
    features |= {"observation.state": dict(numbers), "action": dict(numbers)}
    dataset = LeRobotDataset.create(
        "local/in",
        fps=10,
        features=features,
        root=root,
        rgb_encoder=encoder(codec),
        streaming_encoding=True,
    )
    x, y = np.meshgrid(np.arange(size), np.arange(size))
    ground = np.stack([(x + y) % 200, (2 * x) % 180, (3 * y) % 160], axis=2).astype(np.uint8)
    for episode in range(episodes):
        for i in range(frames):
            view, edge = ground.copy(), size // 5
            start = 2 * i % (size - edge)
            view[episode * 4 : episode * 4 + edge, start : start + edge] = (250, 40 * episode % 255, 20)
            state = np.full(7, i / frames, np.float32)
            views = {"observation.images.front": view, "observation.images.wrist": view[::-1].copy()}
            dataset.add_frame({**views, "observation.state": state, "action": state, "task": "move it"})
        dataset.save_episode()
    dataset.finalize()


def encoder(codec: str | None) -> RGBEncoderConfig | None:
    """lerobot's settings for a codec; None: its default encoder."""
    return RGBEncoderConfig(vcodec=codec) if codec else None
