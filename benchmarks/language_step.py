"""What attention and compiling change in the time of a training step of the nano Critic.

    python benchmarks/language_step.py

One JSON line: `seconds`, the median of a loss and its gradient on 16 rows, autocast as in training; `share`,
that beside the first of them. The ways take turns with the same batches.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import batched
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import torch
from transformers import PreTrainedModel, ProcessorMixin

from goalreel.checkpoints import NANO
from goalreel.datasets.tabletop.lessons.corpus import CorpusOrder, make_corpus
from goalreel.training.compiling import compile_parts
from goalreel.training.config import read_config
from goalreel.training.conversations import Collator, read_rows
from goalreel.training.language_config import LanguageConfig
from goalreel.training.loading import load
from goalreel.training.precision import half
from goalreel.training.sampling import LengthSampler, length

EPISODES, SIZE = 80, 16
FIRST = 3
"""Steps that are not counted: the second of another length is compiled for all lengths."""
WAYS = {
    "sdpa": {"attention": "sdpa", "compile": False},
    "eager": {"attention": "eager", "compile": False},
    "sdpa, compiled": {"attention": "sdpa", "compile": True},
    "eager, compiled": {"attention": "eager", "compile": True},
}


def batches() -> list[dict[str, torch.Tensor]]:
    """Rows of made candidates, as training shows them."""
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(CorpusOrder("verdicts", "train", EPISODES), Path(folder, "made"))
        rows = read_rows([Path(folder, "made", "sharegpt", "verdicts.json")])
        collate = Collator(made("sdpa")[1])
        order = LengthSampler([length(row) for row in rows], SIZE, seed=0)
        return [collate([rows[i] for i in some]) for some in batched(order, SIZE) if len(some) == SIZE]


def made(way: str) -> tuple[PreTrainedModel, ProcessorMixin]:
    config = read_config("nano-critic", LanguageConfig, **WAYS[way])
    model, processor = load(NANO / "critic", config)
    if config.compile:
        compile_parts(model.get_decoder().get_submodule("layers").children(), dynamic=True)
    return model.train(), processor


def seconds(model: PreTrainedModel, batch: dict[str, torch.Tensor]) -> float:
    inputs = {name: value for name, value in batch.items() if name != "weights"}
    started = time.perf_counter()
    with half(torch.device("cpu")):
        loss = model(**inputs, use_cache=False).loss
    loss.backward()
    return time.perf_counter() - started


def main(shown: Sequence[dict[str, torch.Tensor]]) -> None:
    models = {way: made(way)[0] for way in WAYS}
    spent: dict[str, list[float]] = {way: [] for way in WAYS}
    for batch in shown:
        for way, model in models.items():
            spent[way].append(seconds(model, batch))
    medians = {way: statistics.median(times[FIRST:]) for way, times in spent.items()}
    told = {
        "steps": len(shown) - FIRST,
        "seconds": {way: round(value, 3) for way, value in medians.items()},
        "share": {way: round(value / medians["sdpa"], 2) for way, value in medians.items()},
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(batches())
