"""Trains the nano editor's VAE, and measures what its round trip keeps of the goals."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKLFlux2
from torch import Tensor, nn

from goalreel.datasets.tabletop.grammar import sample_episode
from goalreel.datasets.tabletop.lessons.rows import EditRow
from goalreel.datasets.tabletop.readback import read_back, shown
from goalreel.training.editor_config import EditorConfig, VaeTraining
from goalreel.training.editor_data import Edits, encode, to_model
from goalreel.training.fitting import Batch, Progress, fit
from goalreel.training.run import processes

SATURATED = 0.25
"""Least spread between a pixel's colour values (0-1) for it to count as an object's."""
NEAR = 0.01
"""Largest move of an object in a round trip that leaves it where it was (m)."""
SAMPLE = 1024
"""Pictures that the latents' mean and variance are taken from."""


def train_vae(
    vae: AutoencoderKLFlux2,
    config: EditorConfig,
    edits: Edits,
    out: Path,
    *,
    resume: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> None:
    """Train `vae` on the edits' pictures, fill its latent statistics, and save it in `out`.

    Raises:
        ValueError: see `goalreel.training.fitting.fit`.
    """
    training, pictures, shape = config.vae, edits.pictures, config.shape

    def batch(step: int, count: int, generator: torch.Generator) -> Batch:
        device = generator.device
        chosen = torch.randint(len(pictures), (count,), generator=generator, device=device)
        shown = to_model(pictures[chosen.cpu()], device)
        if training.crop is not None and step < training.crop_share * training.steps:
            shown = windows(shown, training.crop, generator)
        patches = shown.shape[-1] * 2 // shape.patch
        noise = torch.randn(
            count, shape.latent_channels, patches, patches, generator=generator, device=device
        )
        return shown, noise

    model = Reconstruction(vae, training, autocast=config.precision == "bf16")
    fit(model, batch, training, out, seed=config.seed, resume=resume, progress=progress)
    fill_statistics(vae, pictures, bf16=config.precision == "bf16")
    if processes().is_main_process:
        vae.save_pretrained(out)


class Reconstruction(nn.Module):
    """The VAE's loss: L1 + L2 of pixels in [-1, 1], objects weighted."""

    def __init__(self, vae: AutoencoderKLFlux2, training: VaeTraining, *, autocast: bool) -> None:
        super().__init__()
        self.vae, self.training_config, self.autocast = vae, training, autocast

    def forward(self, pictures: Tensor, noise: Tensor) -> Tensor:
        """`pictures` (b, 3, size, size), `noise` like their latents."""
        settings = self.training_config
        with torch.autocast(pictures.device.type, torch.bfloat16, enabled=self.autocast):
            mean = self.vae.encode(pictures).latent_dist.mean
            again = self.vae.decode(mean + settings.latent_noise * noise).sample
        error = again.float() - pictures
        weight = 1 + (settings.object_weight - 1) * _objects(pictures)
        loss = ((error.abs() + error.square()) * weight).mean()
        return loss + settings.latent_penalty * mean.float().square().mean()


def _objects(pictures: Tensor) -> Tensor:
    """Which pixels (b, 1, size, size) are of an object, for pictures in [-1, 1]."""
    spread = (pictures.amax(1, keepdim=True) - pictures.amin(1, keepdim=True)) / 2
    return spread > SATURATED


def windows(pictures: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """A window (b, 3, side, side) of each picture, around a pixel of an object, if it shows any."""
    width = pictures.shape[-1]
    likely = _objects(pictures).flatten(1).float() + 1e-6
    centre = torch.multinomial(likely, 1, generator=generator)[:, 0]
    top, left = ((at - side // 2).clamp(0, width - side).tolist() for at in (centre // width, centre % width))
    cut = [p[:, y : y + side, x : x + side] for p, y, x in zip(pictures, top, left, strict=True)]
    return torch.stack(cut)


def fill_statistics(vae: AutoencoderKLFlux2, pictures: Tensor, *, bf16: bool = False) -> None:
    """Set the mean and variance by which the pipeline normalises latents, from pictures spread evenly."""
    chosen = torch.linspace(0, len(pictures) - 1, min(SAMPLE, len(pictures))).long()
    z = torch.cat(list(encode(vae, pictures[chosen], bf16=bf16)))
    vae.bn.running_mean.copy_(z.mean((0, 2, 3)))
    vae.bn.running_var.copy_(z.var((0, 2, 3)))


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
def round_trip(vae: AutoencoderKLFlux2, rows: Iterable[EditRow]) -> RoundTrip:
    """Measure the VAE on the rows' goal images.

    Raises:
        ValueError: there are no rows.
    """
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
    if not asked:
        raise ValueError("there are no rows to measure the VAE on")
    share = [float(np.mean(values)) if values else 0.0 for values in (good, whole)]
    return RoundTrip(asked, len(good), *share, float(np.mean(errors)))


@torch.no_grad()
def redraw(vae: AutoencoderKLFlux2, pixels: np.ndarray) -> np.ndarray:
    """The picture (size, size, 3) uint8 after encoding and decoding."""
    picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None]
    again = vae.decode(vae.encode(to_model(picture, vae.device)).latent_dist.mean).sample
    return ((again[0].permute(1, 2, 0).clamp(-1, 1) + 1) * 127.5).round().byte().cpu().numpy()
