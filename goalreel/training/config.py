"""Read a training configuration: frozen settings from YAML, or from one of goalreel's presets.

Paths in a configuration are relative to the working directory, as on the command line.

The configuration of a language model and its fine-tuning, read from YAML.

The configuration of GRPO, read from YAML, and an estimate of what a run costs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

import goalreel.training.presets as presets_package
from goalreel.chat.dialects import DialectName, Mode
from goalreel.errors import InputError
from goalreel.training.rewards import FormName

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Portion = Annotated[float, Field(ge=0, le=1)]


class TrainingConfig(BaseModel):
    """Settings that cannot change, and that refuse a name they do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Schedule(TrainingConfig):
    """How long and how fast one trainer runs."""

    steps: Count
    batch: Count
    """Rows a step, over all devices."""
    learning_rate: Positive = 2e-3
    """AdamW's highest rate."""
    muon_learning_rate: Positive = 1.5e-2
    """Muon's highest rate, for the matrices."""
    warmup: Count = 100
    decay: Portion = 0.5
    """The last share of the steps, over which the rates fall to 1 %."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-3
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.999
    log_every: Count = 50
    save_every: Count = 1000


def extension(name: str) -> Any:
    """Load what an installed package adds to training as `name` (goalreel-lab: the nano models), or None."""
    for entry in metadata.entry_points(group="goalreel.training", name=name):
        return entry.load()
    return None


def presets() -> list[str]:
    """Name the configurations that come with goalreel, and with packages that add some."""
    return sorted(_preset_files())


def _preset_files() -> dict[str, Path]:
    packages = [package for package in (presets_package, extension("presets")) if package is not None]
    return {file.stem: file for package in packages for file in Path(package.__path__[0]).glob("*.yaml")}


def read_config[C: TrainingConfig](source: str, kind: type[C], **overrides: object) -> C:
    """Read a preset by name, or a YAML file, with those of `overrides` that are not None in place of its own.

    Raises:
        InputError: no such preset or file, no YAML, or a setting that cannot be; one line that names it.
    """
    settings = read_settings(source)
    try:
        return kind.model_validate(settings | {k: v for k, v in overrides.items() if v is not None})
    except ValidationError as e:
        raise InputError(f"{source}: {_first(e)}") from e


def read_settings(source: str) -> dict[str, Any]:
    """Read a preset by name, or a YAML file, as it is.

    Raises:
        InputError: no such preset or file, or no YAML mapping.
    """
    try:
        read = yaml.safe_load(config_file(source).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise InputError(f"{source}: not YAML: {' '.join(str(e).split())[:200]}") from e
    settings = {} if read is None else read
    if not isinstance(settings, dict):
        raise InputError(f"{source}: a configuration is a mapping of settings to values")
    return settings


def _first(error: ValidationError) -> str:
    """Say where the first mistake is and what it is, and how many more there are."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}{more}"


def config_file(source: str) -> Path:
    """Find the file of a preset, by its name, or the file itself.

    Raises:
        InputError: neither; names the presets.
    """
    if source in (files := _preset_files()):
        return files[source]
    if not Path(source).is_file():
        raise InputError(f"no configuration {source}: give a YAML file or one of {', '.join(presets())}")
    return Path(source)


type AgentRole = Literal["planner", "critic"]
type LongRows = Literal["refuse", "cut", "drop"]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]


class LoraSettings(TrainingConfig):
    """Low-rank adapters (arXiv 2106.09685) on every linear layer that is not frozen; merged when saved."""

    rank: Count = 64
    alpha: Rate = 128
    dropout: Share = 0.0


class ModelSettings(TrainingConfig):
    """The model to train and which of its weights, whatever it is trained by."""

    max_pixels: Count | None = None
    """Larger pictures are scaled down to this area; None leaves the checkpoint's own limit."""
    method: Literal["full", "lora"] = "full"
    lora: LoraSettings = LoraSettings()
    freeze_vision_tower: bool = False
    freeze_projector: bool = False
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights while training; the arithmetic is bf16 where `bf16` and the machine has it."""
    save_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Type of the saved weights, where it is to differ from `dtype`; not for sharded runs."""
    bf16: bool = True
    gradient_checkpointing: bool = False
    log_every: Count = 10
    save_every: Count = 500
    keep: Count = 2
    """Checkpoints kept to resume from."""


class LanguageConfig(ModelSettings):
    """Supervised fine-tuning of a Planner or a Critic."""

    role: AgentRole
    model: Annotated[str, Field(min_length=1)]
    """A folder, repository or shipped name that `AutoModelForImageTextToText` loads."""
    corpus: tuple[Path, ...] = ()
    """ShareGPT files (see `training.conversations`)."""
    validation: tuple[Path, ...] = ()
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

    steps: Count | None = None
    epochs: Rate | None = None
    batch_size: Count = 8
    """Rows a device and step; times `accumulate`, times the number of devices."""
    accumulate: Count = 1
    max_length: Count | None = None
    """Tokens a row may have, prompt and pictures counted."""
    long_rows: LongRows = "refuse"
    """What to do with a row of more than `max_length` tokens: end with an error, cut the end of its reply,
    or leave the row out. `cut` also leaves out a row whose prompt alone is that long."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon`: Muon for matrices and AdamW for the rest; on one device or with DDP, not sharded."""
    learning_rate: Rate = 2e-5
    muon_learning_rate: Rate = 1.5e-2
    muon_weight_decay: Annotated[float, Field(ge=0)] = 0.01
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    betas: tuple[Share, Share] = (0.9, 0.999)
    max_grad_norm: Rate = 1.0
    schedule: Literal["cosine", "linear", "constant_with_warmup", "warmup_stable_decay"] = "cosine"
    warmup: Annotated[float, Field(ge=0)] = 0.0
    """Steps, or a share of all steps where below 1."""
    decay: Share = 0.5
    """Share of the steps over which `warmup_stable_decay` falls, linearly, to a hundredth."""
    phrase_weights: dict[re.Pattern[str], Rate] = Field(default_factory=dict)
    """Weight in the loss of the tokens that a regular expression finds in a reply, 1 elsewhere: what is said
    rarely and decides much would be learnt last."""

    compile: bool = False
    """Compile the layers of the decoder at their first step: half a minute, won back soon on a CPU. Without a
    C++ compiler they are not compiled."""
    workers: Annotated[int, Field(ge=0)] = 0
    """Processes that read pictures and tokenize."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        if self.schedule == "warmup_stable_decay" and self.steps is None:
            raise ValueError("schedule warmup_stable_decay needs steps")
        return self

    def from_scratch(self, rows: Sequence[Mapping[str, Any]], folder: Path) -> Path | None:
        """Make the model to train, in `folder`, or find the one that an earlier call made there.

        None, as here, where `model` is to be loaded. `rows` are those of `conversations.read_rows`.
        """
        return None


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
