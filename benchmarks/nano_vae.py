"""What the shipped editor's VAE keeps of true goal images: 100 validation sub-goals, encoded and decoded.

python benchmarks/nano_vae.py --json
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import torch

from goalreel.checkpoints import NANO
from goalreel.datasets.tabletop.grammar import sample_episode
from goalreel.datasets.tabletop.lessons.edits import edit_rows
from goalreel.datasets.tabletop.lessons.rows import EditRow
from goalreel.datasets.tabletop.readback import read_back, shown
from goalreel.datasets.tabletop.splits import seeds
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.training.nano.editor import to_model

ROWS = 100

NEAR = 0.01
"""Largest move of an object in a round trip that leaves it where it was (m)."""


@dataclass(frozen=True)
class RoundTrip:
    """What is left of the goal images after encoding and decoding, read back by the simulator's eyes.

    Only rows count whose own goal image reads back right: `read` of `rows`.
    """

    rows: int
    read: int
    goal: float
    """Share of those whose goal still reads true."""
    whole: float
    """Share of those whose goal reads true and every object within NEAR of where it was."""
    error: float
    """Mean absolute error of pixels (0-255)."""


@torch.no_grad()
def round_trip(vae: Any, rows: Iterable[EditRow]) -> RoundTrip:
    """Measure the VAE on the rows' goal images."""
    asked, good, whole, errors = 0, [], [], []
    for row in rows:
        asked += 1
        pixels = row.target.pixels
        again = redraw(vae, pixels)
        errors.append(np.abs(again.astype(float) - pixels).mean())
        scene = sample_episode(row.origin.seed).scene
        before, after = read_back(pixels, scene), read_back(again, scene)
        if not shown(before, row.goal):
            continue
        good.append(shown(after, row.goal))
        still = before.keys() == after.keys() and all(
            np.linalg.norm(before[name] - after[name]) < NEAR for name in before
        )
        whole.append(good[-1] and still)
    return RoundTrip(asked, len(good), float(np.mean(good)), float(np.mean(whole)), float(np.mean(errors)))


@torch.no_grad()
def redraw(vae: Any, pixels: np.ndarray) -> np.ndarray:
    """The picture (size, size, 3) uint8 after encoding and decoding."""
    picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None]
    again = vae.decode(vae.encode(to_model(picture, vae.device)).latent_dist.mean).sample
    return ((again[0].permute(1, 2, 0).clamp(-1, 1) + 1) * 127.5).round().byte().cpu().numpy()


def main() -> None:
    vae = DiffusersEditor.load(NANO / "editor", device="cpu").pipeline.vae
    every = edit_rows(seeds("validation", ROWS), 128)
    rows = islice((row for row in every if row.register == "explicit"), ROWS)
    print(json.dumps(asdict(round_trip(vae, rows))))


if __name__ == "__main__":
    main()
