"""The settings of a GRPO run as TRL's `GRPOConfig`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from trl import GRPOConfig

from goalreel.errors import InputError, first_line
from goalreel.training.grpo_config import GrpoConfig
from goalreel.training.precision import computes_bf16

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PICTURES = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def trl_arguments(config: GrpoConfig, out: Path, model: "PreTrainedModel", devices: int) -> GRPOConfig:
    """Make TRL's arguments for a run of `model` on so many devices, with checkpoints in `out`.

    Raises:
        InputError: TRL refuses the settings.
    """
    suppressed = _suppressed_tokens(model)
    every, step = config.passes(devices)
    try:
        return GRPOConfig(
            output_dir=str(out / "checkpoints"),
            seed=config.seed,
            max_steps=config.steps or -1,
            num_train_epochs=config.epochs or 1.0,
            per_device_train_batch_size=config.batch_size,
            gradient_accumulation_steps=step,
            steps_per_generation=every,
            num_generations=config.group,
            max_completion_length=config.max_completion_length,
            temperature=config.temperature,
            top_p=config.top_p,
            top_k=0,
            generation_kwargs=suppressed if config.vllm is None else {"logit_bias": _biases(suppressed)},
            learning_rate=config.learning_rate,
            adam_beta1=config.betas[0],
            adam_beta2=config.betas[1],
            weight_decay=config.weight_decay,
            max_grad_norm=config.max_grad_norm,
            lr_scheduler_type="constant_with_warmup" if config.warmup else "constant",
            warmup_steps=config.warmup,
            beta=config.kl,
            epsilon=config.clip[0],
            epsilon_high=config.clip[1],
            delta=config.dual_clip,
            loss_type=config.loss,
            scale_rewards=config.scale_rewards,
            bf16=config.bf16 and computes_bf16(),
            use_cpu=not torch.cuda.is_available(),
            gradient_checkpointing=config.gradient_checkpointing,
            logging_steps=config.log_every,
            report_to=[],  # the TensorBoard callback is given a folder of its own
            save_steps=config.save_every,
            save_total_limit=config.keep,
            **_vllm(config),
        )
    except ValueError as e:  # such as bf16 on a device without it
        raise InputError(f"the trainer refuses these settings: {first_line(e)[:300]}") from e


def _suppressed_tokens(model: "PreTrainedModel") -> dict[str, list[int]]:
    """Name the tokens of pictures.

    One that was sampled would stand for a picture that there is not (trl#3847).
    """
    ids = {getattr(model.config, name, None) for name in _PICTURES}
    return {"suppress_tokens": sorted(i for i in ids if i is not None)}


def _biases(suppressed: dict[str, list[int]]) -> dict[int, float]:
    return dict.fromkeys(suppressed["suppress_tokens"], -100.0)


def _vllm(config: GrpoConfig) -> dict[str, Any]:
    if config.vllm is None:
        return {"use_vllm": False}
    return {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_tensor_parallel_size": config.vllm.tensor_parallel,
        "vllm_gpu_memory_utilization": config.vllm.memory,
    }
