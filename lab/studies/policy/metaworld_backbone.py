"""A small backbone for Meta-World's pictures, trained before any policy to tell where things are.

As on the tabletop it is frozen in all arms, is told nothing of words, and reads plain pictures and bordered
goals alike. It is small because ResNet-18 takes days of two CPU cores on 30 tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from backbone import as_input
from metaworld_demos import THINGS, read_demos
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from goalreel.subgoal_camera import in_form

CHANNELS = 128
BATCH = 64
"""Pictures whose features are computed at once."""
_MEAN, _SCALE = torch.tensor([0.0, 0.65, 0.15]), torch.tensor([0.15, 0.12, 0.1])
"""Centres and scales of x, y and z (m), so that all weigh alike in the loss."""


class SmallReader(nn.Module):
    """The backbone with one linear layer on each of its 4 x 4 cells, which training alone needs.

    The hand is one thing for all tasks. What else there is a task has for itself.
    """

    def __init__(self, tasks: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            *_layer(3, 24, 5, 2, 2),
            *_layer(24, 48, 3, 2, 1),
            *_layer(48, 96, 3, 2, 1),
            *_layer(96, CHANNELS, 3, 3, 0),
            *_layer(CHANNELS, CHANNELS, 3, 1, 1),
        )
        self.head = nn.Conv2d(CHANNELS, 4 * (1 + tasks * (THINGS - 1)) + 1, 1)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Pictures (B, 3, H, W) -> where all things are (B, things, 3), and whether each cell is a goal's
        (B, cells) as a logit."""
        cells = self.head(self.backbone(pictures)).flatten(2)
        things = cells[:, :-1].unflatten(1, (-1, 4))
        return (things[:, :, 1:] * things[:, :, :1].softmax(-1)).sum(-1), cells[:, -1]


def _layer(inputs: int, outputs: int, kernel: int, stride: int, pad: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, pad, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    ]


@dataclass(frozen=True)
class MetaWorldBatch:
    """A batch to learn from."""

    pictures: Tensor
    columns: Tensor
    """(B, THINGS): which of the reader's things these are."""
    places: Tensor
    """(B, THINGS, 3) in m."""
    goals: Tensor
    """(B,): 1 where the picture is in the form of a goal."""

    def to(self, device: torch.device) -> "MetaWorldBatch":
        """Bring it to a device."""
        return MetaWorldBatch(*(t.to(device) for t in (self.pictures, self.columns, self.places, self.goals)))


def draw_batches(paths: Sequence[Path], batch: int, seed: int) -> Iterator[MetaWorldBatch]:
    """Draw pictures of all tasks for ever, half of them as goals are shown."""
    rng = np.random.default_rng(seed)
    tasks = [read_demos(path) for path in paths]
    pictures = np.concatenate([t.pictures for t in tasks])
    places = torch.from_numpy(np.concatenate([t.things for t in tasks]))
    numbers = np.repeat(np.arange(len(tasks)), [len(t.pictures) for t in tasks])
    columns = torch.from_numpy(_columns(numbers))
    while True:
        rows = rng.integers(len(pictures), size=batch)
        goals = rng.random(batch) < 0.5
        seen = [
            in_form("bordered", pictures[i]) if g else pictures[i] for i, g in zip(rows, goals, strict=True)
        ]
        yield MetaWorldBatch(
            as_input(np.stack(seen)), columns[rows], places[rows], torch.from_numpy(goals.astype(np.float32))
        )


def _columns(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hand is thing 0; those of task i begin at 1 + 3 i."""
    own = 1 + numbers[:, None] * (THINGS - 1) + np.arange(THINGS - 1)
    return np.concatenate([np.zeros((len(numbers), 1), np.int64), own], 1)


def places_loss(reader: SmallReader, lesson: MetaWorldBatch) -> Tensor:
    """Errors of the reader."""
    where, goals = (t.float() for t in reader(lesson.pictures))
    where = where.gather(1, lesson.columns[:, :, None].expand(-1, -1, 3))
    truth = (lesson.places - _MEAN.to(where.device)) / _SCALE.to(where.device)
    away = F.smooth_l1_loss(where, truth, reduction="none", beta=0.1).sum(-1)
    present = lesson.places.any(-1)
    marks = lesson.goals[:, None].expand_as(goals)
    return away[present].mean() + 0.1 * F.binary_cross_entropy_with_logits(goals, marks)


@torch.inference_mode()
def features_of(reader: SmallReader, pictures: NDArray[np.uint8], *, goals: bool) -> Tensor:
    """Compute features (B, CHANNELS, 4, 4) in float16 of pictures, in the form of goals or plain."""
    reader.eval()
    device = next(reader.parameters()).device
    parts = []
    for start in range(0, len(pictures), BATCH):
        seen = pictures[start : start + BATCH]
        if goals:
            seen = np.stack([in_form("bordered", picture) for picture in seen])
        parts.append(reader.backbone(as_input(seen).to(device)).half().cpu())
    return torch.cat(parts)


@torch.inference_mode()
def misses_of(reader: SmallReader, paths: Sequence[Path], every: int) -> dict[str, float]:
    """Measure how far the hand and the tasks' things are read from where they are, medians in cm."""
    reader.eval()
    far: dict[str, list[Tensor]] = {"hand": [], "things": []}
    for number, path in enumerate(paths):
        task = read_demos(path)
        where, _ = reader(as_input(task.pictures[::every]))
        columns = torch.from_numpy(_columns(np.array([number])))[0]
        places = torch.from_numpy(task.things[::every])
        away = (where[:, columns] * _SCALE + _MEAN - places).norm(dim=-1)
        far["hand"].append(away[:, 0])
        far["things"].append(away[:, 1:][places[:, 1:].any(-1)])
    return {name: 100 * float(torch.cat(values).median()) for name, values in far.items()}
