"""Configuration of a nano Planner's or Critic's training, read from YAML."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from goalreel.training.config import Factor, Rate, SftConfig
from goalreel_lab.nano.config import NanoShape

if TYPE_CHECKING:
    from goalreel_lab.nano.agent_training import NanoTrainer


class NanoAgentConfig(SftConfig):
    """Supervised fine-tuning of a Planner or a Critic that may be made from scratch: `model: nano`."""

    nano: NanoShape = NanoShape()
    """The shape of a model made from scratch."""
    words: tuple[Path, ...] = ()
    """ShareGPT files whose words a model made from scratch is to know, for a later training on them."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon`: Muon for matrices and AdamW for the rest; on one device or with DDP, not sharded."""
    muon_learning_rate: Rate = 1.5e-2
    muon_weight_decay: Factor = 0.01
    phrase_weights: dict[re.Pattern[str], Rate] = Field(default_factory=dict)
    """Weight in the loss of the tokens that a regular expression finds in a reply, 1 elsewhere: rare words
    that decide much would be learnt last."""
    compile: bool = False
    """Compile the layers of the decoder at their first step: half a minute, won back soon on a CPU. Without a
    C++ compiler they are not compiled."""

    @model_validator(mode="after")
    def _from_scratch_is_whole(self) -> Self:
        if self.model != "nano" and self.words:
            raise ValueError("words is for a model made from scratch: this one has its words")
        if self.model == "nano" and (self.method == "lora" or self.freeze_vision_tower):
            raise ValueError("a nano model is made from scratch: train all of it")
        return self

    def trainer_class(self) -> "type[NanoTrainer]":
        """Name the trainer that knows these settings."""
        from goalreel_lab.nano.agent_training import NanoTrainer

        return NanoTrainer

    def from_scratch(self, rows: Sequence[Mapping[str, Any]], folder: Path) -> Path | None:
        """Make a nano model in `folder` and give it, where `model` is `nano`; a finished one is kept."""
        if self.model != "nano":
            return None
        if not (folder / "model.safetensors").is_file():
            from goalreel.training.rows import read_rows
            from goalreel_lab.nano.language import build_model, build_processor, build_tokenizer

            texts = [*rows, *(read_rows(self.words) if self.words else ())]
            tokenizer = build_tokenizer(texts, self.nano.vocabulary)
            build_processor(tokenizer, self.nano.side).save_pretrained(folder)
            build_model(tokenizer, self.nano, self.seed).save_pretrained(folder)
        return folder
