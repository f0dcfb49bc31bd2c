"""How large a checkpoint's weights are on a GPU, from its files' headers: nothing is loaded or fetched."""

import json
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

from goalreel.quantization import BYTES, Quantize

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
