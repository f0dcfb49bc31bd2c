"""The configuration of GRPO, read from YAML, and an estimate of what a run costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from goalreel.chat.dialects import DialectName, Mode
from goalreel.errors import InputError
from goalreel.training.config import Count, Portion, TrainingConfig
from goalreel.training.language_config import ModelSettings, Rate, Share
from goalreel.training.reward_variants import FormName

Factor = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class RewardSettings(TrainingConfig):
    """R = format x form + (1 - format) (accuracy x verdict + step x change); see `training.rewards`."""

    form: FormName = "repository"
    """How verdict and change are marked (`training.reward_variants`)."""
    format: Portion = 0.5
    accuracy: Factor = 0.2
    step: Factor = 0.8
    prompt_tokens: Count = 512
    """What a remote editor reads of a prompt; one in this process knows its own limit. Counted with the
    Critic's tokenizer: FLUX.2-klein's is of the same family."""
    batch: Count = 32
    """Edits a call."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.accuracy == self.step == 0:
            raise ValueError("accuracy and step are both 0: nothing would be learned but the form")
        return self


class OutageSettings(TrainingConfig):
    """What to do when editor or scorer fail."""

    most: Portion = 0.05
    """Share of a rollout's rewards that may be unknown."""
    waits: tuple[Factor, ...] = (30, 60, 120, 240)
    """Pauses before more are asked for again (s); after the last the run ends."""


class CollapseSettings(TrainingConfig):
    """When a Critic no longer judges: the share of acceptances over some rollouts."""

    least: Portion = 0.05
    most: Portion = 0.95
    rollouts: Count = 20


class VllmSettings(TrainingConfig):
    """Sampling by vLLM in the training processes, for GPUs."""

    tensor_parallel: Count = 1
    memory: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of a GPU's memory for it."""


class GrpoConfig(ModelSettings):
    """Single-step GRPO (arXiv 2402.03300) of a Critic."""

    role: Literal["critic"] = "critic"
    model: Annotated[str, Field(min_length=1)]
    """Folder, repository or shipped name of the Critic to go on from."""
    corpus: tuple[Path, ...] = ()
    """Folders of critiques (`goalreel corpus make --kind critiques`)."""
    editor: str | None = None
    """Name of the editor that draws what the Critic asks for."""
    scorer: str | None = None
    """Name of what scores its pictures (`models.scorers`)."""
    dialect: DialectName = "own"
    """As the checkpoint was fine-tuned with."""
    prompts: Path | None = None
    """A clone of InterleaveThinker, for that dialect."""
    mode: Mode = "strict"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

    steps: Count | None = None
    epochs: Rate | None = None
    prompts_per_rollout: Annotated[int, Field(ge=1)] = 16
    group: Annotated[int, Field(ge=2)] = 8
    """Completions a prompt."""
    updates: Count = 1
    """Optimizer steps a rollout, each on its own share of the completions."""
    batch_size: Count = 8
    """Completions a device and forward pass."""
    temperature: Rate = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_completion_length: Count = 4096

    learning_rate: Rate = 2e-6
    weight_decay: Factor = 0.01
    betas: tuple[Share, Share] = (0.9, 0.999)
    max_grad_norm: Rate = 1.0
    warmup: Factor = 0.0
    """Steps, or a share of all steps where below 1; after it the rate is constant."""
    kl: Factor = 1e-3
    """Weight of the divergence from the Critic that the run went on from; 0 holds no copy of it."""
    clip: tuple[Factor, Factor] = (0.2, 0.3)
    dual_clip: Rate | None = None
    loss: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = "dapo"
    """`dapo` weighs all tokens alike (token mean)."""
    scale_rewards: Literal["group", "batch", "none"] = "batch"
    """What advantages are divided by: the spread of rewards in the group, or in the whole rollout. By group,
    a single dissent among equal replies is blown up to as much as the largest of differences."""

    reward: RewardSettings = RewardSettings()
    outage: OutageSettings = OutageSettings()
    collapse: CollapseSettings = CollapseSettings()
    vllm: VllmSettings | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        if self.prompts_per_rollout * self.group % self.updates:
            raise ValueError("updates do not divide the completions of a rollout")
        return self

    @property
    def completions(self) -> int:
        """Completions a rollout, over all devices."""
        return self.prompts_per_rollout * self.group

    def passes(self, devices: int) -> tuple[int, int]:
        """Forward passes a rollout on each of so many devices, and those an optimizer step.

        Raises:
            InputError: they do not come out even.
        """
        together = self.batch_size * devices
        if self.completions % together or self.completions // together % self.updates:
            raise InputError(
                f"{self.completions} completions a rollout in {self.updates} updates do not divide over "
                f"{devices} device(s) with batch_size {self.batch_size}"
            )
        every = self.completions // together
        return every, every // self.updates

    def optimizer_steps(self, rows: int) -> int:
        """Count the optimizer steps of the run; rows that do not fill a rollout wait for the next epoch."""
        if self.steps is not None:
            return self.steps
        return int((self.epochs or 0) * (rows // self.prompts_per_rollout) * self.updates)


@dataclass(frozen=True)
class RunCost:
    """What a run will ask for, at most."""

    rollouts: int
    completions: int
    edits: int
    """Of rows whose candidate is wrong, one a row for the control (`rewards.Marks`) among them; what is
    remembered is not asked for again."""

    def __str__(self) -> str:
        return (
            f"{self.rollouts:,} rollouts: {self.completions:,} completions, "
            f"at most {self.edits:,} edits and as many pictures to score"
        )


def cost(config: GrpoConfig, successes: Sequence[bool]) -> RunCost:
    """Estimate what a run on rows with these truths will cost."""
    steps = config.optimizer_steps(len(successes))
    rollouts = -(-steps // config.updates)
    completions, prompts = rollouts * config.completions, rollouts * config.prompts_per_rollout
    wrong = 1 - sum(successes) / len(successes)
    return RunCost(rollouts, completions, round((completions + prompts) * wrong))
