"""Training of nano agents beyond `goalreel.training.sft`: weights of phrases, Muon, and compiled layers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from goalreel.errors import InputError
from goalreel.training.config import SftConfig
from goalreel.training.rows import IGNORED, Collator, TrainingRow, reply
from goalreel.training.run import sharded
from goalreel.training.sft import RowTrainer
from goalreel_lab.nano.optim import MuonAdamW, compile_parts

if TYPE_CHECKING:
    from transformers import ProcessorMixin

    from goalreel_lab.nano.agent_config import NanoAgentConfig


@dataclass(frozen=True)
class WeighedCollator(Collator):
    """Adds `weights` (batch, length) float: the largest of `phrase_weights` that finds a token, else 1."""

    phrase_weights: Mapping[re.Pattern[str], float] = field(default_factory=dict)

    def __call__(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        batch = super().__call__(rows)
        learned = batch["labels"] != IGNORED
        batch["weights"] = learned.float()
        for row, weights, here in zip(rows, batch["weights"], learned, strict=True):
            weights[here] = torch.tensor(self._weights(reply(row))[: int(here.sum())])
        return batch

    def _weights(self, text: str) -> list[float]:
        """Weigh each token of a reply with its end."""
        tokenizer = self.processor.tokenizer
        encoded = tokenizer(text + tokenizer.eos_token, add_special_tokens=False, return_offsets_mapping=True)
        spans = [
            (*match.span(), weight)
            for phrase, weight in self.phrase_weights.items()
            for match in phrase.finditer(text)
        ]
        return [
            max((weight for a, b, weight in spans if a < end and start < b), default=1.0)
            for start, end in encoded["offset_mapping"]
        ]


class NanoTrainer(RowTrainer):
    """Weighs the tokens of phrases, and knows Muon and compiled layers.

    Raises:
        InputError: Muon is to train a sharded model.
    """

    def __init__(self, *args: Any, model: Any, config: "NanoAgentConfig", **options: Any) -> None:
        if config.optimizer == "muon" and sharded():
            raise InputError("muon needs whole matrices: set optimizer to adamw, or shard nothing")
        if config.compile:
            # Not the tower: another number of pictures in a batch is another program.
            compile_parts(model.get_decoder().get_submodule("layers").children(), dynamic=True)
        self._nano = config
        super().__init__(*args, model=model, config=config, **options)

    @staticmethod
    def collator(processor: "ProcessorMixin", config: SftConfig) -> WeighedCollator:
        """Make what turns rows into a batch with weights."""
        cuts, weights = config.long_rows == "cut", cast("NanoAgentConfig", config).phrase_weights
        return WeighedCollator(processor, config.max_length, cuts, weights)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """TRL's loss, but when training with some tokens weighed."""
        weights = inputs.pop("weights")
        if not self._nano.phrase_weights or not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        outputs = model(**inputs, use_cache=False, fused_lm_head=True)
        learned = outputs.label_mask.sum()
        tokens = learned if num_items_in_batch is None else num_items_in_batch
        # The log-probabilities are 0 where nothing is learned.
        loss = -(outputs.log_probs * weights[:, 1:]).sum() / torch.as_tensor(tokens).clamp(min=1)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        self._metrics["train"]["mean_token_accuracy"].append((outputs.is_top1.sum() / learned).item())
        return loss

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        if self._nano.optimizer != "muon":
            return super().create_optimizer(model)
        if self.optimizer is None:
            trained = model or self.model
            assert trained is not None
            self.optimizer = MuonAdamW(
                trained.named_parameters(),
                lr=self.args.learning_rate,
                betas=(self.args.adam_beta1, self.args.adam_beta2),
                weight_decay=self.args.weight_decay,
                muon_lr=self._nano.muon_learning_rate,
                muon_weight_decay=self._nano.muon_weight_decay,
            )
        return self.optimizer
