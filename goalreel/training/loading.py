"""Load the model to train, freeze it in parts, put adapters on it, and compute as the machine does best."""

import re
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from peft import LoraConfig
from transformers import AutoModelForImageTextToText, AutoProcessor

from goalreel.errors import InputError, first_line
from goalreel.files import check_folder
from goalreel.training.config import AgentConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


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


def load(source: str | Path, config: AgentConfig) -> "tuple[PreTrainedModel, ProcessorMixin]":
    """Load the checkpoint to train from safetensors, without code of its own.

    Raises:
        InputError: not such a checkpoint.
    """
    try:
        processor = AutoProcessor.from_pretrained(check_folder(Path(source)), trust_remote_code=False)
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


def freeze(model: "PreTrainedModel", config: AgentConfig) -> frozenset[str]:
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


def adapters(model: "PreTrainedModel", config: AgentConfig, frozen: frozenset[str]) -> LoraConfig:
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
