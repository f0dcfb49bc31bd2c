"""The shipped editor's VAE alone: what it does to any picture that it draws, without the drawing."""

from collections.abc import Callable

import numpy as np
import torch
from diffusers import AutoModel  # pyright: ignore[reportPrivateImportUsage]  (exported lazily)
from numpy.typing import NDArray

from goalreel.checkpoints import located
from goalreel.tabletop.nano.editor import redraw
from goalreel.training.precision import half

type Pictures = NDArray[np.uint8]
"""(B, H, W, 3) RGB."""


def round_trip() -> Callable[[Pictures], Pictures]:
    """Load it; a function that encodes pictures and decodes them again."""
    vae = AutoModel.from_pretrained(located("nano-editor"), subfolder="vae").eval()

    def again(pictures: Pictures) -> Pictures:
        with half(torch.device("cpu")):
            drawn = redraw(vae, torch.from_numpy(pictures).permute(0, 3, 1, 2))
        return drawn.permute(0, 2, 3, 1).numpy()

    return again
