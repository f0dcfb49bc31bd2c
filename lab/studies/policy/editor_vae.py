"""The shipped editor's VAE alone: what it does to any picture that it draws, without the drawing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from numpy.typing import NDArray

from goalreel.checkpoints import located
from goalreel.training.loading import half
from goalreel_lab.nano.editor import latent_means

type Pictures = NDArray[np.uint8]
"""(B, H, W, 3) RGB."""


def round_trip() -> Callable[[Pictures], Pictures]:
    """Load it, and make a function that encodes pictures and decodes them again."""
    vae: Any = AutoencoderKL.from_pretrained(located("nano-editor"), subfolder="vae").eval()

    @torch.no_grad()
    def again(pictures: Pictures) -> Pictures:
        with half(torch.device("cpu")):
            means = latent_means(vae, torch.from_numpy(pictures).permute(0, 3, 1, 2))
            decoded = vae.decode(means, return_dict=False)[0]
        pixels = ((decoded.float() + 1) * 127.5).round().clamp(0, 255).byte()
        return pixels.permute(0, 2, 3, 1).numpy()

    return again
