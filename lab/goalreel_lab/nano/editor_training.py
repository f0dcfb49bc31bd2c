"""Edits as tensors: every picture once, as pixels and as latents."""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
import typer
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from goalreel.checkpoints import located
from goalreel.cli.console import progress_bars
from goalreel.cli.errors import one_line_errors
from goalreel.cli.train import INTERRUPTED
from goalreel.editors.sizes import placement
from goalreel.errors import InputError, first_line
from goalreel.files import atomic
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.training.card import Card, file_facts, went_on_from, write_card
from goalreel.training.config import read_config
from goalreel.training.run import half, hold, processes
from goalreel_lab.corpora.rows import EditRow
from goalreel_lab.nano.config import DenoiserTraining, EditorConfig, VaeTraining
from goalreel_lab.nano.editor import NanoEditor, to_model
from goalreel_lab.nano.optim import compile_parts
from goalreel_lab.nano.training_loop import CHECKPOINT, Batch, MakeBatch, fit

COLUMNS = ("source", "target", "prompt")
MORE_COLUMNS = ("register", "goal")
"""Columns that rows of the tabletop have beside. Rows of storyboards are explicit, and of one kind."""
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


SATURATED = 0.25
"""Least spread between a pixel's colour values (0-1) for it to count as an object's."""
SAMPLE = 1024
"""Pictures that the latents' scale is taken from."""


def train_vae(
    editor: NanoEditor,
    edits: Edits,
    out: Path,
    *,
    resume: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> None:
    """Train the editor's VAE on the edits' pictures, measure its latents, and save it in `out`.

    Raises:
        InputError: see `goalreel_lab.nano.training_loop.fit`.
    """
    config, pictures = editor.config, edits.pictures
    training, shape = config.vae, config.shape

    def batch(step: int, count: int, generator: torch.Generator) -> Batch:
        device = generator.device
        chosen = torch.randint(len(pictures), (count,), generator=generator, device=device)
        pixels = to_model(pictures[chosen.cpu()], device)
        if training.crop is not None and step < training.crop_share * training.steps:
            pixels = windows(pixels, training.crop, generator)
        side = pixels.shape[-1] // shape.stride
        noise = torch.randn(count, shape.latent_channels, side, side, generator=generator, device=device)
        return pixels, noise

    model = Reconstruction(editor.vae, training, autocast=config.precision == "bf16")
    fit(model, batch, training, out, seed=config.seed, resume=resume, progress=progress)
    chosen = torch.linspace(0, len(pictures) - 1, min(SAMPLE, len(pictures))).long()
    editor.measure_latents(pictures[chosen])
    if processes().is_main_process:
        editor.vae.save_pretrained(out)


class Reconstruction(nn.Module):
    """The VAE's loss: L1 + L2 of pixels in [-1, 1], objects weighted."""

    def __init__(self, vae: Any, training: VaeTraining, *, autocast: bool) -> None:
        super().__init__()
        self.vae, self.training_config, self.autocast = vae, training, autocast

    def forward(self, pictures: Tensor, noise: Tensor) -> Tensor:
        """Give the loss of pictures (b, 3, size, size), with noise of the shape of their latents."""
        settings = self.training_config
        with half(pictures.device, enabled=self.autocast):
            mean = self.vae.encode(pictures, return_dict=False)[0].mean
            codes = mean + settings.latent_noise * noise
            decoded = self.vae.decode(codes, return_dict=False)[0]
        error = decoded.float() - pictures
        weight = 1 + (settings.object_weight - 1) * _objects(pictures)
        loss = ((error.abs() + error.square()) * weight).mean()
        return loss + settings.latent_penalty * mean.float().square().mean()


def _objects(pictures: Tensor) -> Tensor:
    """Mark the pixels (b, 1, size, size) of objects, for pictures in [-1, 1]."""
    spread = (pictures.amax(1, keepdim=True) - pictures.amin(1, keepdim=True)) / 2
    return spread > SATURATED


def windows(pictures: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Cut a window (b, 3, side, side) out of each picture, around a pixel of an object, if it shows any."""
    width = pictures.shape[-1]
    likely = _objects(pictures).flatten(1).float() + 1e-6
    centre = torch.multinomial(likely, 1, generator=generator)[:, 0]
    row, column = (
        (at - side // 2).clamp(0, width - side).tolist() for at in (centre // width, centre % width)
    )
    cut = [p[:, y : y + side, x : x + side] for p, y, x in zip(pictures, row, column, strict=True)]
    return torch.stack(cut)


log = logging.getLogger(__name__)


def train(
    config: EditorConfig,
    out: Path,
    resume: bool = False,
    rows: Iterable[EditRow] | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> Path:
    """Train an editor on `rows` or else `config.data`; the folder that `diffusers:` loads.

    `out` gets `vae/`, unless the editor goes on from another, and `denoiser/`, with checkpoints and
    TensorBoard's events, and `editor/`, the result. `resume` continues where the folder stands, if it holds
    anything. On several devices start it with `accelerate launch`.

    Raises:
        InputError: no data, or not the editor's; a prompt too long; `out` holds another run, or one trains
            there now; no such model.
    """
    data = config.data if rows is None else rows
    if data is None:
        raise InputError("the editor's configuration names no data: set `data` to a dataset folder")
    if not resume and any((out / part / CHECKPOINT).exists() for part in ("vae", "denoiser")):
        raise InputError(f"{out} holds a training run: resume it, or choose another folder")
    edits = read_edits(data, config.shape.size)
    hold(out)
    editor = NanoEditor.build(config, edits.prompts) if config.model is None else NanoEditor.load(config)
    ids = editor.token_ids(edits.prompts)
    log.info("%d edits over %d pictures", len(edits.prompts), len(edits.pictures))
    if config.model is None:
        train_vae(editor, edits, out / "vae", resume=resume, progress=progress)
    train_denoiser(editor, edits, ids, out / "denoiser", resume=resume, progress=progress)
    state = processes()
    if state.is_main_process:
        editor.save(out / "editor")
        write_card(out / "editor", _card(editor, edits))
    state.wait_for_everyone()
    return out / "editor"


def _card(editor: NanoEditor, edits: Edits) -> Card:
    config = editor.config
    order = None if config.data is None else config.data / "corpus.json"
    return Card(
        title="goalreel nano editor",
        summary=f"Draws the goal image of a sub-goal: a small {type(editor.pipeline).__name__}, trained "
        f"{'from scratch' if config.model is None else 'further'} on {len(edits.prompts):,} edits over "
        f"{len(edits.pictures):,} pictures of a simulated tabletop.",
        use="goalreel plan --editor diffusers:DIR",
        library="diffusers",
        task="image-to-image",
        seed=config.seed,
        corpora=(file_facts(order),) if order and order.is_file() else (),
        numbers={**_before(editor), "denoiser": f"{config.denoiser.steps} steps of {config.denoiser.batch}"},
        limits=_LIMITS,
    )


def _before(editor: NanoEditor) -> dict[str, str]:
    """Name, for the card, what training began with: a VAE, or another editor."""
    config = editor.config
    if config.model is None:
        return {"VAE": f"{config.vae.steps} steps of {config.vae.batch}"}
    return went_on_from(Path(located(config.model)) / "unet" / "diffusion_pytorch_model.safetensors")


_LIMITS = (
    "It knows only goalreel's simulated tabletop: blocks and bowls as its corpus shows them, the "
    "arm at home, and prompts in that corpus's words. Other pictures come out wrong, and other "
    "words are not understood. It was trained to move one block at a time."
)


def train_denoiser(
    editor: NanoEditor,
    edits: Edits,
    ids: Tensor,
    out: Path,
    *,
    resume: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> None:
    """Train the editor's denoiser and text encoder. `ids`: the prompts' tokens (n, length).

    Raises:
        InputError: see `goalreel_lab.nano.training_loop.fit`.
    """
    config = editor.config
    with processes().main_process_first():  # the others find them kept
        codes = latents(editor, edits, out / "latents.safetensors", progress)
    if config.compile:
        compile_parts([editor.denoiser])
    batch = batches(editor, edits, codes, ids)
    training, seed = config.denoiser, config.seed + 1
    fit(editor.loss(), batch, training, out, seed=seed, resume=resume, progress=progress)


def batches(editor: NanoEditor, edits: Edits, codes: Tensor, ids: Tensor) -> MakeBatch:
    """Draw rows as the editor's loss takes them, from the pictures' latents `codes` (m, ...)."""
    training = editor.config.denoiser
    weights = edits.weights(editor.cell, training.change_weight)
    chances = edits.chances(training.explicit, training.balance)

    def batch(step: int, count: int, generator: torch.Generator) -> Batch:
        device = generator.device
        at = torch.multinomial(chances.to(device), count, replacement=True, generator=generator).cpu()
        source = codes[edits.source[at]].to(device).float()
        target = codes[edits.target[at]].to(device).float()
        noise = torch.randn(target.shape, generator=generator, device=device)
        level = noise_levels(count, training, generator)
        return source, target, noise, level, ids[at].to(device), weights[at].to(device)

    return batch


def noise_levels(count: int, training: DenoiserTraining, generator: torch.Generator) -> Tensor:
    """Levels (count,) from 0, the picture, to 1, noise alone."""
    draw, pick = torch.rand(2, count, generator=generator, device=generator.device)
    level = training.shift * draw / (1 + (training.shift - 1) * draw)
    return torch.where(pick < training.noisiest, 1.0, level)


def main(
    config: Annotated[str, typer.Option(help="A preset by name, or a YAML file.")],
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint and its card.")],
    resume: bool = False,
    model: str | None = None,
    data: Path | None = None,
) -> None:
    """Train the nano editor; `model` and `data` take the place of the configuration's."""
    with one_line_errors(INTERRUPTED), progress_bars() as progress:
        train(read_config(config, EditorConfig, model=model, data=data), out, resume, progress=progress)


if __name__ == "__main__":
    typer.run(main)
