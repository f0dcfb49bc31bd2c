"""What attention and compiling change in the time of a training step of the nano Critic and the nano UNet.

    python benchmarks/training_step.py
    python benchmarks/training_step.py --float32

One JSON line: for each way the median seconds of a loss and its gradient, autocast as in training or not, on
16 rows of the Critic and 32 of the UNet (made-up ones: its weights are random), and its share of the first
way's. The ways take turns with the same rows.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import batched, cycle, islice
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import torch
import typer
from diffusers.models.attention_processor import AttnProcessor, AttnProcessor2_0
from torch import Tensor, nn
from transformers import PreTrainedModel

from goalreel.checkpoints import NANO
from goalreel.tabletop.lessons.corpus import CorpusOrder, make_corpus
from goalreel.tabletop.nano.editor_config import EditorConfig
from goalreel.tabletop.nano.pix2pix import unet
from goalreel.training.compiling import compile_parts
from goalreel.training.config import read_config
from goalreel.training.conversations import Collator, read_rows
from goalreel.training.language_config import LanguageConfig
from goalreel.training.loading import load
from goalreel.training.precision import half
from goalreel.training.sampling import LengthSampler, length

EPISODES, ROWS, EDITS = 80, 16, 32
TURNS = 20
FIRST = 5
"""Turns that are not counted: the second of another length is compiled for all lengths."""
WAYS = {
    "sdpa": ("sdpa", False),
    "eager": ("eager", False),
    "sdpa, compiled": ("sdpa", True),
    "eager, compiled": ("eager", True),
}

type Loss = Callable[[nn.Module, int], Tensor]


def critic(attention: str, compiled: bool) -> PreTrainedModel:
    model, _ = load(NANO / "critic", read_config("nano-critic", LanguageConfig))
    model.set_attn_implementation(attention)
    if compiled:
        compile_parts(model.get_decoder().get_submodule("layers").children(), dynamic=True)
    return model


def critics_rows() -> list[dict[str, Tensor]]:
    """Steps on made candidates, as training shows them."""
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(CorpusOrder("verdicts", "train", EPISODES), Path(folder, "made"))
        rows = read_rows([Path(folder, "made", "sharegpt", "verdicts.json")])
        collate = Collator(load(NANO / "critic", read_config("nano-critic", LanguageConfig))[1])
        order = LengthSampler([length(row) for row in rows], ROWS, seed=0)
        steps = [collate([rows[i] for i in some]) for some in batched(order, ROWS) if len(some) == ROWS]
    return [{name: value for name, value in step.items() if name != "weights"} for step in steps]


def denoiser(attention: str, compiled: bool) -> nn.Module:
    model = unet(read_config("nano-editor", EditorConfig).shape)
    model.set_attn_processor(AttnProcessor() if attention == "eager" else AttnProcessor2_0())
    if compiled:
        compile_parts([model])
    return model


def denoisers_rows() -> tuple[Tensor, Tensor, Tensor]:
    """Noisy and source latents, levels and words."""
    shape = read_config("nano-editor", EditorConfig).shape
    side = shape.size // shape.stride
    return (
        torch.randn(EDITS, 2 * shape.latent_channels, side, side),
        torch.randint(1000, (EDITS,)),
        torch.randn(EDITS, shape.prompt_tokens, shape.text_width),
    )


def turns(models: Mapping[str, nn.Module], loss: Loss, wanted: bool) -> dict[str, dict[str, float]]:
    spent: dict[str, list[float]] = {way: [] for way in models}
    for turn in range(TURNS):
        for way, model in models.items():
            started = time.perf_counter()
            with half(torch.device("cpu"), wanted=wanted):
                value = loss(model, turn)
            value.backward()
            spent[way].append(time.perf_counter() - started)
    medians = {way: statistics.median(times[FIRST:]) for way, times in spent.items()}
    first = next(iter(medians.values()))
    return {
        way: {"seconds": round(median, 3), "share": round(median / first, 2)}
        for way, median in medians.items()
    }


def main(float32: bool = False) -> None:
    steps, edits = list(islice(cycle(critics_rows()), TURNS)), denoisers_rows()
    critics = {name: critic(*how).train() for name, how in WAYS.items()}
    unets = {name: denoiser(*how).train() for name, how in WAYS.items()}
    told = {
        "critic": turns(critics, lambda model, turn: model(**steps[turn], use_cache=False).loss, not float32),
        "unet": turns(
            unets, lambda model, _: model(*edits, return_dict=False)[0].float().square().mean(), not float32
        ),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    typer.run(main)
