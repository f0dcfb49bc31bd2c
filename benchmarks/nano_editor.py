"""What sizes of the nano editor cost: parameters, megabytes, seconds an edit, operations a training sample.

Weights are random: this measures cost, not skill. `OMP_NUM_THREADS=1 python benchmarks/nano_editor.py`
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.training.config import read_config
from goalreel.training.editor import Flow
from goalreel.training.editor_config import EditorConfig, EditorShape
from goalreel.training.nano.editor import build, save
from goalreel.training.vae import Reconstruction
from goalreel.types import Edit

SHAPES = {
    "fine": EditorShape(),
    "small": EditorShape(heads=4, single_blocks=4, vae_encoder=(16, 32, 64), vae_decoder=(16, 32, 64)),
    "shipped": read_config("nano-editor", EditorConfig).shape,
}
"""`fine` and `small` have tokens of 8 px, 256 a picture; `shipped` of 16 px, 64 a picture."""
REPEATS = 5
BATCH = 16
PROMPT = "Put the red block in the blue bowl. Leave the green block and the table as they are."


def main() -> None:
    head = ("size", "VAE", "transformer", "text", "MB", "s an edit", "VAE GFLOP", "flow GFLOP", "flow rows/s")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for name, shape in SHAPES.items():
        config = EditorConfig(shape=shape)
        vae_flops, flow_flops = flops(config)
        pipeline = build(config)
        parts = (pipeline.vae, pipeline.transformer, pipeline.text_encoder)
        millions = " | ".join(f"{sum(p.numel() for p in m.parameters()) / 1e6:.2f} M" for m in parts)
        with tempfile.TemporaryDirectory() as folder:
            save(pipeline, config, Path(folder))
            size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / 1e6
            seconds = time_edit(Path(folder), config.shape.size)
        rows = flow_rows(config)
        print(
            f"| {name} | {millions} | {size:.1f} | {seconds:.2f} | {vae_flops:.1f} | {flow_flops:.1f} "
            f"| {rows:.1f} |",
            flush=True,
        )


def flops(config: EditorConfig) -> tuple[float, float]:
    """Thousand million operations, forward and backward, of one sample: of the VAE, of the flow."""
    pipeline, shape = build(config), config.shape
    side = 2 * shape.size // shape.patch
    pictures = torch.zeros(1, 3, shape.size, shape.size), torch.zeros(1, shape.latent_channels, side, side)
    vae = Reconstruction(pipeline.vae, config.vae, autocast=False)
    counts = []
    for model, batch in ((vae, pictures), (Flow(pipeline, config), flow_batch(shape, 1))):
        with FlopCounterMode(display=False) as counter:
            model(*batch).backward()
        counts.append(counter.get_total_flops() / 1e9)
    return counts[0], counts[1]


def flow_rows(config: EditorConfig) -> float:
    """Rows a second, forward and backward in bf16, without the optimizer."""
    model, batch = Flow(build(config), config), flow_batch(config.shape, BATCH)
    model(*batch).backward()
    begin = time.perf_counter()
    for _ in range(REPEATS):
        model(*batch).backward()
    return REPEATS * BATCH / (time.perf_counter() - begin)


def flow_batch(shape: EditorShape, count: int) -> tuple[torch.Tensor, ...]:
    """Random rows as the trainer makes them."""
    tokens, channels = (shape.size // shape.patch) ** 2, 4 * shape.latent_channels
    codes = torch.randn(3, count, tokens, channels)
    ids = torch.zeros(count, shape.prompt_tokens, dtype=torch.long)
    return (*codes, torch.ones(count), ids, 1 + ids, torch.ones(count, tokens))


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
