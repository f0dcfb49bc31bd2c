"""Supervised fine-tuning of a Planner or a Critic with TRL's `SFTTrainer`; only the reply is learned."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from goalreel.chat.dialects import write_trained_steps
from goalreel.chat.plan import MAX_STEPS
from goalreel.checkpoints import located
from goalreel.training.card import BASE, PURPOSE, agent_card, write_card
from goalreel.training.config import SftConfig
from goalreel.training.loading import adapters, compile_parts, freeze, load
from goalreel.training.optim import MuonAdamW
from goalreel.training.rows import (
    Collator,
    Length,
    LengthSampler,
    length,
    read_rows,
    short_enough,
)
from goalreel.training.run import (
    begin,
    check_sharded,
    is_nano,
    processes,
    save,
    tensorboard,
    trainer_arguments,
)

log = logging.getLogger(__name__)


_LIMITS = (
    "It knows only goalreel's simulated tabletop: blocks and bowls as its corpora show them, "
    "and the instructions of its grammar. On any other picture or wording its answers mean nothing, and the "
    "checkpoint that comes with goalreel refuses them. It reads "
    "goalreel's own prompts and understands no others."
)


class _Trainer(SFTTrainer):
    """Weighs the tokens of verdicts and phrases, shows rows of one length together, and knows Muon."""

    def __init__(self, *args: Any, config: SftConfig, lengths: Sequence[Length], **options: Any) -> None:
        self._config, self._lengths = config, lengths
        super().__init__(*args, **options)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """TRL's loss, but when training with some tokens weighed."""
        weights = inputs.pop("weights")
        if not self._config.phrase_weights or not model.training:
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

    def _get_train_sampler(self, train_dataset: object = None) -> LengthSampler:
        size = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        return LengthSampler(self._lengths, size, self._config.seed)

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        if self._config.optimizer != "muon":
            return super().create_optimizer(model)
        if self.optimizer is None:
            trained = model or self.model
            assert trained is not None
            self.optimizer = MuonAdamW(
                trained.named_parameters(),
                lr=self.args.learning_rate,
                betas=(self.args.adam_beta1, self.args.adam_beta2),
                weight_decay=self.args.weight_decay,
                muon_lr=self._config.muon_learning_rate,
                muon_weight_decay=self._config.muon_weight_decay,
            )
        return self.optimizer


def train(config: SftConfig, out: Path, resume: bool) -> dict[str, float]:
    """Train, and leave in `out` a checkpoint that `HfChat.load(out)` takes, with its model card.

    `out` also holds `training.yaml` (the settings), `logs/` (TensorBoard) and `checkpoints/` to resume from.
    On several devices start it with `accelerate launch`.

    Returns:
        `steps` and `train_loss`, and with validation rows `eval_loss` and `eval_mean_token_accuracy`.

    Raises:
        InputError: a setting, a row or a checkpoint that cannot be used; `out` holds another run, or, with
            `resume`, no checkpoint.
    """
    rows = read_rows(config.corpus)
    held_out = read_rows(config.validation) if config.validation else None
    check_sharded(config)
    arguments = _arguments(config, out)
    last = begin(config, out, resume)
    with processes().main_process_first():
        source = config.from_scratch(rows, out / "checkpoints" / "start") or located(config.model)
    model, processor = load(source, config)
    cuts = config.long_rows == "cut"
    collator = Collator(processor, config.max_length, cuts, phrase_weights=config.phrase_weights)
    rows = short_enough(rows, collator, config.long_rows)
    held_out = short_enough(held_out, collator, config.long_rows) if held_out else None
    frozen = freeze(model, config)
    if config.compile:
        # Not the tower: it cuts the batch into its pictures, and another number of them is another program.
        compile_parts(model.get_decoder().get_submodule("layers").children(), dynamic=True)
    trainer = _Trainer(
        model=model,
        args=arguments,
        data_collator=collator,
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(held_out) if held_out else None,
        processing_class=processor,
        peft_config=adapters(model, config, frozen) if config.method == "lora" else None,
        callbacks=tensorboard(out),
        config=config,
        lengths=[length(row) for row in rows],
    )
    result = trainer.train(resume_from_checkpoint=last)
    numbers = {"train_loss": result.training_loss, "steps": result.global_step}
    if held_out:
        numbers |= {
            k: v for k, v in trainer.evaluate().items() if k in ("eval_loss", "eval_mean_token_accuracy")
        }
    save(trainer, processor, config.save_dtype, out)
    if trainer.is_world_process_zero():
        corpora = [*dict.fromkeys((*config.corpus, *config.validation))]
        summary = (
            f"{PURPOSE[config.role]} Trained on {len(rows):,} conversations, with the loss on the reply only."
        )
        limits = _LIMITS if is_nano(config.model) else BASE
        write_card(out, agent_card(config, numbers, corpora, summary=summary, limits=limits))
        write_trained_steps(out, MAX_STEPS)  # the number in the questions of planner corpora
    return numbers


def _arguments(config: SftConfig, out: Path) -> SFTConfig:
    every = config.trainer.get("save_steps", 500)
    evaluates = {"eval_strategy": "steps", "eval_steps": every} if config.validation else {}
    return trainer_arguments(
        SFTConfig,
        config,
        out,
        {"lr_scheduler_type": "cosine"},
        per_device_eval_batch_size=config.trainer.get("per_device_train_batch_size", 8),
        dataloader_persistent_workers=bool(config.trainer.get("dataloader_num_workers")),
        prediction_loss_only=True,
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,  # the collator's matter
        **evaluates,
    )
