"""What sizes of the nano editor cost: parameters, megabytes, seconds an edit, operations a training sample.

Weights are random: this measures cost, not skill. `OMP_NUM_THREADS=1 python benchmarks/nano_editor.py`
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.tabletop.nano.editor import NanoEditor
from goalreel.tabletop.nano.editor_config import EditorConfig
from goalreel.tabletop.nano.editor_training import CLASSES
from goalreel.tabletop.nano.vae import Reconstruction
from goalreel.tabletop.nano.words import phrases
from goalreel.training.config import read_config
from goalreel.types import Edit

KLEIN = read_config("nano-editor-klein", EditorConfig)
SHIPPED = read_config("nano-editor", EditorConfig)
CONFIGS = {
    "klein, fine": EditorConfig(),
    "klein": KLEIN,
    "pix2pix, thin": SHIPPED.model_copy(
        update={"shape": SHIPPED.shape.model_copy(update={"unet": (64, 128, 192)})}
    ),
    "pix2pix, shipped": SHIPPED,
}
"""`klein, fine` has tokens of 8 px, 256 a picture; `klein` of 16 px, 64 a picture."""
REPEATS = 5
BATCH = 16
PROMPT = "Put the red block in the blue bowl. Leave the green block and the table as they are."


def main() -> None:
    head = ("size", "VAE", "denoiser", "text", "MB", "s an edit", "VAE GFLOP", "its GFLOP", "its rows/s")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for name, config in CONFIGS.items():
        made = built(config)
        vae_flops, its_flops = flops(made)
        parts = (made.vae, made.denoiser, made.pipeline.text_encoder)
        millions = " | ".join(f"{sum(p.numel() for p in m.parameters()) / 1e6:.2f} M" for m in parts)
        with tempfile.TemporaryDirectory() as folder:
            built(config).save(Path(folder))
            size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / 1e6
            seconds = time_edit(Path(folder), config.shape.size)
        rows = rows_a_second(made)
        print(
            f"| {name} | {millions} | {size:.1f} | {seconds:.2f} | {vae_flops:.1f} | {its_flops:.1f} "
            f"| {rows:.1f} |",
            flush=True,
        )


def built(config: EditorConfig) -> NanoEditor[Any]:
    return CLASSES[config.architecture].build(config, phrases())


def flops(made: NanoEditor[Any]) -> tuple[float, float]:
    """Thousand million operations, forward and backward, of one sample: of the VAE, of the denoiser."""
    shape = made.config.shape
    side = shape.size // shape.stride
    pictures = torch.zeros(1, 3, shape.size, shape.size), torch.zeros(1, shape.latent_channels, side, side)
    vae = Reconstruction(made.vae, made.config.vae, autocast=False)
    counts = []
    for model, batch in ((vae, pictures), (made.loss(), some_rows(made, 1))):
        with FlopCounterMode(display=False) as counter:
            model(*batch).backward()
        counts.append(counter.get_total_flops() / 1e9)
    return counts[0], counts[1]


def rows_a_second(made: NanoEditor[Any]) -> float:
    """Forward and backward in bf16, without the optimizer."""
    model, batch = made.loss(), some_rows(made, BATCH)
    model(*batch).backward()
    begin = time.perf_counter()
    for _ in range(REPEATS):
        model(*batch).backward()
    return REPEATS * BATCH / (time.perf_counter() - begin)


def some_rows(made: NanoEditor[Any], count: int) -> tuple[torch.Tensor, ...]:
    """Random rows as the trainer makes them."""
    size = made.config.shape.size
    codes = made.encode(torch.randint(256, (count, 3, size, size), dtype=torch.uint8))
    weights = torch.ones(count, (size // made.cell) ** 2)
    words = made.tokens([PROMPT] * count)
    return codes, codes.flip(0), torch.randn_like(codes), torch.ones(count), *words, weights


def time_edit(folder: Path, size: int) -> float:
    """Median seconds of an edit alone, on the CPU in float32."""
    editor = DiffusersEditor.load(folder, device="cpu")
    picture = Image(np.random.default_rng(0).integers(0, 256, (size, size, 3), np.uint8))
    edit = Edit(task_id="cost", step=1, attempt=1, image=picture, prompt=PROMPT, seed=0)
    taken = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        editor.edit([edit])
        taken.append(time.perf_counter() - start)
    return float(np.median(taken[1:]))


if __name__ == "__main__":
    main()
