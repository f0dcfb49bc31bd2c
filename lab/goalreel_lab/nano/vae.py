"""Trains the nano editor's VAE."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from goalreel.progress import OnProgress
from goalreel.training.loading import half
from goalreel.training.run import processes
from goalreel_lab.nano.config import VaeTraining
from goalreel_lab.nano.editor import NanoEditor, to_model
from goalreel_lab.nano.editor_data import Edits
from goalreel_lab.nano.training_loop import Batch, fit

SATURATED = 0.25
"""Least spread between a pixel's colour values (0-1) for it to count as an object's."""
SAMPLE = 1024
"""Pictures that the latents' scale is taken from."""


def train_vae(
    editor: NanoEditor,
    edits: Edits,
    out: Path,
    *,
    resume: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> None:
    """Train the editor's VAE on the edits' pictures, measure its latents, and save it in `out`.

    Raises:
        InputError: see `goalreel_lab.nano.training_loop.fit`.
    """
    config, pictures = editor.config, edits.pictures
    training, shape = config.vae, config.shape

    def batch(step: int, count: int, generator: torch.Generator) -> Batch:
        device = generator.device
        chosen = torch.randint(len(pictures), (count,), generator=generator, device=device)
        pixels = to_model(pictures[chosen.cpu()], device)
        if training.crop is not None and step < training.crop_share * training.steps:
            pixels = windows(pixels, training.crop, generator)
        side = pixels.shape[-1] // shape.stride
        noise = torch.randn(count, shape.latent_channels, side, side, generator=generator, device=device)
        return pixels, noise

    model = Reconstruction(editor.vae, training, autocast=config.precision == "bf16")
    fit(model, batch, training, out, seed=config.seed, resume=resume, progress=progress)
    chosen = torch.linspace(0, len(pictures) - 1, min(SAMPLE, len(pictures))).long()
    editor.measure_latents(pictures[chosen])
    if processes().is_main_process:
        editor.vae.save_pretrained(out)


class Reconstruction(nn.Module):
    """The VAE's loss: L1 + L2 of pixels in [-1, 1], objects weighted."""

    def __init__(self, vae: Any, training: VaeTraining, *, autocast: bool) -> None:
        super().__init__()
        self.vae, self.training_config, self.autocast = vae, training, autocast

    def forward(self, pictures: Tensor, noise: Tensor) -> Tensor:
        """Give the loss of pictures (b, 3, size, size), with noise of the shape of their latents."""
        settings = self.training_config
        with half(pictures.device, enabled=self.autocast):
            mean = self.vae.encode(pictures, return_dict=False)[0].mean
            codes = mean + settings.latent_noise * noise
            decoded = self.vae.decode(codes, return_dict=False)[0]
        error = decoded.float() - pictures
        weight = 1 + (settings.object_weight - 1) * _objects(pictures)
        loss = ((error.abs() + error.square()) * weight).mean()
        return loss + settings.latent_penalty * mean.float().square().mean()


def _objects(pictures: Tensor) -> Tensor:
    """Mark the pixels (b, 1, size, size) of objects, for pictures in [-1, 1]."""
    spread = (pictures.amax(1, keepdim=True) - pictures.amin(1, keepdim=True)) / 2
    return spread > SATURATED


def windows(pictures: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Cut a window (b, 3, side, side) out of each picture, around a pixel of an object, if it shows any."""
    width = pictures.shape[-1]
    likely = _objects(pictures).flatten(1).float() + 1e-6
    centre = torch.multinomial(likely, 1, generator=generator)[:, 0]
    row, column = (
        (at - side // 2).clamp(0, width - side).tolist() for at in (centre // width, centre % width)
    )
    cut = [p[:, y : y + side, x : x + side] for p, y, x in zip(pictures, row, column, strict=True)]
    return torch.stack(cut)
