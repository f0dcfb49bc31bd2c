"""GRPO of a Critic with TRL's `GRPOTrainer`: one reward for each reply, and none after an outage."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer

from goalreel.chat.dialects import dialect
from goalreel.checkpoints import located
from goalreel.errors import BackendError, InputError, UserError
from goalreel.scoring import Scorer
from goalreel.training.card import write_card
from goalreel.training.critiques import Critiques, HeldOut
from goalreel.training.grpo_arguments import trl_arguments
from goalreel.training.grpo_card import card
from goalreel.training.grpo_config import CollapseSettings, GrpoConfig, OutageSettings, RunCost, cost
from goalreel.training.loading import adapters, freeze, load, quicken
from goalreel.training.prompt_limit import fits_in
from goalreel.training.results import check_savable, last_checkpoint, save, tensorboard
from goalreel.training.rewards import CriticReward, RewardWeights, summary
from goalreel.training.run import begin, processes
from goalreel.types import Editor

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

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
