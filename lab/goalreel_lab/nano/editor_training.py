"""Train the nano editor: first its VAE, then denoiser and text encoder.

Velocities are learned from independent noise, never from the picture itself. Sampling has most noise levels
where a choice between answers is made. So seeds lead to different answers where a prompt leaves room, as the
terse ones do, and to one answer where it does not. The result: dev/LOG.md, 2026-11-26.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from goalreel.checkpoints import located
from goalreel.errors import InputError
from goalreel.progress import OnProgress
from goalreel.training.card import Card, file_facts, went_on_from, write_card
from goalreel.training.config import read_config
from goalreel.training.loading import compile_parts
from goalreel.training.run import hold, processes
from goalreel_lab.lessons.rows import EditRow
from goalreel_lab.nano.config import DenoiserTraining, EditorConfig
from goalreel_lab.nano.editor import NanoEditor
from goalreel_lab.nano.editor_data import Edits, latents, read_edits
from goalreel_lab.nano.training_loop import CHECKPOINT, Batch, MakeBatch, fit
from goalreel_lab.nano.vae import train_vae

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


def train_configured(config: str, out: Path, resume: bool, progress: OnProgress, **overrides: object) -> Path:
    """Train an editor by a preset or a YAML file, for `goalreel train editor`.

    Raises:
        InputError: as `train` does, or a setting that cannot be used.
    """
    return train(read_config(config, EditorConfig, **overrides), out, resume, progress=progress)


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
        numbers={
            **_before(editor),
            "denoiser": f"{config.denoiser.steps} steps of {config.denoiser.batch}",
        },
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
