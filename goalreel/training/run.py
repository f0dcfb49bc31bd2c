"""A run of a Hugging Face trainer: the model to train, the folder, TRL's settings, checkpoints and curves.

A run is resumed only with the settings that it began with.
"""

import fcntl
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import torch
import yaml
from accelerate import PartialState
from accelerate.utils import DistributedType, parse_flag_from_env
from peft import LoraConfig, PeftModel
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    PreTrainedModel,
    ProcessorMixin,
    Trainer,
    TrainerCallback,
)
from transformers.integrations import TensorBoardCallback

from goalreel import checkpoints, files
from goalreel.errors import InputError, first_line
from goalreel.settings import SettingError
from goalreel.training.config import BOUNDS, AgentConfig

_SIDE, _ROUNDS, _FASTER = 256, 5, 0.75
TOWERS = frozenset({"visual", "vision_tower", "vision_model"})
PROJECTORS = frozenset({"merger", "deepstack_merger_list", "multi_modal_projector", "connector"})
"""Names of the modules, in the Qwen-VL classes (where the projector lies within the tower) and elsewhere."""


def computes_bf16() -> bool:
    """Tell whether this machine computes in bf16 faster than in float32: a GPU does; a CPU is measured, once.

    What a CPU says of itself does not tell: of two with AVX-512's bf16 one was twice as fast with it, the
    other slower (dev/LOG.md, 2026-11-25).
    """
    return torch.cuda.is_available() or _gains()


def half(device: torch.device, *, enabled: bool = True) -> torch.autocast:
    """Autocast to bf16, where it is wanted and computed."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled and computes_bf16())


def fused_attention_is_slow() -> bool:
    """Tell whether torch's fused attention takes longer here than products of matrices, for narrow heads.

    On a CPU it does in bf16 (dev/LOG.md, 2026-11-25).
    """
    return not torch.cuda.is_available() and computes_bf16()


@cache
def _gains() -> bool:
    return product_seconds(torch.bfloat16) < _FASTER * product_seconds(torch.float32)


def product_seconds(dtype: torch.dtype, side: int = _SIDE) -> float:
    """Time a product of two square matrices on the CPU: the least of some rounds, in seconds."""
    a, b = torch.ones(2, side, side, dtype=dtype)
    seconds = []
    for _ in range(1 + _ROUNDS):
        started = time.perf_counter()
        torch.mm(a, b)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


class _Patches(torch.nn.Conv3d):
    """A Qwen-VL tower's patch embedding as one product: PyTorch's convolution is slow on a CPU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Embed patches (n, channels, frames, side, side) of the kernel's size: (n, hidden, 1, 1, 1)."""
        patches = torch.nn.functional.linear(input.flatten(1), self.weight.flatten(1), self.bias)
        return patches[..., None, None, None]


def load(source: str | Path, config: AgentConfig) -> tuple[PreTrainedModel, ProcessorMixin]:
    """Load the checkpoint to train from safetensors, without code of its own.

    Raises:
        InputError: not such a checkpoint.
    """
    try:
        processor = AutoProcessor.from_pretrained(files.check_folder(Path(source)), trust_remote_code=False)
        model = AutoModelForImageTextToText.from_pretrained(
            source,
            dtype=config.dtype,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="eager" if config.bf16 and fused_attention_is_slow() else "sdpa",
        )
    except (OSError, ValueError, RuntimeError, ImportError) as e:
        raise InputError(f"cannot load {source} to train it: {first_line(e)[:300]}") from e
    quicken(model)
    if config.max_pixels is not None:
        size = processor.image_processor.size
        if "longest_edge" not in size:
            raise InputError(f"max_pixels has no meaning for the pictures of {source}")
        size["longest_edge"] = config.max_pixels
    return model, processor


def quicken(model: torch.nn.Module) -> None:
    """Make a Qwen-VL tower embed its patches as fast on a CPU as it can; any other model stays as it is."""
    for module in model.modules():
        if type(module) is torch.nn.Conv3d and module.kernel_size == module.stride:
            module.__class__ = _Patches


def freeze(model: PreTrainedModel, config: AgentConfig) -> frozenset[str]:
    """Stop gradients where the configuration says so, and name the parameters that are frozen.

    Raises:
        InputError: the model has no such part.
    """
    names = [name for name, _ in model.named_parameters()]
    towers = {n for n in names if TOWERS & set(n.split("."))}
    projectors = {n for n in names if PROJECTORS & set(n.split("."))}
    trained: set[str] = set()
    for part, part_names, chosen in (
        ("vision tower", towers - projectors, config.freeze_vision_tower),
        ("projector", projectors, config.freeze_projector),
    ):
        if chosen and not part_names:
            raise InputError(f"{type(model).__name__} has no {part} to freeze that goalreel knows by name")
        trained |= part_names if chosen else set()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in trained)
    return frozenset(trained)


def adapters(model: PreTrainedModel, config: AgentConfig, frozen: frozenset[str]) -> LoraConfig:
    """Describe adapters on all linear layers but the output layer and what is frozen."""
    head = model.get_output_embeddings()
    targets = [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head and f"{name}.weight" not in frozen
    ]
    return LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha,  # pyrefly: ignore[bad-argument-type]  (only a factor: any number will do)
        lora_dropout=config.lora.dropout,
        target_modules="|".join(re.escape(t) for t in targets),
        task_type="CAUSAL_LM",
    )


SETTINGS = "training.yaml"
_HELD: dict[Path, int] = {}
"""The folders that this process trains in, and the handles that hold them."""


def processes() -> PartialState:
    """Join the processes that train together: on CPUs, too, where a launcher has started several."""
    return PartialState(cpu=not torch.cuda.is_available())


def sharded() -> bool:
    """Tell whether the launcher has the model's weights split among the processes."""
    kind = processes().distributed_type
    if kind in (DistributedType.DEEPSPEED, DistributedType.FSDP):
        return True
    # `PartialState` knows no FSDP: accelerate puts that in its place when it prepares the trainer.
    return kind != DistributedType.NO and parse_flag_from_env("ACCELERATE_USE_FSDP")


def begin(config: BaseModel, out: Path, resume: bool) -> str | None:
    """Write the settings into `out`, or with `resume` compare them, and find the last checkpoint.

    Raises:
        InputError: `out` holds another run, none to resume, or other settings; or one trains there now.
    """
    settings = config.model_dump(mode="json")
    path = out / SETTINGS
    with processes().main_process_first():
        if resume:
            _compare(path, settings)
        elif processes().is_main_process:
            if out.exists() and (not out.is_dir() or any(out.iterdir())):
                raise InputError(f"{out} is not empty: give another --out, or --resume to continue its run")
            out.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(settings, sort_keys=False))
        hold(out)
    last = last_checkpoint(out / "checkpoints") if resume else None
    if resume and last is None and isinstance(config, AgentConfig):
        raise InputError(f"{out} has no checkpoint to resume from: run without --resume, to another folder")
    return last


def hold(out: Path) -> None:
    """Keep other runs out of `out` until this process ends, the main one of those that train together.

    Raises:
        InputError: another process trains there.
    """
    out.mkdir(parents=True, exist_ok=True)
    folder = out.resolve()
    if folder in _HELD or not processes().is_main_process:
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
        os.close(handle)
        raise InputError(f"{out}: another run is training there: wait, or give another --out") from e
    except OSError:  # a file system without locks
        os.close(handle)
    else:
        _HELD[folder] = handle


def _leave() -> None:
    """Let go in a forked child, which may outlive a killed run for a moment."""
    for handle in _HELD.values():
        os.close(handle)
    _HELD.clear()


os.register_at_fork(after_in_child=_leave)


def is_nano(model: str) -> bool:
    """Tell whether a configuration's `model` is nano, a shipped one, or the result of runs back to one."""
    path = Path(model) / SETTINGS
    if model == "nano" or checkpoints.located(model) != model:
        return True
    settings = _read(path) if path.is_file() else {}
    return "model" in settings and is_nano(str(settings["model"]))


def _read(path: Path) -> dict[str, object]:
    form = "not the settings of a training run"
    settings = files.read_mapping(path, form)
    if not {"model", "editor"} & settings.keys():
        raise InputError(f"{path}: {form}")
    return settings


def _compare(path: Path, settings: dict[str, object]) -> None:
    if not path.is_file():
        raise InputError(f"{path.parent} holds no run to resume: it has no {SETTINGS}")
    before = _read(path)
    if changed := sorted(k for k in {*before, *settings} if before.get(k) != settings.get(k)):
        another = ", ".join(changed)
        raise InputError(f"{path.parent} was begun with another {another}: a run keeps its settings")


def trainer_arguments[T](
    kind: type[T], config: AgentConfig, out: Path, defaults: Mapping[str, Any], **fixed: Any
) -> T:
    """Make TRL's configuration `kind` of a run in `out`: `defaults`, then the run's settings, then `fixed`.

    Raises:
        InputError: a setting that TRL does not know, or refuses.
    """
    hints = get_type_hints(kind)
    ours = {"output_dir", "use_cpu", "report_to", *fixed}
    if unknown := sorted(config.trainer.keys() - hints.keys() | config.trainer.keys() & ours):
        raise InputError(f"{unknown[0]}: no such setting, of goalreel or of TRL's {kind.__name__}")
    form: Any = {name: (BOUNDS.get(name, hints[name]), ...) for name in config.trainer}
    checked = create_model("Settings", __config__=ConfigDict(arbitrary_types_allowed=True), **form)
    try:
        given = dict(checked.model_validate(config.trainer))
        settings: dict[str, Any] = {
            "save_total_limit": 2,
            "gradient_checkpointing": False,
            **defaults,
            **given,
            **fixed,
            "output_dir": str(out / "checkpoints"),
            "seed": config.seed,
            "bf16": config.bf16 and computes_bf16(),
            "use_cpu": not torch.cuda.is_available(),
            "report_to": [],  # the TensorBoard callback is given a folder of its own
        }
        return kind(**settings)
    except ValidationError as e:
        raise SettingError.of(e) from e
    except ValueError as e:  # such as a batch that does not divide over the devices
        raise InputError(f"the trainer refuses these settings: {first_line(e)[:300]}") from e


def last_checkpoint(folder: Path) -> str | None:
    """Find the newest checkpoint that was written to its end; a killed run may leave one that was not."""
    steps: list[int] = []
    for checkpoint in folder.glob("checkpoint-*"):
        with suppress(OSError, ValueError):
            json.loads(files.read_file(checkpoint / "trainer_state.json"))  # which the Trainer writes last
            steps.append(int(checkpoint.name.removeprefix("checkpoint-")))
    return str(folder / f"checkpoint-{max(steps)}") if steps else None


def tensorboard(out: Path) -> list[TrainerCallback]:
    """Make what writes a run's curves to `out/logs`, in the main process alone."""
    if not processes().is_main_process:
        return []
    board = TensorBoardCallback()
    board.logging_dir = str(out / "logs")
    return [board]


def check_sharded(settings: AgentConfig) -> None:
    """Refuse adapters for a sharded model: they could not be merged at the end."""
    if settings.method == "lora" and sharded():
        raise InputError(
            "adapters cannot be merged under DeepSpeed or FSDP: set method to full, or shard nothing"
        )


def save(trainer: Trainer, processor: ProcessorMixin, dtype: str | None, out: Path) -> None:
    """Write weights, adapters merged and of another `dtype` if one is given, and processor."""
    if trainer.accelerator.distributed_type in (DistributedType.DEEPSPEED, DistributedType.FSDP):
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
