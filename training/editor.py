"""Trains the nano editor: first its VAE, then transformer and text encoder by flow matching.

The velocity field is learnt from independent noise (never the picture itself), and at sampling the noise
levels are crowded where a choice between answers is made. That is meant to let seeds lead to different
answers where a prompt leaves room, as the data's terse ones do, and to one where it does not; docs/nano.md
says what came of it.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import torch
from diffusers import Flux2KleinPipeline  # pyright: ignore[reportPrivateImportUsage]  (exported lazily)
from torch import Tensor, nn

from goalreel.checkpoints import located
from goalreel.datasets.tabletop.lessons.rows import EditRow
from goalreel.errors import InputError
from goalreel.progress import OnProgress
from goalreel.training.card import Card, file_facts, went_on_from, write_card
from goalreel.training.editor_config import EditorConfig, FlowTraining
from goalreel.training.editor_data import Edits, latents, read_edits
from goalreel.training.fitting import CHECKPOINT, Batch, MakeBatch, fit
from goalreel.training.nano.editor import build, load, save
from goalreel.training.run import processes
from goalreel.training.vae import train_vae

log = logging.getLogger(__name__)


def train(
    config: EditorConfig,
    out: Path,
    resume: bool = False,
    rows: Iterable[EditRow] | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> Path:
    """Train an editor on `rows` or else `config.data`; the folder that `diffusers:` loads.

    `out` gets `vae/`, unless the editor goes on from another, and `flow/`, with checkpoints and TensorBoard's
    events, and `editor/`, the result. `resume` continues where the folder stands, if it holds anything. On
    several devices start it with `accelerate launch`.

    Raises:
        InputError: no data, or not the editor's; a prompt too long; `out` holds another run; no such model.
    """
    data = config.data if rows is None else rows
    if data is None:
        raise InputError("the editor's configuration names no data: set `data` to a dataset folder")
    if not resume and any((out / part / CHECKPOINT).exists() for part in ("vae", "flow")):
        raise InputError(f"{out} holds a training run: resume it, or choose another folder")
    edits = read_edits(data, config.shape.size)
    pipeline = build(config, edits.prompts) if config.model is None else load(config)
    ids, mask = tokens(pipeline, edits.prompts, config.shape.prompt_tokens)
    log.info("%d edits over %d pictures", len(edits.prompts), len(edits.pictures))
    if config.model is None:
        train_vae(pipeline.vae, config, edits, out / "vae", resume=resume, progress=progress)
    train_flow(pipeline, config, edits, ids, mask, out / "flow", resume=resume, progress=progress)
    state = processes()
    if state.is_main_process:
        save(pipeline, config, out / "editor")
        write_card(out / "editor", _card(config, edits))
    state.wait_for_everyone()
    return out / "editor"


def _card(config: EditorConfig, edits: Edits) -> Card:
    order = None if config.data is None else config.data / "corpus.json"
    return Card(
        title="goalreel nano editor",
        summary="Draws the goal image of a sub-goal: a small Flux2Klein-class editor, trained "
        f"{'from scratch' if config.model is None else 'further'} on {len(edits.prompts):,} edits over "
        f"{len(edits.pictures):,} pictures of a simulated tabletop.",
        use="goalreel plan --editor diffusers:DIR",
        library="diffusers",
        task="image-to-image",
        seed=config.seed,
        corpora=(file_facts(order),) if order and order.is_file() else (),
        numbers={
            **_before(config),
            "flow matching": f"{config.flow.steps} steps of {config.flow.batch}",
        },
        limits=_LIMITS,
    )


def _before(config: EditorConfig) -> dict[str, str]:
    """Say, for the card, what came before the flow: the VAE's training, or another editor's."""
    if config.model is None:
        return {"VAE": f"{config.vae.steps} steps of {config.vae.batch}"}
    return went_on_from(Path(located(config.model)) / "transformer" / "diffusion_pytorch_model.safetensors")


_LIMITS = (
    "It knows goalreel's simulated tabletop alone: the front camera at 128 px, the arm at home, coloured "
    "blocks and bowls, and orders as goalreel's corpus words them. Other pictures come out wrong, and other "
    "words are not understood. It was trained to move one block at a time."
)


def tokens(pipeline: Flux2KleinPipeline, prompts: Iterable[str], length: int) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask (n, length) of prompts, as the pipeline makes them.

    Raises:
        InputError: a prompt is longer than that.
    """
    words = pipeline.tokenizer
    texts = [
        words.apply_chat_template(
            [{"role": "user", "content": prompt}],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
        for prompt in prompts
    ]
    made = words(texts, padding="longest", return_tensors="pt")
    longest = made["input_ids"].shape[1]
    if longest > length:
        raise InputError(f"a prompt has {longest} tokens: raise prompt_tokens, which is {length}")
    made = words.pad(made, padding="max_length", max_length=length, return_tensors="pt")
    return made["input_ids"], made["attention_mask"]


def train_flow(
    pipeline: Flux2KleinPipeline,
    config: EditorConfig,
    edits: Edits,
    ids: Tensor,
    mask: Tensor,
    out: Path,
    *,
    resume: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> None:
    """Train the pipeline's transformer and text encoder. `ids`, `mask`: the prompts' tokens (n, length).

    Raises:
        InputError: see `goalreel.training.fitting.fit`.
    """
    half = config.precision == "bf16"
    with processes().main_process_first():  # the others find them kept
        codes = latents(pipeline.vae, edits, out / "latents.safetensors", bf16=half)
    model = Flow(pipeline, config)
    if config.compile:
        model.transformer.compile()
    batch = batches(edits, codes, ids, mask, config)
    fit(model, batch, config.flow, out, seed=config.seed + 1, resume=resume, progress=progress)


def batches(edits: Edits, codes: Tensor, ids: Tensor, mask: Tensor, config: EditorConfig) -> MakeBatch:
    """Draws rows as `Flow` takes them. `codes`: the pictures' latents (m, tokens, channels)."""
    weights = edits.weights(config.shape.patch, config.flow.change_weight)
    chances = edits.chances(config.flow.explicit, config.flow.balance)

    def batch(step: int, count: int, generator: torch.Generator) -> Batch:
        device = generator.device
        at = torch.multinomial(chances.to(device), count, replacement=True, generator=generator).cpu()
        source = codes[edits.source[at]].to(device).float()
        target = codes[edits.target[at]].to(device).float()
        noise = torch.randn(target.shape, generator=generator, device=device)
        level = noise_levels(count, config.flow, generator)
        rest = (part[at].to(device) for part in (ids, mask, weights))
        return source, target, noise, level, *rest

    return batch


def noise_levels(count: int, training: FlowTraining, generator: torch.Generator) -> Tensor:
    """Levels (count,) from 0, the picture, to 1, noise alone."""
    draw, pick = torch.rand(2, count, generator=generator, device=generator.device)
    level = training.shift * draw / (1 + (training.shift - 1) * draw)
    return torch.where(pick < training.noisiest, 1.0, level)


class Flow(nn.Module):
    """The editor's loss: squared error of the velocity from picture to noise, changed tokens weighted."""

    picture_ids: Tensor
    text_ids: Tensor

    def __init__(self, pipeline: Flux2KleinPipeline, config: EditorConfig) -> None:
        super().__init__()
        self.transformer: nn.Module = pipeline.transformer
        self.text_encoder: nn.Module = pipeline.text_encoder
        self.layers = config.shape.text_out_layers
        self.autocast = config.precision == "bf16"
        grid = torch.zeros(1, 1, *[config.shape.size // config.shape.patch] * 2)
        picture_ids = (
            Flux2KleinPipeline._prepare_latent_ids(grid),
            Flux2KleinPipeline._prepare_image_ids([grid]),
        )
        text = torch.zeros(1, config.shape.prompt_tokens, 1)
        self.register_buffer("picture_ids", torch.cat(picture_ids, 1), persistent=False)
        self.register_buffer("text_ids", Flux2KleinPipeline._prepare_text_ids(text), persistent=False)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        noise: Tensor,
        level: Tensor,
        ids: Tensor,
        mask: Tensor,
        weight: Tensor,
    ) -> Tensor:
        """Latents (b, tokens, channels), levels (b,), prompt tokens (b, length), weights (b, tokens)."""
        at = level.view(-1, 1, 1)
        mixed = (1 - at) * target + at * noise
        with torch.autocast(source.device.type, torch.bfloat16, enabled=self.autocast):
            velocity = self.velocity(mixed, source, level, ids, mask)
        error = (velocity.float() - (noise - target)).square()
        return (error * weight[..., None]).mean()

    def velocity(self, mixed: Tensor, source: Tensor, level: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """What the pipeline's transformer answers at one step, (b, tokens, channels)."""
        count = len(mixed)
        # The logits are not wanted; the pipeline computes them all the same.
        states = self.text_encoder(
            input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False, logits_to_keep=1
        ).hidden_states
        return self.transformer(
            hidden_states=torch.cat([mixed, source], 1),
            timestep=level,
            guidance=None,
            encoder_hidden_states=torch.cat([states[k] for k in self.layers], -1),
            txt_ids=self.text_ids.expand(count, -1, -1),
            img_ids=self.picture_ids.expand(count, -1, -1),
            return_dict=False,
        )[0][:, : mixed.shape[1]]
