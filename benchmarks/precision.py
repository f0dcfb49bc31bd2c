"""What bf16 costs on this machine beside float32: a matrix product, a training step, and one of Muon.

    OMP_NUM_THREADS=1 python benchmarks/precision.py

One JSON line: `computes_bf16`; `product`: how many times as long as in float32 a product of two 1024 x 1024
matrices takes; `editor`: how many times as long the nano editor's loss and its gradient take under autocast;
`step`: how many times as long a step of torch's Muon takes as ours in float32, on the nano models' shapes.
"""

import json
import time
from collections.abc import Callable
from unittest.mock import patch

import torch
from torch.nn import Parameter

from goalreel.tabletop.nano.editor_config import EditorConfig
from goalreel.tabletop.nano.pix2pix import Pix2Pix
from goalreel.training import optim
from goalreel.training.config import read_config
from goalreel.training.precision import computes_bf16, product_seconds

ROUNDS = 5
SIDE = 1024
BATCH = 8
PROMPT = "Put the red block in the blue bowl. Leave the green block and the table as they are."
SHAPES = [(480, 160), (160, 160), (640, 160), (160, 640)] * 4


def seconds(work: Callable[[], object]) -> float:
    """The least of some rounds."""
    work()
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def step(kind: type[torch.optim.Muon]) -> float:
    matrices = [Parameter(torch.randn(shape)) for shape in SHAPES]
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    return seconds(kind(matrices, lr=1e-3).step)


def editor() -> float:
    """The shipped one, not compiled."""
    made = Pix2Pix.load(read_config("nano-editor", EditorConfig, model="nano-editor", precision="float32"))
    loss, shape = made.loss(), made.config.shape
    side = shape.size // shape.stride
    latents = torch.randn(3, BATCH, shape.latent_channels, side, side)
    words, weights = made.tokens([PROMPT] * BATCH), torch.ones(BATCH, side**2)

    def learn() -> None:
        loss(*latents, torch.rand(BATCH), *words, weights).backward()

    def half() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            learn()

    return seconds(half) / seconds(learn)


def main() -> None:
    with patch.object(optim, "computes_bf16", lambda: False):
        ours = step(optim.Muon)
    told = {
        "computes_bf16": computes_bf16(),
        "product": round(product_seconds(torch.bfloat16, SIDE) / product_seconds(torch.float32, SIDE), 2),
        "editor": round(editor(), 2),
        "step": round(step(torch.optim.Muon) / ours, 2),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
