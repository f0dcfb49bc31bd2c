"""Which class the nano editor should have: FLUX.2-klein's (transformer, flow matching) or InstructPix2Pix's
(UNet, diffusion). Both train for the same time on the same rows, compiled, with the shipped VAE and the same
kind of text encoder, and are scored on validation episodes as `goalreel eval tabletop` scores an editor.

OMP_NUM_THREADS=1 python benchmarks/nano_classes.py --minutes 15 --json
"""

import copy
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import torch
import typer
from diffusers import DDIMScheduler, Flux2KleinPipeline, UNet2DConditionModel
from torch import Tensor, nn

from goalreel.checkpoints import NANO
from goalreel.datasets.tabletop.lessons.edits import edit_rows
from goalreel.datasets.tabletop.splits import seeds
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.evaluation.tabletop.asking import in_batches
from goalreel.evaluation.tabletop.edit import EditCase, edit_cases
from goalreel.evaluation.tabletop.scenes import walk
from goalreel.evaluation.tabletop.words import prompt_of
from goalreel.image import Image
from goalreel.training.config import read_config
from goalreel.training.editor import Flow, batches, tokens
from goalreel.training.editor_config import EditorConfig, FlowTraining
from goalreel.training.editor_data import Edits, encode, latents, read_edits
from goalreel.training.fitting import Batch, MakeBatch, fit
from goalreel.training.nano.editor import build, save
from goalreel.types import Edit, Editor

TIMED = 12
"""Steps of a run that tells how many fit into the time; the first half of them only warms up."""
UNET = {"learning_rate": 1e-3, "shift": 1.0}
"""As in a first study: half of the transformer's rate for AdamW, which trains all convolutions; noise levels
even, as its scheduler spaces them."""


@dataclass(frozen=True)
class Score:
    parameters: float
    """Of the denoiser, millions."""
    steps: int
    minutes: float
    """That they took."""
    right: float
    """Share of explicit edits: the sub-goal is reached, everything else untouched."""
    reached: float
    edits: int
    seconds: float
    """An edit, alone."""


type Made = tuple[nn.Module, Callable[[], Editor], nn.Module]
"""A model to train on the flow's rows, the editor that it then is, and its denoiser."""


def main(
    minutes: Annotated[float, typer.Option(min=0.01, help="Of training, each.")] = 15,
    train: Annotated[int, typer.Option(min=1, help="Training episodes, rendered first.")] = 2000,
    episodes: Annotated[int, typer.Option(min=1, help="Validation episodes.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    config = read_config("nano-editor", EditorConfig)
    edits = read_edits(edit_rows(seeds("train", train), config.shape.size), config.shape.size)
    pipeline = _pipeline(config, edits)
    ids, mask = tokens(pipeline, edits.prompts, config.shape.prompt_tokens)
    codes = latents(pipeline.vae, edits, None, bf16=True)
    asked = edit_cases(walk(seed) for seed in seeds("validation", episodes))
    scores = {}
    unet = config.model_copy(update={"flow": config.flow.model_copy(update=UNET)})
    for name, make, chosen in (("klein", _klein, config), ("pix2pix", _pix2pix, unet)):
        rows = batches(edits, codes, ids, mask, chosen)
        model, _, denoiser = make(chosen, edits)
        denoiser.compile()
        steps = max(TIMED, round(60 * minutes / _train(model, rows, chosen.flow, TIMED)))
        model, editor, denoiser = make(chosen, edits)
        denoiser.compile()
        spent = steps * _train(model, rows, chosen.flow, steps) / 60
        scores[name] = _score(editor(), denoiser, asked, steps, round(spent, 1))
        if not as_json:
            typer.echo(f"{name:8} {scores[name]}")
    if as_json:
        typer.echo(json.dumps({name: asdict(score) for name, score in scores.items()}))


def _train(model: nn.Module, rows: MakeBatch, flow: FlowTraining, steps: int) -> float:
    """Seconds a step, over the second half of the steps."""
    began = []

    def batch(step: int, count: int, generator: torch.Generator) -> Batch:
        began.append(time.perf_counter())
        return rows(step, count, generator)

    schedule = flow.model_copy(update={"steps": steps, "save_every": steps})
    with tempfile.TemporaryDirectory() as out:
        fit(model, batch, schedule, Path(out), seed=1)
    half = len(began) // 2
    return (began[-1] - began[half]) / (len(began) - 1 - half)


def _pipeline(config: EditorConfig, edits: Edits) -> Flux2KleinPipeline:
    made = build(config, edits.prompts)
    made.vae.load_state_dict(made.vae.from_pretrained(NANO / "editor" / "vae").float().state_dict())
    return made


def _score(
    editor: Editor, denoiser: nn.Module, asked: Sequence[EditCase], steps: int, minutes: float
) -> Score:
    requests = [case.edit(prompt_of(case.walk, case.index, "explicit")) for case in asked]
    editor.edit(requests[:1])
    began = time.perf_counter()
    editor.edit(requests[:1])
    seconds = time.perf_counter() - began
    answers = in_batches(editor.edit, requests, "edit", lambda *_: None)
    found = [case.judge(answer) for case, answer in zip(asked, answers, strict=True)]
    shares = (sum(getattr(o, name) for o in found) / len(found) for name in ("right", "reached"))
    right, reached = (round(share, 3) for share in shares)
    parameters = round(sum(p.numel() for p in denoiser.parameters()) / 1e6, 2)
    return Score(parameters, steps, minutes, right, reached, len(found), round(seconds, 3))


def _klein(config: EditorConfig, edits: Edits) -> Made:
    pipeline = _pipeline(config, edits)

    def editor() -> Editor:
        with tempfile.TemporaryDirectory() as out:
            save(pipeline, config, Path(out))
            return DiffusersEditor.load(out, device="cpu")

    return Flow(pipeline, config), editor, pipeline.transformer


def _pix2pix(config: EditorConfig, edits: Edits) -> Made:
    pipeline = _pipeline(config, edits)
    model = Pix2Pix(pipeline.text_encoder, config)
    # A copy is not compiled: edits come one by one.
    return model, lambda: Pix2PixEditor(copy.deepcopy(model), pipeline, config), model.unet


class Pix2Pix(nn.Module):
    """The denoiser of InstructPix2Pix (arXiv 2211.09800): the source's latents beside the noisy ones. Trained
    on velocities with zero terminal SNR (arXiv 2305.08891), changed parts weighted as the flow's."""

    def __init__(self, text_encoder: nn.Module, config: EditorConfig) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.side = 2 * config.shape.size // config.shape.patch
        channels = config.shape.latent_channels
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            self.unet = UNet2DConditionModel(
                sample_size=self.side,
                in_channels=2 * channels,
                out_channels=channels,
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
                block_out_channels=(64, 128, 192),
                layers_per_block=1,
                cross_attention_dim=config.shape.text_width,
                attention_head_dim=4,
                norm_num_groups=16,
            )
        self.scheduler = DDIMScheduler(
            prediction_type="v_prediction",
            rescale_betas_zero_snr=True,
            timestep_spacing="trailing",
            clip_sample=False,
        )

    def forward(self, *batch: Tensor) -> Tensor:
        """What `Flow.forward` takes; noise levels from 0 to 1 become steps of the scheduler."""
        source, target, noise, level, ids, mask, weight = batch
        at = (level * (self.scheduler.config.num_train_timesteps - 1)).long()
        source, target, noise = (self.spread(x) for x in (source, target, noise))
        mixed = self.scheduler.add_noise(target, noise, at)
        wanted = self.scheduler.get_velocity(target, noise, at)
        with torch.autocast("cpu", torch.bfloat16):
            velocity = self.velocity(mixed, source, at, ids, mask)
        error = (velocity.float() - wanted).square()
        half = self.side // 2
        return (error * weight.view(-1, 1, half, half).repeat_interleave(2, 2).repeat_interleave(2, 3)).mean()

    def velocity(self, mixed: Tensor, source: Tensor, level: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        words = self.text_encoder.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        return self.unet(
            torch.cat([mixed, source], 1), level, words, encoder_attention_mask=mask.bool()
        ).sample

    def spread(self, codes: Tensor) -> Tensor:
        """Tokens (b, n, 4 channels) as the picture of latents (b, channels, side, side) that they are."""
        half = self.side // 2
        return Flux2KleinPipeline._unpatchify_latents(codes.mT.reshape(len(codes), -1, half, half))


class Pix2PixEditor:
    """Edits one by one, in float32, with noise from the request's seed."""

    def __init__(self, model: Pix2Pix, pipeline: Flux2KleinPipeline, config: EditorConfig) -> None:
        self._model, self._pipeline, self._config = model, pipeline, config
        norm = pipeline.vae.bn
        self._mean = norm.running_mean.view(1, -1, 1, 1)
        self._deviation = torch.sqrt(norm.running_var + pipeline.vae.config.batch_norm_eps).view(1, -1, 1, 1)

    def edit(self, requests: Sequence[Edit]) -> list[Image]:
        return [self._one(request) for request in requests]

    @torch.no_grad()
    def _one(self, request: Edit) -> Image:
        model, vae, scheduler = self._model, self._pipeline.vae, self._model.scheduler
        pixels = torch.from_numpy(request.image.pixels.copy()).permute(2, 0, 1)[None]
        codes = (next(encode(vae, pixels)) - self._mean) / self._deviation
        source = Flux2KleinPipeline._unpatchify_latents(codes)
        ids, mask = tokens(self._pipeline, [request.prompt], self._config.shape.prompt_tokens)
        z = torch.randn(source.shape, generator=torch.Generator().manual_seed(request.seed))
        scheduler.set_timesteps(self._config.sampling_steps)
        for t in scheduler.timesteps:
            z = scheduler.step(model.velocity(z, source, t, ids, mask), t, z).prev_sample
        codes = Flux2KleinPipeline._patchify_latents(z) * self._deviation + self._mean
        shown = vae.decode(Flux2KleinPipeline._unpatchify_latents(codes)).sample[0].permute(1, 2, 0)
        return Image(((shown + 1) * 127.5).clamp(0, 255).round().to(torch.uint8).numpy())


if __name__ == "__main__":
    typer.run(main)
