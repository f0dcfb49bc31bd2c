"""GRPO of a Critic with TRL's `GRPOTrainer`: one reward for each reply, and none after an outage."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState
from trl import GRPOConfig, GRPOTrainer

from goalreel.chat.dialects import whole_dialect
from goalreel.checkpoints import located
from goalreel.errors import BackendError, InputError, UserError
from goalreel.extras import is_installed
from goalreel.training.card import grpo_card, write_card
from goalreel.training.config import CollapseSettings, GrpoConfig, OutageSettings
from goalreel.training.rewards import CriticReward, fits_in, summary
from goalreel.training.rows import Critiques, HeldOut
from goalreel.training.run import (
    adapters,
    begin,
    check_sharded,
    freeze,
    last_checkpoint,
    load,
    processes,
    quicken,
    save,
    tensorboard,
    trainer_arguments,
)
from goalreel.types import Editor, Scorer

log = logging.getLogger(__name__)

DEFAULTS = {
    "learning_rate": 2e-6,
    "weight_decay": 0.01,
    "max_completion_length": 4096,
    "beta": 1e-3,
    "epsilon": 0.2,
    "epsilon_high": 0.3,
    "loss_type": "dapo",
    "scale_rewards": "batch",
    "top_k": 0,
}
"""Our defaults of TRL's settings that differ from its own. `scale_rewards`: divided by the spread of their
own group, a single dissent among equal replies is blown up to as much as the largest of differences."""
ROLLOUT = 128
"""Completions a rollout, unless one of `_SIZES` is given: then by TRL's rules."""
_SIZES = {"generation_batch_size", "steps_per_generation", "gradient_accumulation_steps"}
_PICTURES = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
THOUGHTS = ("reasoning", "reasoning_content", "thinking")
"""Keys under which a tokenizer with a response template puts what came before the answer."""
_UNKNOWN = "All reward functions returned None"
"""In a warning of TRL that holds a whole row, with its pictures."""


def trl_arguments(config: GrpoConfig, out: Path) -> GRPOConfig:
    """Make TRL's arguments of a run, with checkpoints in `out`, or raise an InputError."""
    schedule = "constant_with_warmup" if config.trainer.get("warmup_steps") else "constant"
    defaults: dict[str, Any] = {**DEFAULTS, "lr_scheduler_type": schedule}
    if not _SIZES & config.trainer.keys():
        together = config.trainer.get("per_device_train_batch_size", 8) * processes().num_processes
        defaults["gradient_accumulation_steps"] = max(1, ROLLOUT // together)
    arguments = trainer_arguments(GRPOConfig, config, out, defaults)
    passes, step = int(arguments.steps_per_generation or 1), arguments.gradient_accumulation_steps
    if passes % step:
        raise InputError(f"gradient_accumulation_steps {step} does not divide a rollout's {passes} passes")
    return arguments


def _without_pictures(model: PreTrainedModel, *, vllm: bool) -> dict[str, Any]:
    """Suppress the tokens of pictures: a sampled one would stand for no picture (trl#3847)."""
    ids = {getattr(model.config, name, None) for name in _PICTURES}
    tokens = sorted(i for i in ids if i is not None)
    return {"logit_bias": dict.fromkeys(tokens, -100.0)} if vllm else {"suppress_tokens": tokens}


class CollapseError(UserError):
    """The Critic says the same of every picture."""


class _Trainer(GRPOTrainer):
    """Waits for editor and scorer where they fail."""

    def __init__(self, *args: Any, outage: OutageSettings, **options: Any) -> None:
        self._outage = outage
        super().__init__(*args, **options)

    def _calculate_rewards(self, *arguments: Any, **options: Any) -> torch.Tensor:
        # All processes see the same rewards, and so wait and give up together.
        waits = iter(self._outage.waits)
        while True:
            rewards: torch.Tensor = super()._calculate_rewards(*arguments, **options)
            unknown = int(rewards.isnan().sum())
            if unknown <= self._outage.most * len(rewards):
                return rewards
            message = f"{unknown} of {len(rewards)} rewards are unknown, for editor or scorer failed"
            if (pause := next(waits, None)) is None:
                raise BackendError(message)
            log.warning("%s: asking again in %g s", message, pause)
            time.sleep(pause)
            self._pending_metrics.clear()

    def save_now(self) -> None:
        """Keep the model as it is, to resume from; before the first step there is nothing to keep."""
        step, last = self.state.global_step, last_checkpoint(Path(str(self.args.output_dir)))
        if step and self.model is not None and (last is None or not last.endswith(f"-{step}")):
            self._save_checkpoint(self.model, None)


class _Collapse(TrainerCallback):
    """Stops a run whose Critic accepts nearly all, or nearly nothing."""

    def __init__(self, settings: CollapseSettings, updates: int) -> None:
        self._settings = settings
        self._updates = updates
        self._rates: dict[int, float] = {}
        self.found: str | None = None

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        """Look at the share of acceptances of the last rollouts."""
        rate = (logs or {}).get("critic/true_rate")
        if rate is None:
            return
        self._rates[(state.global_step - 1) // self._updates] = rate
        recent = list(self._rates.values())[-self._settings.rollouts :]
        mean = sum(recent) / len(recent)
        if len(recent) == self._settings.rollouts and not self._settings.least <= mean <= self._settings.most:
            self.found = f"over the last {len(recent)} rollouts the Critic accepted {100 * mean:.0f} %"
            control.should_save = control.should_training_stop = True


def train(
    config: GrpoConfig,
    out: Path,
    resume: bool,
    *,
    editor: Editor,
    scorer: Scorer,
    local: bool,
    held_out: HeldOut,
) -> dict[str, float]:
    """Train, and leave in `out` a checkpoint that `HfChat.load(out)` takes, with its model card.

    `out` also holds `training.yaml` (the settings), `logs/` (TensorBoard) and `checkpoints/` to resume from.
    `local`: the editor runs in this process (`rewards.CriticReward`). `held_out` names the split of a task
    that results are measured on. On several devices start it with `accelerate launch`.

    Returns:
        `steps` made and `rows` trained on.

    Raises:
        InputError: a setting, a row or a checkpoint that cannot be used; `out` holds another run, or, with
            `resume`, no checkpoint.
        BackendError: editor or scorer failed for longer than `config.outage` waits; the model is kept.
        CollapseError: the Critic says the same of every picture; the model is kept.
    """
    wording = whole_dialect(config.dialect, config.prompts)
    rows = Critiques(config.corpus, held_out)
    check_sharded(config)  # refuses before anything is written or loaded, as do the next
    arguments = trl_arguments(config, out)
    if arguments.use_vllm and not is_installed("vllm"):
        raise InputError("use_vllm needs vLLM: pip install 'trl[vllm]', or set use_vllm: false")
    group = int(arguments.num_generations or 1)
    prompts = int(arguments.generation_batch_size or 0) // group
    updates = int(arguments.steps_per_generation or 1) // arguments.gradient_accumulation_steps
    if len(rows) < prompts:
        raise InputError(f"{len(rows)} rows do not fill a rollout of {prompts}")
    last = begin(config, out, resume)
    model, processor = load(located(config.model), config)
    settings = config.reward
    fits = fits_in(editor, processor, settings.prompt_tokens)
    reward = CriticReward(editor, scorer, form=settings.form, local=local, repeats=wording.repeats, fits=fits)
    collapse = _Collapse(config.collapse, updates)
    arguments.generation_kwargs = _without_pictures(model, vllm=arguments.use_vllm)
    processor.tokenizer.padding_side = "left"  # as TRL pads what it samples from
    frozen = freeze(model, config)
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(lambda record: _UNKNOWN not in str(record.msg))
    trainer = _Trainer(
        model=model,
        args=arguments,
        train_dataset=rows.as_dataset(wording, config.mode),
        processing_class=processor,
        reward_funcs=[reward_function(reward, rows, config)],
        peft_config=adapters(model, config, frozen) if config.method == "lora" else None,
        callbacks=[collapse, *tensorboard(out)],
        outage=config.outage,
    )
    if isinstance(trainer.ref_model, torch.nn.Module):
        quicken(trainer.ref_model)
    _run(trainer, collapse, last, out)
    save(trainer, processor, config.save_dtype, out)
    if trainer.is_world_process_zero():
        write_card(out, grpo_card(config, group, rows=len(rows), steps=trainer.state.global_step))
    return {"steps": trainer.state.global_step, "rows": len(rows)}


def _run(trainer: _Trainer, collapse: _Collapse, last: str | None, out: Path) -> None:
    try:
        trainer.train(resume_from_checkpoint=last)
    except BackendError as e:
        trainer.save_now()
        advice = "again to another folder, as no step was made"
        if last_checkpoint(out / "checkpoints") is not None:
            advice = "the same command with --resume"
        raise BackendError(f"{e}: see that both run, then start {advice}") from e
    if collapse.found:
        raise CollapseError(
            f"{collapse.found}; the last checkpoint is in {out / 'checkpoints'}: "
            "try a lower learning_rate or a balanced corpus"
        )


def reward_function(reward: CriticReward, rows: Critiques, config: GrpoConfig) -> Callable[..., Any]:
    """Make the one reward as TRL calls it; its parts are metrics, since a part of None would count as 0."""

    async def critic(
        completions: Sequence[Any], number: Sequence[int], log_metric: Callable[[str, float], None], **_: Any
    ) -> list[float | None]:
        critiques = [rows.row(n) for n in number]
        marks = await reward.marks(critiques, [text_of(c) for c in completions])
        for name, value in summary(critiques, marks).items():
            log_metric(f"critic/{name}", value)
        return [None if m is None else m.total(config.reward) for m in marks]

    return critic


def text_of(completion: Any) -> str:
    """Join the whole reply, also where the tokenizer has parted thinking and answer."""
    if isinstance(completion, str):
        return completion
    message = completion[-1]
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part.get("text", "") for part in content)
    thought = next((message[key] for key in THOUGHTS if message.get(key)), None)
    return content if thought is None else f"<think>{thought}</think>\n{content}"
