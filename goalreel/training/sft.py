"""Supervised fine-tuning of a Planner or a Critic with TRL's `SFTTrainer`; only the reply is learned."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import ProcessorMixin
from trl import SFTConfig, SFTTrainer

from goalreel.chat import dialects, plan
from goalreel.checkpoints import located
from goalreel.training.card import BASE, PURPOSE, TABLETOP, agent_card, write_card
from goalreel.training.config import SftConfig
from goalreel.training.rows import Collator, Length, LengthSampler, length, read_rows, short_enough
from goalreel.training.run import (
    adapters,
    begin,
    check_sharded,
    freeze,
    is_nano,
    load,
    processes,
    save,
    tensorboard,
    trainer_arguments,
)

_LIMITS = f"{TABLETOP} On any other picture or wording its answers mean nothing."


class RowTrainer(SFTTrainer):
    """Shows rows of one length together."""

    def __init__(self, *args: Any, config: SftConfig, lengths: Sequence[Length], **options: Any) -> None:
        self._config, self._lengths = config, lengths
        super().__init__(*args, **options)

    @staticmethod
    def collator(processor: ProcessorMixin, config: SftConfig) -> Collator:
        """Make what turns rows into a batch."""
        return Collator(processor, config.max_length, config.long_rows == "cut")

    def _get_train_sampler(self, train_dataset: object = None) -> LengthSampler:
        size = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        return LengthSampler(self._lengths, size, self._config.seed)


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
    trainer_class = config.trainer_class() or RowTrainer
    collator = trainer_class.collator(processor, config)
    rows = short_enough(rows, collator, config.long_rows)
    held_out = short_enough(held_out, collator, config.long_rows) if held_out else None
    frozen = freeze(model, config)
    trainer = trainer_class(
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
        told = trainer.evaluate()
        numbers |= {name: told[name] for name in ("eval_loss", "eval_mean_token_accuracy") if name in told}
    save(trainer, processor, config.save_dtype, out)
    if trainer.is_world_process_zero():
        corpora = [*dict.fromkeys((*config.corpus, *config.validation))]
        trained = f"Trained on {len(rows):,} conversations, with the loss on the reply only."
        summary = f"{PURPOSE[config.role]} {trained}"
        limits = _LIMITS if is_nano(config.model) else BASE
        write_card(out, agent_card(config, numbers, corpora, summary=summary, limits=limits))
        dialects.write_trained_steps(out, plan.MAX_STEPS)  # the number in the questions of planner corpora
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
