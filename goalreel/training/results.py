"""The results of a Hugging Face trainer: checkpoints to resume from, curves, and the model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import DistributedType
from peft import PeftModel
from transformers import Trainer, TrainerCallback
from transformers.integrations.integration_utils import TensorBoardCallback
from transformers.trainer import TRAINER_STATE_NAME

from goalreel.errors import InputError
from goalreel.training.language_config import ModelSettings
from goalreel.training.run import processes, sharded

if TYPE_CHECKING:
    from transformers import ProcessorMixin


def last_checkpoint(folder: Path) -> str | None:
    """Find the newest checkpoint that was written to its end; a killed run may leave one that was not."""
    steps = [int(c.name.removeprefix("checkpoint-")) for c in folder.glob("checkpoint-*") if _complete(c)]
    return str(folder / f"checkpoint-{max(steps)}") if steps else None


def _complete(checkpoint: Path) -> bool:
    """Tell whether the Trainer wrote its own state, which comes last."""
    try:
        json.loads((checkpoint / TRAINER_STATE_NAME).read_text())
    except (OSError, ValueError):
        return False
    return True


def tensorboard(out: Path) -> list[TrainerCallback]:
    """Make what writes a run's curves to `out/logs`, in the main process alone."""
    if not processes().is_main_process:
        return []
    board = TensorBoardCallback()
    board.logging_dir = str(out / "logs")
    return [board]


def check_savable(settings: ModelSettings) -> None:
    """Refuse adapters on a sharded model: they cannot be merged into a checkpoint.

    Raises:
        InputError: the settings ask for them.
    """
    if settings.method == "lora" and sharded():
        raise InputError(
            "adapters cannot be merged under DeepSpeed or FSDP: set method to full, or shard nothing"
        )


def save(trainer: Trainer, processor: "ProcessorMixin", dtype: str | None, out: Path) -> None:
    """Write weights, adapters merged, and processor, as `save_pretrained` folder.

    `dtype`: the weights' type where it is to differ from that of training.
    """
    kind = trainer.accelerator.distributed_type
    if kind in (DistributedType.DEEPSPEED, DistributedType.FSDP):
        trainer.save_model(str(out))  # gathers the shards
        return
    if not trainer.is_world_process_zero():
        return
    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    if isinstance(model, PeftModel):
        model = model.merge_and_unload()
    if dtype is not None:
        model = model.to(getattr(torch, dtype))
    model.save_pretrained(out)
    processor.save_pretrained(out)
