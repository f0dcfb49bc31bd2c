"""Edits as tensors: every picture once, as pixels and as latents."""

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from goalreel.editors.sizes import placement
from goalreel.errors import InputError, first_line
from goalreel.files import atomic
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel_lab.lessons.rows import EditRow
from goalreel_lab.nano.editor import NanoEditor

COLUMNS = ("source", "target", "prompt")
MORE_COLUMNS = ("register", "goal")
"""What rows of the tabletop have beside. Rows of storyboards are explicit, and of one kind."""
BATCH = 16
"""Pictures at a time that go through the VAE."""
VISIBLE = 24
"""Least difference of a colour value (of 255) that counts as a change."""


@dataclass(frozen=True)
class Edits:
    """n rows over m pictures. `pictures` (m, 3, size, size) uint8; `source` and `target` (n,) index them;
    `explicit` (n,) tells rows whose prompt leaves nothing open; `kinds` (n,) numbers the kinds of goals."""

    pictures: Tensor
    source: Tensor
    target: Tensor
    prompts: tuple[str, ...]
    explicit: Tensor
    kinds: Tensor

    @cached_property
    def digest(self) -> str:
        return hashlib.blake2b(self.pictures.numpy(), digest_size=16).hexdigest()

    def chances(self, explicit: float, balance: float) -> Tensor:
        """Compute how often each row is to be drawn, (n,), summing to 1.

        Explicit rows have the share `explicit`, where there are terse ones. In each register `balance` 0
        draws every row equally often, 1 every kind of goal, and a number between them something between.
        """
        chances = torch.zeros(len(self.prompts), dtype=torch.double)
        for rows, share in ((self.explicit, explicit), (~self.explicit, 1 - explicit)):
            _, kinds, counts = self.kinds[rows].unique(return_inverse=True, return_counts=True)
            often = (counts.double() ** -balance)[kinds]
            chances[rows] = often / often.sum() * (1 if rows.all() else share)
        return chances

    def weights(self, cell: int, change: float) -> Tensor:
        """Weigh every cell of `cell` pixels a side, (n, (size / cell)^2).

        The weight is `change` where an explicit row's pictures differ, else 1. A terse prompt may have
        several answers. Were its changed cells weighted, every place where something MAY appear would weigh
        more with than without it. The editor would learn to draw all answers at once instead of choosing one.
        """
        parts = []
        for rows in torch.arange(len(self.prompts)).split(1024):
            sources, targets = (self.pictures[side[rows]].short() for side in (self.source, self.target))
            differs = ((targets - sources).abs().amax(1) > VISIBLE).half()
            parts.append(F.max_pool2d(differs, cell).flatten(1))
        return 1 + (change - 1) * torch.cat(parts).float() * self.explicit[:, None]


def read_edits(data: Path | Iterable[EditRow], size: int) -> Edits:
    """Load a corpus folder (its training split) or rows, with pictures of `size` px square.

    A picture of a folder that has another size is laid on such a canvas, as an editor lays it there.

    Raises:
        InputError: no such corpus, a column is missing, it is empty, or a row's picture has another size.
    """
    if isinstance(data, Path):
        return _from_folder(data, size)
    rows, pictures = list(data), _Once()
    pairs = [[pictures.place(image.pixels.tobytes(), image) for image in (r.source, r.target)] for r in rows]
    texts = [(r.prompt, r.register, r.goal.kind) for r in rows]
    return _edits([image.pixels for image in pictures.items], pairs, texts, size)


class _Once:
    """Things in the order of their first appearance, told apart by their bytes."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._places: dict[bytes, int] = {}

    def place(self, data: bytes, item: Any) -> int:
        key = hashlib.blake2b(data, digest_size=16).digest()
        if key not in self._places:
            self._places[key] = len(self.items)
            self.items.append(item)
        return self._places[key]


def _from_folder(folder: Path, size: int) -> Edits:
    shards = sorted(folder.glob("data/train-*.parquet"))
    if not shards:
        raise InputError(f"{folder} is not a corpus: it has no data/train-*.parquet")
    unique, pairs, texts = _Once(), [], []
    for shard in shards:
        file = _opened(shard)
        more = [name for name in MORE_COLUMNS if name in file.schema_arrow.names]
        for part in file.iter_batches(256, columns=[*COLUMNS, *more]):
            for row in part.to_pylist():
                pictures = row["source"]["bytes"], row["target"]["bytes"]
                pairs.append([unique.place(data, data) for data in pictures])
                kind = row["goal"]["kind"] if "goal" in row else ""
                texts.append((row["prompt"], row.get("register", "explicit"), kind))
    try:
        with ThreadPoolExecutor() as pool:
            decoded = list(pool.map(lambda data: _on_canvas(Image.decode(data), size).pixels, unique.items))
    except ValueError as e:
        raise InputError(f"{folder}: {e}") from e
    return _edits(decoded, pairs, texts, size)


def _on_canvas(image: Image, size: int) -> Image:
    square = (size, size)
    return image if image.size == square else placement(image.size, square, 8, square=True).place(image)


def _opened(shard: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(shard)
    except pyarrow.ArrowInvalid as e:
        raise InputError(f"{shard} cannot be read: {first_line(e)[:200]}") from e
    missing = [c for c in COLUMNS if c not in file.schema_arrow.names]
    if missing:
        raise InputError(f"{shard} has no column {missing[0]!r}: an edit has {', '.join(COLUMNS)}")
    return file


def _edits(
    pictures: Sequence[NDArray[np.uint8]],
    pairs: list[list[int]],
    texts: Sequence[tuple[str, str, str]],
    size: int,
) -> Edits:
    if not pairs:
        raise InputError("there are no edits to learn from")
    odd = next((p.shape for p in pictures if p.shape != (size, size, 3)), None)
    if odd is not None:
        raise InputError(f"the editor works at {size}x{size} px, a picture has {odd[1]}x{odd[0]}")
    pixels = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()
    source, target = torch.tensor(pairs).unbind(1)
    prompts, registers, kinds = zip(*texts, strict=True)
    explicit = torch.tensor([register == "explicit" for register in registers])
    numbers = {kind: n for n, kind in enumerate(sorted(set(kinds)))}
    return Edits(pixels, source, target, prompts, explicit, torch.tensor([numbers[k] for k in kinds]))


@torch.no_grad()
def latents(
    editor: NanoEditor,
    edits: Edits,
    cache: Path | None,
    progress: OnProgress = lambda stage, done, total: None,
) -> Tensor:
    """Encode every picture as the editor's loss takes it, (m, ...) float16.

    The file `cache`, if one is given, keeps them for these pictures and this VAE.
    """
    key = hashlib.blake2b(edits.digest.encode(), digest_size=16)
    for value in editor.vae.state_dict().values():
        key.update(value.cpu().numpy().tobytes())
    if cache is not None and cache.exists():
        with safe_open(cache, "pt") as file:
            if (file.metadata() or {}).get("key") == key.hexdigest():
                return file.get_tensor("latents")
    parts, codes = edits.pictures.split(BATCH), list[Tensor]()
    for part in parts:
        codes.append(editor.encode(part).half().cpu())
        progress("latents", len(codes), len(parts))
    tensor = torch.cat(codes).contiguous()
    if cache is not None:
        with atomic(cache) as path:
            save_file({"latents": tensor}, path, metadata={"key": key.hexdigest()})
    return tensor
