"""Estimates of whether the models of a preset fit on a GPU, before any of them is loaded."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Literal

from goalreel.checkpoints import located
from goalreel.editors.catalogue import catalogue
from goalreel.files import check_file, read_file
from goalreel.models import load, presets, registry
from goalreel.models.names import EditorOptions, HfOptions, ModelName
from goalreel.torch_support import BYTES, Quantize, has_gpu
from goalreel.types import ROLES, Role

_WHOLE_PARTS = ("embed", "lm_head")
"""In the names of matrices that stay as they are when a model is quantised."""
_QUANTIZED_PARTS = ("transformer", "unet", "text_encoder")
"""The beginnings of the names of a pipeline's parts that are quantised."""


def local_folder(source: str, file: str) -> Path | None:
    """Find a folder, or a repository's snapshot in the cache of the Hugging Face hub, that has `file`."""
    if Path(source).is_dir():
        return Path(source)
    try:
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(source, file)
    except (ImportError, ValueError):  # no name of a repository
        return None
    return Path(path).parent if isinstance(path, str) else None


def model_gb(folder: Path, *, itemsize: int, quantize: Quantize | None = None) -> float | None:
    """Size of the model in a folder, in GB of 10^9 bytes; None without readable safetensors or their index.

    `itemsize` is the number of bytes of a number that is not quantised; embeddings never are. Files of
    a variant, such as `model.fp16.safetensors`, are left out.
    """
    try:
        if index := next(folder.glob("*.safetensors.index.json"), None):
            content = json.loads(read_file(index))
            files = [folder / name for name in sorted(set(content["weight_map"].values()))]
            if not all(file.is_file() for file in files):  # a download that is not whole
                return quantized_gb(content["metadata"]["total_size"] / 1e9, quantize)
        else:
            files = [f for f in folder.glob("*.safetensors") if "." not in f.stem]
        matrix = BYTES[quantize] if quantize else itemsize
        sizes = [number * (matrix if is_matrix else itemsize) for number, is_matrix in _tensors(files)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # a broken file: see its loader
        return None
    return sum(sizes) / 1e9 if sizes else None


def quantized_gb(gb: float, quantize: Quantize | None) -> float:
    """Estimate what weights of two bytes take when they are quantised; embeddings are about a seventh."""
    return gb if quantize is None else gb * (1 / 7 + 6 / 7 * BYTES[quantize] / 2)


def _tensors(files: Iterable[Path]) -> Iterator[tuple[int, bool]]:
    """Each tensor's number of elements, and whether it is a matrix that quantisation makes smaller."""
    for file in files:
        with check_file(file).open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > 100_000_000:
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
FURTHER = 0.6
"""The share of those that each further request of a batch takes: eight edits of a square took 16.8 GB."""
BATCH = 8
"""Requests in one call of a model whose name has no `batch_size` (`HfChat`, `DiffusersEditor`)."""
_LARGEST = 0.71
"""Share of a pipeline's weights that its denoiser has, at most: that of Qwen-Image, 41 of 58 GB."""
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
    """During a call with one request, the weights included."""
    batch_gb: float = 0.0
    """Beside that, for the further requests of a full batch."""
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
        return self._peak()

    @property
    def batched_gb(self) -> float | None:
        """About, in batches as large as the models' names allow; None where a model's size is unknown."""
        return self._peak(full=True)

    def _peak(self, *, full: bool = False) -> float | None:
        if any(model.weights_gb is None for model in self.models):
            return None
        first = [model for model in self.models if self.plans_first and model.role == "planner"]
        return max(_peak(first, full), _peak([model for model in self.models if model not in first], full))

    def line(self, gpu_gb: float | None) -> str:
        """Say what is needed, and whether a GPU of `gpu_gb` holds it (None: there is none)."""
        line = f"memory: {', '.join(map(str, self.models))}"
        if published := [model.role for model in self.models if model.origin == "published"]:
            line += f" (published sizes, as not downloaded: {', '.join(dict.fromkeys(published))})"
        needed, batched = self.needed_gb, self.batched_gb
        if needed is None or batched is None:
            unknown = ", ".join(model.model for model in self.models if model.weights_gb is None)
            return f"{line}; download it first to know: {unknown}"
        if not needed:
            return f"{line}; no GPU is needed"
        line += f"; at most {_gb(needed)} for one request, {_gb(batched)} in full batches"
        if self.plans_first:
            together = f"{_gb(_peak(self.models))}, {_gb(_peak(self.models, full=True))}"
            line += f", as all plans are made first (serve and rollout: {together})"
        if gpu_gb is None:
            return f"{line}; there is no GPU here: name a size to compare with, as --gpu 24"
        if needed <= gpu_gb:
            smaller = ", in smaller batches (?batch_size=)" if batched > gpu_gb else ""
            return f"{line}: fits in {_gb(gpu_gb)}{smaller}"
        return (
            f"{line}: does not fit in {_gb(gpu_gb)}; use --preset klein-24gb or "
            "klein-48gb, ?quantize=fp8, ?offload=model of the editor, or models on servers"
        )

    def fits(self, gpu_gb: float | None) -> bool | None:
        """True if a GPU of so many GB holds it; None where that is unknown."""
        return None if gpu_gb is None or self.needed_gb is None else self.needed_gb <= gpu_gb

    def as_json(self, gpu_gb: float | None) -> dict[str, Any]:
        """Everything, for `--json`."""
        sizes = {"needed_gb": self.needed_gb, "batched_gb": self.batched_gb, "gpu_gb": gpu_gb}
        return {**asdict(self), **sizes, "fits": self.fits(gpu_gb)}


def memory_of(preset: presets.Preset) -> PresetMemory:
    """Estimate the memory of a preset's models from their files, or from published sizes."""
    role_kinds = load.kinds_of(preset)
    planner = load.local_chat(preset.planner, "planner")
    is_shared = planner is not None and planner == load.local_chat(preset.critic, "critic")
    models: list[ModelMemory] = []
    for role in ROLES[:-1] if is_shared else ROLES:  # what has both roles is loaded once
        name = preset.model_name(role)
        models += [_model(role, part) for part in name.parts or (name,)]
    return PresetMemory(tuple(models), load.planner_apart(preset, role_kinds))


def gpu_gb() -> float | None:
    """The memory of the first GPU, in GB of 10^9 bytes; None without one."""
    if not has_gpu():
        return None
    import torch

    return torch.cuda.mem_get_info()[1] / 1e9


def _gb(size: float) -> str:
    return f"{size:.1f} GB" if size >= 0.1 else f"{size * 1000:.0f} MB"


def _peak(models: Sequence[ModelMemory], full: bool = False) -> float:
    if not any(model.call_gb for model in models):
        return 0.0
    resident = sum(model.resident_gb for model in models)
    return CONTEXT_GB + resident + max(m.call_gb - m.resident_gb + full * m.batch_gb for m in models)


def _model(role: Role, name: ModelName) -> ModelMemory:
    if registry.find(role, name).asks_chat:
        name = name.inner
    kind, unknown = registry.find(role, name), ModelMemory(role, name.plain(), None, origin="unknown")
    if kind.remote or not (kind.predicts or kind.shared):
        return replace(unknown, weights_gb=0.0, origin="a server" if kind.remote else "no GPU")
    if not kind.shared:
        return unknown
    is_chat = kind.name in {chat.name for chat in registry.chats}
    options: HfOptions | EditorOptions = registry.read_options(name, HfOptions if is_chat else EditorOptions)
    if options.device == "cpu":
        return replace(unknown, weights_gb=0.0, origin="no GPU")
    if is_chat:
        source, work, file = located(name.target), CHAT_GB, "config.json"
        published = next((gb for start, gb in PUBLISHED_GB.items() if source.startswith(start)), None)
    else:
        entry_name, _, folder_name = name.target.partition("@")
        entry = None if name.kind else catalogue()[entry_name]
        source = located(folder_name or (entry.repository if entry else name.target))
        work, file, published = EDIT_GB, "model_index.json", entry.weights_gb if entry else None
    folder, parts, origin = local_folder(source, file), list[float](), "its files"
    if folder is not None:
        itemsize = 4 if options.dtype == "float32" else 2
        for part in [folder] if is_chat else sorted(filter(Path.is_dir, folder.iterdir())):
            quantized = is_chat or part.name.startswith(_QUANTIZED_PARTS)
            size = model_gb(part, itemsize=itemsize, quantize=options.quantize if quantized else None)
            parts += [] if size is None else [size]
    if not parts:
        if published is None:
            return unknown
        whole, origin = quantized_gb(published, options.quantize), "published"
        parts = [whole] if is_chat else [whole * _LARGEST, whole * (1 - _LARGEST)]
    weights = sum(parts)
    is_moved = isinstance(options, EditorOptions) and options.offload is not None
    in_call, resident = (max(parts), 0.0) if is_moved else (weights, weights)
    work = min(work, weights)
    batch = work * FURTHER * ((options.batch_size or BATCH) - 1)
    return ModelMemory(role, name.plain(), weights, in_call + work, batch, resident, origin)
