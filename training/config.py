"""What a training run is told: frozen settings, read from YAML or from one of goalreel's presets."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

import goalreel.training.presets as presets_package

type Role = Literal["planner", "critic"]
Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
HEAD = 32
"""Width of an attention head of the nano models."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NanoShape(_Frozen):
    """Size of a language agent made from scratch; the defaults make about 2.5M parameters."""

    hidden: Annotated[int, Field(ge=HEAD, multiple_of=HEAD)] = 160
    layers: Count = 4
    vision_hidden: Annotated[int, Field(ge=HEAD, multiple_of=HEAD)] = 128
    vision_layers: Count = 3
    vocabulary: Annotated[int, Field(ge=320)] = 1024
    """Entries of the tokenizer, before the passages that are one token each (`training.nano.language`)."""
    side: Annotated[int, Field(ge=32, multiple_of=16)] = 128
    """Every picture is brought to about `side` x `side` pixels: 64 tokens at 128."""


class Lora(_Frozen):
    """Low-rank adapters (arXiv 2106.09685) on every linear layer that is not frozen; merged when saved."""

    rank: Count = 64
    alpha: Rate = 128
    dropout: Share = 0.0


class LanguageConfig(_Frozen):
    """Supervised fine-tuning of a Planner or a Critic."""

    role: Role
    model: Annotated[str, Field(min_length=1)]
    """`nano` to make one of shape `nano`, or a folder or repository `AutoModelForImageTextToText` loads."""
    nano: NanoShape = NanoShape()
    corpus: tuple[Path, ...] = ()
    """ShareGPT files (see `training.conversations`); relative to where the command runs."""
    words: tuple[Path, ...] = ()
    """More such files, of which a model made from scratch learns no more than words: a later training's."""
    validation: tuple[Path, ...] = ()
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0

    steps: Count | None = None
    epochs: Rate | None = None
    batch_size: Count = 8
    """Rows a device and step; times `accumulate`, times the number of devices."""
    accumulate: Count = 1
    max_length: Count | None = None
    """Tokens a row may have, prompt and pictures counted; a longer row is an error and never cut."""
    max_pixels: Count | None = None
    """Larger pictures are scaled down to this area; None leaves the checkpoint's own limit."""

    method: Literal["full", "lora"] = "full"
    lora: Lora = Lora()
    freeze_vision_tower: bool = False
    freeze_projector: bool = False

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
    phrase_weights: dict[re.Pattern[str], Rate] = {}
    """How much more counts what a regular expression finds in a reply: what is said rarely and decides much
    is otherwise learnt last."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights while training; the arithmetic is bf16 where `bf16`."""
    save_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Of the saved weights, where it is to differ; not for sharded runs."""
    bf16: bool = True
    gradient_checkpointing: bool = False
    workers: Annotated[int, Field(ge=0)] = 0
    """Processes that read pictures and tokenize."""
    log_every: Count = 10
    save_every: Count = 500
    keep: Count = 2
    """Checkpoints kept to resume from."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        if self.schedule == "warmup_stable_decay" and self.steps is None:
            raise ValueError("schedule warmup_stable_decay needs steps")
        if self.model != "nano" and self.words:
            raise ValueError("words is for a model made from scratch: this one has its words")
        if self.model == "nano" and (self.method == "lora" or self.freeze_vision_tower):
            raise ValueError("a nano model is made from scratch: train all of it")
        return self


def presets() -> list[str]:
    """The configurations that come with goalreel."""
    return sorted(f.stem for f in Path(presets_package.__file__).parent.glob("*.yaml"))


def read_config[C: BaseModel](source: str, kind: type[C], **overrides: Any) -> C:
    """Read a preset by name, or a YAML file, and replace the fields of `overrides` that are not None.

    Raises:
        ValueError: no such preset or file, no YAML, or a setting that cannot be; one line that names it.
    """
    try:
        data = yaml.safe_load(config_file(source).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        raise ValueError(f"{source}: not YAML: {' '.join(str(e).split())[:200]}") from e
    if not isinstance(data, dict):
        raise ValueError(f"{source}: a configuration is a mapping of settings to values")
    try:
        return kind.model_validate(data | {k: v for k, v in overrides.items() if v is not None})
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        more = f" (and {e.error_count() - 1} more)" if e.error_count() > 1 else ""
        raise ValueError(
            f"{source}: {place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}{more}"
        ) from e


def config_file(source: str) -> Path:
    """The file of a preset, by its name, or the file itself.

    Raises:
        ValueError: neither; names the presets.
    """
    if source in presets():
        return Path(presets_package.__file__).parent / f"{source}.yaml"
    if not Path(source).is_file():
        raise ValueError(f"no configuration {source}: give a YAML file or one of {', '.join(presets())}")
    return Path(source)
