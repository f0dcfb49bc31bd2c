"""ACT's image backbone, trained before any policy to tell where things are, and frozen in all of them.

There is no ImageNet here, and end to end on two CPU cores a ResNet takes hours a policy. Plain pictures and
goals in their form are read alike, and nothing is said of what is to be done: no arm is favoured.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
import torchvision
from demos import POSE, THINGS, Demos
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models._utils import IntermediateLayerGetter

from goalreel.subgoal_camera import in_form
from goalreel.training.loading import half

MEAN, STD = 0.5, 0.25
"""Pictures are brought to about zero mean and unit variance by these, 0-1, as a dataset's statistics say."""
CELL_SCALE = torch.tensor([0.1, 0.15, 0.03, 0.7, 0.7])
CELL_MEAN = torch.tensor([0.52, 0.0, 0.03, 0.0, 0.0])
"""Scales of x, y, z, cos and sin, so that all weigh alike in the loss."""


def device() -> torch.device:
    """Choose where to train: on the GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resnet(norm: type[nn.Module]) -> IntermediateLayerGetter:
    """Make the backbone as lerobot's ACT does, with normalisation layers of its choice."""
    whole = torchvision.models.resnet18(weights=None, norm_layer=norm)
    return IntermediateLayerGetter(whole, return_layers={"layer4": "feature_map"})


class Reader(nn.Module):
    """The backbone with one linear layer on each cell of its feature map, which training alone needs."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = resnet(nn.BatchNorm2d)
        self.head = nn.Conv2d(512, len(THINGS) * POSE + 1, 1)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pictures (B, 3, H, W) -> is each thing there (B, THINGS) as a logit, where (B, THINGS, 5), and
        whether each cell is a goal's (B, cells) as a logit."""
        cells = self.head(self.backbone(pictures)["feature_map"]).flatten(2)
        things = cells[:, :-1].unflatten(1, (len(THINGS), POSE))
        scores, poses = things[:, :, 0], things[:, :, 1:]
        where = (poses * scores.softmax(-1).unsqueeze(2)).sum(-1)
        return scores.logsumexp(-1) - np.log(scores.shape[-1]), where, cells[:, -1]


@dataclass(frozen=True)
class ReaderBatch:
    """A batch to learn from."""

    pictures: Tensor
    poses: Tensor
    """(B, THINGS, POSE)."""
    goals: Tensor
    """(B,): 1 where the picture is in the form of a goal."""

    def to(self, device: torch.device) -> "ReaderBatch":
        """Bring it to a device."""
        return ReaderBatch(self.pictures.to(device), self.poses.to(device), self.goals.to(device))


def batches(demos: Demos, batch: int, seed: int) -> Iterator[ReaderBatch]:
    """Draw pictures for ever, half of them as goals are shown."""
    rng = np.random.default_rng(seed)
    while True:
        chosen = rng.integers(len(demos.pictures), size=batch)
        goals = rng.random(batch) < 0.5
        pictures = [worn(rng, demos.pictures[i]) for i in chosen]
        pictures = [in_form("bordered", p) if g else p for p, g in zip(pictures, goals, strict=True)]
        yield ReaderBatch(
            as_input(np.stack(pictures)),
            torch.from_numpy(demos.poses[chosen]),
            torch.from_numpy(goals.astype(np.float32)),
        )


def worn(rng: np.random.Generator, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Change light, contrast, colour, sharpness and noise a little."""
    gain = rng.uniform(0.85, 1.15) * rng.uniform(0.96, 1.04, 3)
    pixels = (picture.astype(np.float32) - 128) * rng.uniform(0.9, 1.1) + 128
    if rng.random() < 0.3:
        pixels = cv2.GaussianBlur(pixels, (3, 3), rng.uniform(0.3, 0.9))
    pixels = pixels * gain.astype(np.float32) + rng.normal(0, rng.uniform(0, 5), picture.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def as_input(pictures: NDArray[np.uint8]) -> Tensor:
    """Pictures (B, H, W, 3) -> (B, 3, H, W) as the policies' preprocessor hands them to the backbone."""
    values = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    return ((values - MEAN) / STD).contiguous(memory_format=torch.channels_last)


def loss_of(reader: Reader, lesson: ReaderBatch) -> Tensor:
    """Errors of the reader."""
    presence, where, goals = (t.float() for t in reader(lesson.pictures))
    truth = lesson.poses
    present = truth[..., 0]
    poses = (truth[..., 1:] - CELL_MEAN.to(truth.device)) / CELL_SCALE.to(truth.device)
    away = F.smooth_l1_loss(where, poses, reduction="none", beta=0.1)
    away = torch.cat([away[..., :3], 0.2 * away[..., 3:]], -1).sum(-1)
    marks = lesson.goals[:, None].expand_as(goals)
    return (
        (away * present).sum() / present.sum()
        + F.binary_cross_entropy_with_logits(presence, present)
        + 0.1 * F.binary_cross_entropy_with_logits(goals, marks)
    )


def train(
    reader: Reader,
    draw: Callable[[int], Iterator[ReaderBatch]],
    loss_of: Callable[[Reader, ReaderBatch], Tensor],
    steps: int,
    rate: float,
    state: dict[str, Any] | None = None,
) -> Iterator[tuple[int, float, dict[str, Any]]]:
    """Give (steps done, loss, state to go on from) after every step; `draw` draws batches from a seed.

    A state of a training of another length is not gone on from: its rate has fallen by another curve.
    """
    target_device = device()
    reader.train().to(target_device, memory_format=torch.channels_last)  # pyrefly: ignore[no-matching-overload]
    optimizer = torch.optim.AdamW(reader.parameters(), rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps + 1, pct_start=0.1, anneal_strategy="cos"
    )
    done = 0
    if state is not None and state["schedule"]["total_steps"] == steps + 1:
        reader.load_state_dict(state["reader"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        done = state["done"]
    feed = draw(done)
    while done < steps:
        lesson = next(feed).to(target_device)
        with half(target_device):
            loss = loss_of(reader, lesson)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        done += 1
        yield (
            done,
            loss.item(),
            {
                "reader": reader.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "done": done,
            },
        )


@torch.inference_mode()
def off_by(reader: Reader, demos: Demos, rows: NDArray[np.int64], goals: bool) -> NDArray[np.float32]:
    """Measure how far blocks are read from where they stand, in m, one number a block on the pictures."""
    reader.eval()
    pictures = demos.pictures[rows]
    inputs = np.stack([in_form("bordered", p) for p in pictures]) if goals else pictures
    _, where, _ = reader(as_input(inputs).to(next(reader.parameters()).device))
    truth = torch.from_numpy(demos.poses[rows])[:, : len(THINGS) // 2]
    positions = where[:, : len(THINGS) // 2].float().cpu() * CELL_SCALE + CELL_MEAN
    far = (positions[..., :2] - truth[..., 1:3]).norm(dim=-1)
    reader.train()
    return far[truth[..., 0] > 0].numpy()
