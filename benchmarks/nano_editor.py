"""What sizes of the nano editor cost: parameters, megabytes, seconds an edit, operations a training sample.

Weights are random: this measures cost, not skill. `OMP_NUM_THREADS=1 python benchmarks/nano_editor.py`
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from goalreel.annotator.image import Image
from goalreel.annotator.types import Edit
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.training.editor import Flow
from goalreel.training.editor_config import EditorConfig
from goalreel.training.nano.editor import build, save
from goalreel.training.vae import Reconstruction

SHAPES = {
    "small": {"heads": 4, "single_blocks": 4, "vae_encoder": (16, 32, 64), "vae_decoder": (16, 32, 64)},
    "preset": {},
    "coarse": {
        "vae_encoder": (16, 32, 64, 64),
        "vae_decoder": (32, 64, 96, 96),
        "latent_channels": 16,
        "heads": 8,
        "single_blocks": 8,
    },
}
"""`coarse` has tokens of 16 px instead of 8: 64 a picture instead of 256."""
REPEATS = 5
PROMPT = "Put the red block in the blue bowl. Leave the green block and the table as they are."


def main() -> None:
    print("| size | VAE | transformer | text | MB | s an edit | VAE GFLOP | flow GFLOP |")
    print("|---|---|---|---|---|---|---|---|")
    for name, shape in SHAPES.items():
        config = EditorConfig.model_validate({"shape": shape})
        vae_flops, flow_flops = flops(config)
        pipeline = build(config)
        parts = (pipeline.vae, pipeline.transformer, pipeline.text_encoder)
        millions = " | ".join(f"{sum(p.numel() for p in m.parameters()) / 1e6:.2f} M" for m in parts)
        with tempfile.TemporaryDirectory() as folder:
            save(pipeline, config, Path(folder))
            size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / 1e6
            seconds = time_edit(Path(folder), config.shape.size)
        print(f"| {name} | {millions} | {size:.1f} | {seconds:.2f} | {vae_flops:.1f} | {flow_flops:.1f} |")


def flops(config: EditorConfig) -> tuple[float, float]:
    """Thousand million operations, forward and backward, of one sample: of the VAE, of the flow."""
    pipeline, shape = build(config), config.shape
    side = shape.size // shape.patch
    tokens, channels, length = side**2, 4 * shape.latent_channels, shape.prompt_tokens
    vae = Reconstruction(pipeline.vae, config.vae, autocast=False)
    codes = torch.zeros(3, 1, tokens, channels)
    ids = torch.zeros(2, 1, length, dtype=torch.long)
    cases = (
        (
            vae,
            (
                torch.zeros(1, 3, shape.size, shape.size),
                torch.zeros(1, shape.latent_channels, 2 * side, 2 * side),
            ),
        ),
        (Flow(pipeline, config), (*codes, torch.ones(1), ids[0], 1 + ids[1], torch.ones(1, tokens))),
    )
    counts = []
    for model, batch in cases:
        with FlopCounterMode(display=False) as counter:
            model(*batch).backward()
        counts.append(counter.get_total_flops() / 1e9)
    return counts[0], counts[1]


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
