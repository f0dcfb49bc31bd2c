"""Read a training configuration from YAML, or from one of goalreel's presets.

The settings of goalreel are declared here. All others are fields of TRL's own classes, `SFTConfig` and
`GRPOConfig`, and go there as they are. Paths are relative to the working directory, as on the command line.
"""

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

import goalreel.training.presets as presets_package
from goalreel.chat.dialects import DialectName
from goalreel.errors import InputError
from goalreel.extras import install_beside
from goalreel.files import read_mapping
from goalreel.settings import Frozen, SettingError
from goalreel.terms import Mode

if TYPE_CHECKING:
    from goalreel.training.sft import RowTrainer

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Portion = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Factor = Annotated[float, Field(ge=0, allow_inf_nan=False)]
BOUNDS: dict[str, Any] = {
    **dict.fromkeys(("max_steps", "per_device_train_batch_size", "gradient_accumulation_steps"), Count),
    **dict.fromkeys(("num_train_epochs", "learning_rate", "temperature"), Rate),
    **dict.fromkeys(("weight_decay", "warmup_steps", "max_grad_norm", "beta", "epsilon"), Factor),
    **dict.fromkeys(("adam_beta1", "adam_beta2"), Share),
    **dict.fromkeys(("logging_steps", "save_steps"), Positive),
    "max_completion_length": Count,
    "save_total_limit": Count | None,
    "epsilon_high": Factor | None,
    "delta": Rate | None,
    "dataloader_num_workers": Annotated[int, Field(ge=0)],
    "num_generations": Annotated[int, Field(ge=2)],
    "top_p": Annotated[float, Field(gt=0, le=1)],
    "scale_rewards": Literal["group", "batch", "none"],
    "vllm_gpu_memory_utilization": Annotated[float, Field(gt=0, lt=1)],
}
"""Bounds of TRL's settings, which it does not check before it trains, if at all."""


def extension(name: str) -> Any:
    """Load what an installed package adds to training as `name` (goalreel-lab: the nano models), or None."""
    entries = [*metadata.entry_points(group="goalreel.training", name=name)]
    return entries[0].load() if entries else None


def presets() -> dict[str, Path]:
    """Map the names of the configurations of goalreel, and of packages that add some, to their files."""
    packages = [package for package in (presets_package, extension("presets")) if package is not None]
    files = (file for package in packages for file in Path(package.__path__[0]).glob("*.yaml"))
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


def read_config[C: Frozen](source: str, kind: type[C], **overrides: object) -> C:
    """Read a preset by name, or a YAML file, with those of `overrides` that are not None in place of its own.

    Raises:
        InputError: no such preset or file, no YAML, or a setting that cannot be.
    """
    settings = read_settings(source)
    try:
        return kind.model_validate(settings | {k: v for k, v in overrides.items() if v is not None})
    except ValidationError as e:
        raise InputError(f"{source}: {SettingError.of(e)}") from e


def read_settings(source: str) -> dict[str, Any]:
    """Read a preset by name, or a YAML file, as it is."""
    return read_mapping(config_file(source), "a configuration has one `setting: value` a line")


def config_file(source: str) -> Path:
    """Find the file of a preset, by its name, or the file itself; raise an InputError if it is neither."""
    if source in (files := presets()):
        return files[source]
    if Path(source).is_file():
        return Path(source)
    if source.startswith("nano-"):
        raise InputError(f"the configurations of nano models come with goalreel-lab: {install_beside('lab')}")
    raise InputError(f"no configuration {source}: give a YAML file or one of {', '.join(files)}")


type LongRows = Literal["refuse", "cut", "drop"]
type FormName = Literal["repository", "paper"]


class LoraSettings(Frozen):
    """Low-rank adapters (arXiv 2106.09685) on every linear layer that is not frozen; merged when saved."""

    rank: Count = 64
    alpha: Rate = 128
    dropout: Share = 0.0


class AgentConfig(Frozen, extra="allow"):
    """The model to train, which of its weights, and on what; `trainer` has the fields of TRL's class."""

    role: Literal["planner", "critic"]
    model: Annotated[str, Field(min_length=1)]
    """A folder, repository or shipped name that `AutoModelForImageTextToText` loads."""
    corpus: tuple[Path, ...] = ()
    """ShareGPT files (see `training.rows`); for GRPO, folders of critiques."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    max_pixels: Count | None = None
    """Larger pictures are scaled down to this area; None leaves the checkpoint's own limit."""
    method: Literal["full", "lora"] = "full"
    lora: LoraSettings = LoraSettings()
    freeze_vision_tower: bool = False
    freeze_projector: bool = False
    bf16: bool = True
    """Compute in bf16 where the machine gains by it."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights while training."""
    save_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Type of the saved weights, where it is to differ from `dtype`; not for sharded runs."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        settings = self.model_extra or {}
        if ("max_steps" in settings) == ("num_train_epochs" in settings):
            raise ValueError("give either max_steps or num_train_epochs")
        for name in ("per_device_train_batch_size", "gradient_accumulation_steps"):
            if not isinstance(count := settings.get(name, 1), int) or count < 1:
                raise ValueError(f"{name}: give a whole number from 1 on")
        if settings.get("lr_scheduler_type") == "warmup_stable_decay" and "num_decay_steps" not in str(
            settings.get("lr_scheduler_kwargs")
        ):
            raise ValueError("warmup_stable_decay needs lr_scheduler_kwargs: {num_decay_steps: N}")
        return self

    @property
    def trainer(self) -> dict[str, Any]:
        """The settings of TRL's class."""
        return dict(self.model_extra or {})


class SftConfig(AgentConfig):
    """Supervised fine-tuning of a Planner or a Critic, with the fields of TRL's SFTConfig."""

    validation: tuple[Path, ...] = ()
    """ShareGPT files to measure on."""
    max_length: Count | None = None
    """Tokens a row may have, prompt and pictures counted."""
    long_rows: LongRows = "refuse"
    """For a row of more than `max_length` tokens: end with an error, cut the end of its reply, or leave the
    row out. `cut` also leaves out a row whose prompt alone is that long."""

    def trainer_class(self) -> "type[RowTrainer] | None":
        """Name the trainer; None, as here, for `training.sft.RowTrainer`."""
        return None

    def from_scratch(self, rows: Sequence[Mapping[str, Any]], folder: Path) -> Path | None:
        """Make the model to train, in `folder`, once; None, as here, where `model` is to be loaded.

        `rows` are those of `training.rows.read_rows`.
        """
        return None


class RewardSettings(Frozen):
    """R = format x form + (1 - format) (accuracy x verdict + step x change); see `training.rewards`."""

    form: FormName = "repository"
    """The marks of verdict and change (`training.rewards.FORMS`)."""
    format: Portion = 0.5
    accuracy: Factor = 0.2
    step: Factor = 0.8
    prompt_tokens: Count = 512
    """The length of prompt that a remote editor reads, counted with the Critic's tokenizer."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.accuracy == self.step == 0:
            raise ValueError("accuracy and step are both 0: nothing would be learned but the form")
        return self


class OutageSettings(Frozen):
    """Patience with an editor or scorer that fails."""

    most: Portion = 0.05
    """Share of a rollout's rewards that may be unknown."""
    waits: tuple[Factor, ...] = (30, 60, 120, 240)
    """Pauses before more are asked for again (s); after the last the run ends."""


class CollapseSettings(Frozen):
    """The share of acceptances over some rollouts beyond which a Critic no longer judges."""

    least: Portion = 0.05
    most: Portion = 0.95
    rollouts: Count = 20


class GrpoConfig(AgentConfig):
    """Single-step GRPO (arXiv 2402.03300) of a Critic, with the fields of TRL's GRPOConfig."""

    role: Literal["critic"] = "critic"
    editor: str | None = None
    """Name of the editor that draws what the Critic asks for."""
    scorer: str | None = None
    """Name of the scorer of its pictures (`models.scorers`)."""
    dialect: DialectName = "own"
    """The dialect that the checkpoint was fine-tuned with."""
    prompts: Path | None = None
    """A clone of InterleaveThinker, for that dialect."""
    mode: Mode = "strict"
    reward: RewardSettings = RewardSettings()
    outage: OutageSettings = OutageSettings()
    collapse: CollapseSettings = CollapseSettings()
