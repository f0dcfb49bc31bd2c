"""The shipped editor's VAE alone: what it does to any picture that it draws, without the drawing."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import torch
from diffusers import AutoencoderKLFlux2  # pyright: ignore[reportPrivateImportUsage]  (exported lazily)
from numpy.typing import NDArray

from goalreel.checkpoints import located
from goalreel.training.precision import half

type Pictures = NDArray[np.uint8]
"""(B, H, W, 3) RGB."""


def round_trip() -> Callable[[Pictures], Pictures]:
    """Load it; a function that encodes pictures and decodes them again."""
    vae = AutoencoderKLFlux2.from_pretrained(Path(located("nano-editor"), "vae")).eval()

    @torch.inference_mode()
    def again(pictures: Pictures) -> Pictures:
        given = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1
        with half(torch.device("cpu")):
            (coded,) = vae.encode(given, return_dict=False)
            (made,) = vae.decode(cast("torch.FloatTensor", coded.mean), return_dict=False)
        return ((made.float().permute(0, 2, 3, 1).clamp(-1, 1) + 1) * 127.5).round().byte().numpy()

    return again
