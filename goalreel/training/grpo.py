"""The settings of a GRPO run as TRL's `GRPOConfig`.

The model card of a Critic trained by reinforcement, with the curve of its reward.

How much of a prompt an editor reads; the rest is cut off without a message.

GRPO of a Critic with TRL's `GRPOTrainer`: one reward for each reply, and none after an outage.
"""

import inspect
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

from goalreel.chat.dialects import dialect
from goalreel.checkpoints import located
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.errors import BackendError, InputError, UserError, first_line
from goalreel.scoring import Scorer
from goalreel.training.card import PURPOSE, Card, file_facts, went_on_from, write_card
from goalreel.training.config import CollapseSettings, GrpoConfig, OutageSettings, RunCost, cost
from goalreel.training.loading import adapters, computes_bf16, freeze, load, quicken
from goalreel.training.rewards import CriticReward, RewardWeights, summary
from goalreel.training.rows import Critiques, HeldOut
from goalreel.training.run import begin, check_savable, is_nano, last_checkpoint, processes, save, tensorboard
from goalreel.types import Editor

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


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


CURVE = {
    "reward": "reward",
    "critic/format": "form",
    "critic/accuracy": "verdict",
    "critic/step": "change",
    "critic/edited_step": "change where drawn",
    "critic/control_step": "by the seed alone",
    "critic/true_rate": "accepted",
    "critic/balanced_accuracy": "balanced accuracy",
    "silent_groups": "silent groups",
    "critic/unknown": "unknown",
}
"""Name in the log -> column of the curve."""
POINTS = 10
LIMITS = "It was trained with the pictures of one editor. With another editor its prompts may be worth less. "
TABLETOP = "It knows only goalreel's simulated tabletop, and goalreel's own prompts."
BASE = "What the base model cannot do, and whatever lies outside the corpus."


def card(config: GrpoConfig, *, rows: int, history: Sequence[Mapping[str, float]]) -> Card:
    """Make the card of a run."""
    nano, source = is_nano(config.model), Path(located(config.model))
    weights_before = source / "model.safetensors"
    shards = [shard for folder in config.corpus for shard in sorted((folder / "data").glob("*.parquet"))]
    rewarded = [entry for entry in history if "reward" in entry]
    return Card(
        title=f"goalreel {'nano ' if nano else ''}critic, by GRPO",
        summary=f"{PURPOSE['critic']} Trained by reinforcement on {rows:,} critiques with {config.group} "
        f"replies to each. A reply earns by its form, its verdict and the picture that {config.editor} draws "
        f"for its prompt, scored by {config.scorer}.",
        use="goalreel plan --critic hf:DIR",
        library="transformers",
        task="image-text-to-text",
        base_model=None if nano or source.is_dir() else config.model,
        seed=config.seed,
        corpora=tuple(map(file_facts, shards)),
        numbers=(went_on_from(weights_before) if weights_before.is_file() else {})
        | {"steps": str(history[-1]["step"] if history else 0), "reward form": config.reward.form},
        limits=LIMITS + (TABLETOP if nano else BASE),
        curve=curve(rewarded),
        tags=() if config.dialect == "own" else (config.dialect,),
    )


def curve(history: Sequence[Mapping[str, float]]) -> str:
    """Make a table of means over at most POINTS stretches of the run; empty for a run without steps.

    A silent group is one whose replies all earn the same: nothing is learned from it.
    """
    if not history:
        return ""
    count = min(POINTS, len(history))
    edges = [round(i * len(history) / count) for i in range(count + 1)]
    lines = [f"| steps | {' | '.join(CURVE.values())} |", "|---" * (len(CURVE) + 1) + "|"]
    for low, high in pairwise(edges):
        part = history[low:high]
        values = [_mean([e[name] for e in part if e.get(name) is not None]) for name in CURVE]
        lines.append(f"| to {part[-1]['step']} | {' | '.join(values)} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3f}" if values else ""


def fits_in(editor: Editor, processor: "ProcessorMixin", tokens: int) -> Callable[[str], bool]:
    """Make a function that tells whether the editor reads all of a prompt.

    An editor in this process counts with its own tokenizer and limit. Of any other, `tokens` is the limit,
    and the Critic's tokenizer counts.
    """
    if isinstance(editor, DiffusersEditor):
        tokenizer, limit = getattr(editor.pipeline, "tokenizer", None), _limit(editor)
        if tokenizer is None or limit is None:
            return lambda prompt: True
        return lambda prompt: _count(tokenizer, prompt) <= limit
    return lambda prompt: len(processor.tokenizer(prompt)["input_ids"]) <= tokens


def _limit(editor: DiffusersEditor) -> int | None:
    limit = editor.entry.arguments.get("max_sequence_length")
    if limit is None:
        parameter = inspect.signature(type(editor.pipeline).__call__).parameters.get("max_sequence_length")
        limit = None if parameter is None else parameter.default
    return int(limit) if isinstance(limit, int) else None


def _count(tokenizer: Any, prompt: str) -> int:
    """Count the tokens of a prompt as a pipeline with a chat model for its text encoder writes it."""
    if not tokenizer.chat_template:
        return len(tokenizer(prompt)["input_ids"])
    turn = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(
        turn, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    return len(tokenizer(text)["input_ids"])


log = logging.getLogger(__name__)

THOUGHTS = ("reasoning", "reasoning_content", "thinking")
"""Keys under which a tokenizer with a response template puts what came before the answer."""
_UNKNOWN = "All reward functions returned None"
"""In a warning of TRL that holds a whole row, with its pictures."""


class CollapseError(UserError):
    """The Critic says the same of every picture."""


class _Trainer(GRPOTrainer):
    """Waits for editor and scorer where they fail, and counts the groups that teach nothing."""

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
                self._count_silent(rewards)
                return rewards
            message = f"{unknown} of {len(rewards)} rewards are unknown, for editor or scorer failed"
            if (pause := next(waits, None)) is None:
                raise BackendError(message)
            log.warning("%s: asking again in %g s", message, pause)
            time.sleep(pause)
            self._pending_metrics.clear()

    def _count_silent(self, rewards: torch.Tensor) -> None:
        # TRL counts groups only where it divides by their own spread.
        groups = rewards.view(-1, int(self.num_generations or 1))
        spread = groups.nan_to_num(-math.inf).amax(1) - groups.nan_to_num(math.inf).amin(1)
        self._metrics["train"]["silent_groups"].append((spread <= 1e-6).float().mean().item())

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
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
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
    tell: Callable[[RunCost], None] = lambda cost: None,
) -> dict[str, float]:
    """Train, and leave in `out` a checkpoint that `HfChat.load(out)` takes, with its model card.

    `out` also holds `training.yaml` (the settings), `logs/` (TensorBoard) and `checkpoints/` to resume from.
    `local`: the editor runs in this process (`rewards.CriticReward`). `held_out` names the split of a task
    that results are measured on. `tell` is called with the cost of the run before it begins. On several
    devices start it with `accelerate launch`.

    Returns:
        `steps` made and `rows` trained on.

    Raises:
        InputError: a setting, a row or a checkpoint that cannot be used; `out` holds another run, or, with
            `resume`, no checkpoint.
        BackendError: editor or scorer failed for longer than `config.outage` waits; the model is kept.
        CollapseError: the Critic says the same of every picture; the model is kept.
    """
    rows = Critiques(config.corpus, held_out)
    if len(rows) < config.prompts_per_rollout:
        raise InputError(f"{len(rows)} rows do not fill a rollout of {config.prompts_per_rollout}")
    state = processes()
    config.passes(state.num_processes)  # refuses before anything is written or loaded, as does the next
    check_savable(config)
    begin(config, out, resume)
    last = last_checkpoint(out / "checkpoints") if resume else None
    if resume and last is None:
        raise InputError(f"{out} has no checkpoint to resume from: run without --resume, to another folder")
    if state.is_main_process:
        tell(cost(config, rows.successes))
    model, processor = load(located(config.model), config)
    fits = fits_in(editor, processor, config.reward.prompt_tokens)
    settings = config.reward
    reward = CriticReward(editor, scorer, form=settings.form, local=local, fits=fits, batch=settings.batch)
    collapse = _Collapse(config.collapse, config.updates)
    trainer = _trainer(config, out, (model, processor), rows, reward, [collapse, *tensorboard(out)])
    _run(trainer, collapse, last, out)
    save(trainer, processor, config.save_dtype, out)
    if trainer.is_world_process_zero():
        write_card(out, card(config, rows=len(rows), history=trainer.state.log_history))
    return {"steps": trainer.state.global_step, "rows": len(rows)}


def _trainer(
    config: GrpoConfig,
    out: Path,
    loaded: "tuple[PreTrainedModel, ProcessorMixin]",
    rows: Critiques,
    reward: CriticReward,
    callbacks: list[TrainerCallback],
) -> _Trainer:
    model, processor = loaded
    processor.tokenizer.padding_side = "left"  # as TRL pads what it samples from
    frozen = freeze(model, config)
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(_brief)
    trainer = _Trainer(
        model=model,
        args=trl_arguments(config, out, model, processes().num_processes),
        train_dataset=rows.as_dataset(dialect(config.dialect, config.prompts), config.mode),
        processing_class=processor,
        reward_funcs=[reward_function(reward, rows, config)],
        peft_config=adapters(model, config, frozen) if config.method == "lora" else None,
        callbacks=callbacks,
        outage=config.outage,
    )
    if isinstance(trainer.ref_model, torch.nn.Module):
        quicken(trainer.ref_model)
    return trainer


def _run(trainer: _Trainer, collapse: _Collapse, last: str | None, out: Path) -> None:
    try:
        trainer.train(resume_from_checkpoint=last)
    except BackendError as e:
        trainer.save_now()
        has_checkpoint = last_checkpoint(out / "checkpoints") is not None
        advice = (
            "the same command with --resume"
            if has_checkpoint
            else "again to another folder, as no step was made"
        )
        raise BackendError(f"{e}: see that both run, then start {advice}") from e
    if collapse.found:
        message = f"{collapse.found}; the last checkpoint is in {out / 'checkpoints'}"
        raise CollapseError(f"{message}: try a lower learning_rate or a balanced corpus")


def reward_function(reward: CriticReward, rows: Critiques, config: GrpoConfig) -> Callable[..., Any]:
    """Make the one reward as TRL calls it.

    Its parts are metrics, since a part that is None would count as 0.
    """
    weights = RewardWeights(config.reward.format, config.reward.accuracy, config.reward.step)

    async def critic(
        completions: Sequence[Any], number: Sequence[int], log_metric: Callable[[str, float], None], **_: Any
    ) -> list[float | None]:
        critiques = [rows.row(n) for n in number]
        marks = await reward.marks(critiques, [text_of(c) for c in completions])
        for name, value in summary(critiques, marks).items():
            log_metric(f"critic/{name}", value)
        return [None if m is None else m.total(weights) for m in marks]

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


def _brief(record: logging.LogRecord) -> bool:
    return _UNKNOWN not in str(record.msg)
