"""A small corpus of critiques, and runs of GRPO on it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from goalreel.datasets.corpora.critic_rows import CRITIQUES, CritiqueRow
from goalreel.datasets.corpora.rows import Corpus, write_corpus
from goalreel.image import Image
from goalreel.training.config import GrpoConfig
from goalreel.types import Edit, Failure

SMALL = {
    "model": "nano-critic",
    "editor": "diffusers:nano-editor",
    "scorer": "simulator",
    "max_steps": 2,
    "num_generations": 3,
    "per_device_train_batch_size": 6,
    "gradient_accumulation_steps": 1,
    "max_completion_length": 96,
    "learning_rate": 1e-4,
    "bf16": False,
    "logging_steps": 1,
    "save_steps": 1,
    "outage": {"waits": []},
}


def shade(value: int) -> Image:
    return Image(np.full((32, 32, 3), value, np.uint8))


def critique(**changes: object) -> CritiqueRow:
    """A wrong picture of which the Critic should say so."""
    made = CritiqueRow(
        task_id="tabletop-3",
        step=0,
        attempt=0,
        source=shade(10),
        candidate=shade(20),
        drawn=False,
        instruction="the red block is in the blue bowl",
        first_prompt="Put it there.",
        prompt="Put it there, please.",
        success=False,
        semantics=2,
        quality=8,
    )
    return replace(made, **changes)


def corpus(folder: Path, rows: Sequence[CritiqueRow]) -> Path:
    made = Corpus(CRITIQUES, "train", {"train-00000": range(1)}, lambda part: rows, {"test": 1}, "test")
    write_corpus(made, folder, text=False)
    return folder


def config(folder: Path, **changes: object) -> GrpoConfig:
    return GrpoConfig.model_validate({**SMALL, "corpus": [folder], **changes})


class Copier:
    """Gives the source back."""

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        return [edit.image for edit in edits if edit.image is not None]


def run(settings: GrpoConfig, out: Path) -> None:
    from goalreel.tabletop.truth import held_out_split
    from goalreel.training import grpo
    from goalreel_lab.scoring import SimulatorScorer

    models = {"editor": Copier(), "scorer": SimulatorScorer(), "local": True}
    grpo.train(settings, out, False, held_out=held_out_split, **models)


def history(out: Path, step: int) -> list[dict[str, float]]:
    state = json.loads((out / f"checkpoints/checkpoint-{step}/trainer_state.json").read_text())
    return state["log_history"]
