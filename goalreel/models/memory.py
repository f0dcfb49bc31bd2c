"""Estimates of whether the models of a preset fit on a GPU, before any of them is loaded."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from goalreel.checkpoints import located
from goalreel.editors.catalogue import catalogue
from goalreel.models.load import kinds_of, local_chat, planner_apart
from goalreel.models.names import EditorOptions, HfOptions, ModelName
from goalreel.models.presets import Preset
from goalreel.models.registry import chats, find, read_options
from goalreel.torch_support import BYTES, Quantize
from goalreel.types import ROLES, Role

_MAX_HEADER = 100_000_000
_WHOLE_PARTS = ("embed", "lm_head")
"""In the names of matrices that stay as they are when a model is quantised."""


def local_folder(source: str, file: str) -> Path | None:
    """Find a folder, or a repository's snapshot in the cache of the Hugging Face hub, that has `file`."""
    if Path(source).is_dir():
        return Path(source)
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        path = try_to_load_from_cache(source, file)
    except HFValidationError:
        return None
    return Path(path).parent if isinstance(path, str) else None


def model_gb(
    folder: Path, *, itemsize: int, quantize: Quantize | None = None, variant: str | None = None
) -> float | None:
    """Size of the model in a folder, in GB of 10^9 bytes; None without readable ones.

    Args:
        folder: of one model, with safetensors or, where a download is not whole, their index.
        itemsize: bytes of a number that is not quantised.
        quantize: how matrices other than embeddings are stored.
        variant: of the files, such as "fp16".
    """
    try:
        return _model_gb(folder, itemsize, quantize, variant)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # a broken file: see its loader
        return None


def _model_gb(folder: Path, itemsize: int, quantize: Quantize | None, variant: str | None) -> float | None:
    suffix = f".{variant}" if variant else ""
    index = next(iter(sorted(folder.glob(f"*.safetensors.index{suffix}.json"))), None)
    if index is None:
        weights = sorted(folder.glob("*.safetensors"))
        files = [file for file in weights if file.stem.partition(".")[2] == (variant or "")]
    else:
        content = json.loads(index.read_bytes())
        files = [folder / name for name in sorted(set(content["weight_map"].values()))]
        if not all(file.is_file() for file in files):
            return quantized_gb(content["metadata"]["total_size"] / 1e9, quantize)
    matrix = BYTES[quantize] if quantize else itemsize
    sizes = [n * (matrix if is_matrix else itemsize) for n, is_matrix in _tensors(files)]
    return sum(sizes) / 1e9 if sizes else None


def pipeline_gb(
    folder: Path, *, itemsize: int, quantize: Quantize | None = None, variant: str | None = None
) -> list[float]:
    """Sizes of the models of a diffusers pipeline, each as `model_gb`; empty without."""
    try:
        parts = dict(json.loads((folder / "model_index.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return []
    sizes = (
        model_gb(
            folder / part,
            itemsize=itemsize,
            quantize=quantize if part in ("transformer", "unet") or part.startswith("text_encoder") else None,
            variant=variant,
        )
        for part, value in parts.items()
        if isinstance(value, list) and (folder / part).is_dir()
    )
    return [size for size in sizes if size is not None]


def quantized_gb(gb: float, quantize: Quantize | None) -> float:
    """Estimate what weights of two bytes take when they are quantised; embeddings are about a seventh."""
    return gb if quantize is None else gb * (1 / 7 + 6 / 7 * BYTES[quantize] / 2)


def _tensors(files: Iterable[Path]) -> Iterator[tuple[int, bool]]:
    """Each tensor's number of elements, and whether it is a matrix that quantisation makes smaller."""
    for file in files:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > _MAX_HEADER:
                raise ValueError(f"{file} is not a safetensors file")
            header = json.loads(stream.read(length))
        for name, tensor in header.items():
            if name != "__metadata__":
                whole = len(tensor["shape"]) != 2 or any(part in name for part in _WHOLE_PARTS)
                yield prod(tensor["shape"]), not whole


PUBLISHED_GB = {"InterleaveThinker/": 17.5, "Qwen/Qwen3-VL-8B": 17.5, "Qwen/Qwen3-VL-4B": 8.9}
"""Weights of chat models in bfloat16, by the beginning of their names: facts for before a download."""
CHAT_GB, EDIT_GB = 1.5, 3.5
"""GB that one conversation, or one edit of a megapixel, takes beside the weights, with room: the critic took
1.0 GB and FLUX.2-klein-4B 2.6 GB at 1024x768 (docs/results/models.md)."""
CONTEXT_GB = 0.6
"""GB that CUDA takes."""

type SizeOrigin = Literal["its files", "published", "a server", "no GPU", "unknown"]


@dataclass(frozen=True)
class ModelMemory:
    """Memory of a role's model on the GPU, in GB of 10^9 bytes."""

    role: Role
    model: str
    weights_gb: float | None
    """None where nothing tells."""
    call_gb: float = 0.0
    """During a call, the weights included."""
    resident_gb: float = 0.0
    """Between calls: less than the weights where they are offloaded."""
    origin: SizeOrigin = "its files"

    def __str__(self) -> str:
        size = "unknown" if self.weights_gb is None else _gb(self.weights_gb)
        return f"{self.role} {size if self.weights_gb != 0 else self.origin}"


@dataclass(frozen=True)
class PresetMemory:
    """Memory of the models of a preset together."""

    models: tuple[ModelMemory, ...]
    plans_first: bool
    """The planner is freed before the other models are loaded."""

    @property
    def needed_gb(self) -> float | None:
        """At most, with one request at a time; None where a model's size is unknown."""
        if any(model.weights_gb is None for model in self.models):
            return None
        first = [m for m in self.models if m.role == "planner"] if self.plans_first else []
        rest = [model for model in self.models if model not in first]
        return max(_peak(first), _peak(rest))

    @property
    def together_gb(self) -> float | None:
        """With all models in memory at once, as in a server; None where a model's size is unknown."""
        return None if any(model.weights_gb is None for model in self.models) else _peak(self.models)

    def line(self, gpu_gb: float | None) -> str:
        """Say what is needed, and whether a GPU of `gpu_gb` holds it (None: there is none)."""
        sizes = ", ".join(map(str, self.models))
        if published := [model.role for model in self.models if model.origin == "published"]:
            sizes += f" (published sizes, as not downloaded: {', '.join(published)})"
        needed = self.needed_gb
        if needed is None:
            unknown = ", ".join(model.model for model in self.models if model.weights_gb is None)
            return f"memory: {sizes}; download it first to know: {unknown}"
        if not needed:
            return f"memory: {sizes}; no GPU is needed"
        need = f"memory: {sizes}; at most {_gb(needed)} at work"
        if self.plans_first:
            need += f", as all plans are made first (serve and rollout: {_gb(_peak(self.models))})"
        if gpu_gb is None:
            return f"{need}; there is no GPU here: name a size to compare with, as --gpu 24"
        if self.fits(gpu_gb):
            return f"{need}: fits in {_gb(gpu_gb)}"
        return (
            f"{need}: does not fit in {_gb(gpu_gb)}; use --preset klein-24gb or klein-48gb, "
            "?quantize=fp8 or ?offload=model, or models on servers"
        )

    def fits(self, gpu_gb: float) -> bool:
        """True if a GPU of so many GB holds it."""
        return self.needed_gb is not None and self.needed_gb <= gpu_gb

    def as_json(self, gpu_gb: float | None) -> dict[str, Any]:
        """Everything, for `--json`."""
        fits = None if gpu_gb is None or self.needed_gb is None else self.fits(gpu_gb)
        return {**asdict(self), "needed_gb": self.needed_gb, "gpu_gb": gpu_gb, "fits": fits}


def memory_of(preset: Preset) -> PresetMemory:
    """Estimate the memory of a preset's models from their files, or from published sizes.

    Raises:
        InputError: a name of no kind, or an option that does not fit.
    """
    role_kinds = kinds_of(preset)
    models = {role: _model(role, preset.model_name(role)) for role in ROLES}
    planner = local_chat(preset.planner, "planner")
    if planner is not None and planner == local_chat(preset.critic, "critic"):  # loaded once
        del models["critic"]
    return PresetMemory(tuple(models.values()), planner_apart(preset, role_kinds))


def gpu_gb() -> float | None:
    """The memory of the first GPU, in GB of 10^9 bytes; None without one."""
    from goalreel.torch_support import has_gpu

    if not has_gpu():
        return None
    import torch

    return torch.cuda.mem_get_info()[1] / 1e9


def _gb(size: float) -> str:
    return f"{size:.1f} GB" if size >= 0.1 else f"{size * 1000:.0f} MB"


def _peak(models: Sequence[ModelMemory]) -> float:
    if not any(model.call_gb for model in models):
        return 0.0
    resident = sum(model.resident_gb for model in models)
    return CONTEXT_GB + resident + max(model.call_gb - model.resident_gb for model in models)


def _model(role: Role, name: ModelName) -> ModelMemory:
    if name.parts:
        parts = [_model(role, part) for part in name.parts]
        sizes = [part.weights_gb for part in parts if part.weights_gb is not None]
        resident = sum(part.resident_gb for part in parts)
        call = resident + max(part.call_gb - part.resident_gb for part in parts)
        origins = {part.origin for part in parts}
        origin = "published" if "published" in origins else parts[-1].origin
        weights = sum(sizes) if len(sizes) == len(parts) else None
        return ModelMemory(role, name.plain(), weights, call, resident, origin)
    if find(role, name).asks_chat:
        name = name.inner
    kind = find(role, name)
    if kind.remote or not (kind.predicts or kind.shared):
        return ModelMemory(role, name.plain(), 0.0, origin="a server" if kind.remote else "no GPU")
    if not kind.shared:
        return ModelMemory(role, name.plain(), None, origin="unknown")
    if kind.name in {chat.name for chat in chats}:
        return _chat(role, name, read_options(name, HfOptions))
    return _editor(role, name, read_options(name, EditorOptions))


def _chat(role: Role, name: ModelName, options: HfOptions) -> ModelMemory:
    if options.device == "cpu":
        return ModelMemory(role, name.plain(), 0.0, origin="no GPU")
    source, origin = located(name.target), "its files"
    folder = local_folder(source, "config.json")
    weights = None
    if folder is not None:
        itemsize = 4 if options.dtype == "float32" else 2
        weights = model_gb(folder, itemsize=itemsize, quantize=options.quantize, variant=options.variant)
    if weights is None:
        published = next((gb for start, gb in PUBLISHED_GB.items() if source.startswith(start)), None)
        if published is None:
            return ModelMemory(role, name.plain(), None, origin="unknown")
        weights, origin = quantized_gb(published, options.quantize), "published"
    resident = 0.0 if options.offload else weights
    return ModelMemory(role, name.plain(), weights, weights + min(CHAT_GB, weights), resident, origin)


def _editor(role: Role, name: ModelName, options: EditorOptions) -> ModelMemory:
    if options.device == "cpu":
        return ModelMemory(role, name.plain(), 0.0, origin="no GPU")
    entry_name, _, folder_name = name.target.partition("@")
    entry = None if name.kind else catalogue()[entry_name]
    source = located(folder_name or (entry.repository if entry else name.target))
    folder, origin = local_folder(source, "model_index.json"), "its files"
    parts: list[float] = []
    if folder is not None:
        itemsize = 4 if options.dtype == "float32" else 2
        parts = pipeline_gb(folder, itemsize=itemsize, quantize=options.quantize, variant=options.variant)
    if not parts:
        if entry is None or entry.weights_gb is None:
            return ModelMemory(role, name.plain(), None, origin="unknown")
        parts, origin = [quantized_gb(entry.weights_gb / 2, options.quantize)] * 2, "published"
    weights = sum(parts)
    in_call = {"model": max(parts), "sequential": 0.0, None: weights}[options.offload]
    return ModelMemory(
        role,
        name.plain(),
        weights,
        in_call + min(EDIT_GB, weights),
        0.0 if options.offload else weights,
        origin,
    )
