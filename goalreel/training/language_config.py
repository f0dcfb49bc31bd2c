"""The configuration of a language model and its fine-tuning, read from YAML."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from goalreel.training.config import Count, TrainingConfig

type AgentRole = Literal["planner", "critic"]
type LongRows = Literal["refuse", "cut", "drop"]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]


class LoraSettings(TrainingConfig):
    """Low-rank adapters (arXiv 2106.09685) on every linear layer that is not frozen; merged when saved."""

    rank: Count = 64
    alpha: Rate = 128
    dropout: Share = 0.0


class ModelSettings(TrainingConfig):
    """The model to train and which of its weights, whatever it is trained by."""

    max_pixels: Count | None = None
    """Larger pictures are scaled down to this area; None leaves the checkpoint's own limit."""
    method: Literal["full", "lora"] = "full"
    lora: LoraSettings = LoraSettings()
    freeze_vision_tower: bool = False
    freeze_projector: bool = False
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights while training; the arithmetic is bf16 where `bf16` and the machine has it."""
    save_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Type of the saved weights, where it is to differ from `dtype`; not for sharded runs."""
    bf16: bool = True
    gradient_checkpointing: bool = False
    log_every: Count = 10
    save_every: Count = 500
    keep: Count = 2
    """Checkpoints kept to resume from."""


class LanguageConfig(ModelSettings):
    """Supervised fine-tuning of a Planner or a Critic."""

    role: AgentRole
    model: Annotated[str, Field(min_length=1)]
    """A folder, repository or shipped name that `AutoModelForImageTextToText` loads."""
    corpus: tuple[Path, ...] = ()
    """ShareGPT files (see `training.conversations`)."""
    validation: tuple[Path, ...] = ()
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

    steps: Count | None = None
    epochs: Rate | None = None
    batch_size: Count = 8
    """Rows a device and step; times `accumulate`, times the number of devices."""
    accumulate: Count = 1
    max_length: Count | None = None
    """Tokens a row may have, prompt and pictures counted."""
    long_rows: LongRows = "refuse"
    """What to do with a row of more than `max_length` tokens: end with an error, cut the end of its reply,
    or leave the row out. `cut` also leaves out a row whose prompt alone is that long."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon`: Muon for matrices and AdamW for the rest; on one device or with DDP, not sharded."""
    learning_rate: Rate = 2e-5
    muon_learning_rate: Rate = 1.5e-2
    muon_weight_decay: Annotated[float, Field(ge=0)] = 0.01
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    betas: tuple[Share, Share] = (0.9, 0.999)
    max_grad_norm: Rate = 1.0
    schedule: Literal["cosine", "linear", "constant_with_warmup", "warmup_stable_decay"] = "cosine"
    warmup: Annotated[float, Field(ge=0)] = 0.0
    """Steps, or a share of all steps where below 1."""
    decay: Share = 0.5
    """Share of the steps over which `warmup_stable_decay` falls, linearly, to a hundredth."""
    phrase_weights: dict[re.Pattern[str], Rate] = Field(default_factory=dict)
    """Weight in the loss of the tokens that a regular expression finds in a reply, 1 elsewhere: what is said
    rarely and decides much would be learnt last."""

    compile: bool = False
    """Compile the layers of the decoder at their first step: half a minute, won back soon on a CPU. Without a
    C++ compiler they are not compiled."""
    workers: Annotated[int, Field(ge=0)] = 0
    """Processes that read pictures and tokenize."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        if self.schedule == "warmup_stable_decay" and self.steps is None:
            raise ValueError("schedule warmup_stable_decay needs steps")
        return self

    def from_scratch(self, rows: Sequence[Mapping[str, Any]], folder: Path) -> Path | None:
        """Make the model to train, in `folder`, or find the one that an earlier call made there.

        None, as here, where `model` is to be loaded. `rows` are those of `conversations.read_rows`.
        """
        return None
