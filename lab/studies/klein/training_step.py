"""Training steps of an editor of FLUX.2-klein's class: flow matching on a `Flux2KleinPipeline`'s transformer.

A nano editor of this class was trained so until commit b1bb9ae (dev/LOG.md, 2026-11-26). This is its step,
for any pipeline of the class:

    python lab/studies/klein/training_step.py DIR before.png after.png "Put the red block into the blue bowl."
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline
from numpy.typing import NDArray
from torch import Tensor

from goalreel.cli.errors import one_line_errors
from goalreel.image import Image

type PictureBatch = NDArray[np.uint8]
"""(B, H, W, 3) RGB."""


@dataclass(frozen=True)
class EncodedEdits:
    """Edits as the transformer takes them."""

    source: Tensor
    """Normalised latents (b, tokens, channels) to edit from."""
    target: Tensor
    """Those of the goals, of the same shape."""
    positions: Tensor
    """Of the tokens of target and source, (b, 2 tokens, 4)."""
    text: Tensor
    """Hidden states of the prompts, (b, length, width)."""
    text_positions: Tensor
    """(b, length, 4)."""


@torch.no_grad()
def encode(
    pipeline: Flux2KleinPipeline,
    sources: PictureBatch,
    targets: PictureBatch,
    prompts: Sequence[str],
    *,
    prompt_tokens: int = 512,
) -> EncodedEdits:
    """Encode pictures, whose sides are multiples of 16 px, and prompts as the pipeline itself does."""
    source_latents, target_latents = (_latents(pipeline, pictures) for pictures in (sources, targets))
    positions = [
        pipeline._prepare_latent_ids(target_latents),
        pipeline._prepare_image_ids([source_latents[:1]]),
    ]
    text, text_positions = pipeline.encode_prompt(list(prompts), max_sequence_length=prompt_tokens)
    return EncodedEdits(
        source=pipeline._pack_latents(source_latents),
        target=pipeline._pack_latents(target_latents),
        positions=torch.cat([part.expand(len(source_latents), -1, -1) for part in positions], 1).to(
            text.device
        ),
        text=text,
        text_positions=text_positions,
    )


def _latents(pipeline: Flux2KleinPipeline, pictures: PictureBatch) -> Tensor:
    vae: Any = pipeline.vae
    pixels = torch.tensor(pictures).permute(0, 3, 1, 2).to(vae.device, vae.dtype) / 127.5 - 1
    return pipeline._encode_vae_image(pixels, torch.Generator())


def velocity(pipeline: Flux2KleinPipeline, edits: EncodedEdits, mixed: Tensor, level: Tensor) -> Tensor:
    """The transformer's answer for latents `mixed` (b, tokens, channels) at noise levels (b,)."""
    transformer: Any = pipeline.transformer
    answer = transformer(
        hidden_states=torch.cat([mixed, edits.source], 1),
        timestep=level,
        guidance=None,
        encoder_hidden_states=edits.text,
        txt_ids=edits.text_positions,
        img_ids=edits.positions,
        return_dict=False,
    )[0]
    return answer[:, : mixed.shape[1]]


def flow_loss(pipeline: Flux2KleinPipeline, edits: EncodedEdits, noise: Tensor, level: Tensor) -> Tensor:
    """Squared error of the velocity from picture to noise, at levels (b,) from 0, the picture, to 1."""
    share = level.view(-1, 1, 1)
    mixed = (1 - share) * edits.target + share * noise
    return (velocity(pipeline, edits, mixed, level).float() - (noise - edits.target)).square().mean()


def train_step(
    pipeline: Flux2KleinPipeline,
    optimizer: torch.optim.Optimizer,
    edits: EncodedEdits,
    generator: torch.Generator,
) -> float:
    """Make one optimizer step at random noise and levels, and give its loss."""
    noise = torch.randn(edits.target.shape, generator=generator).to(edits.target)
    level = torch.rand(len(noise), generator=generator).to(edits.target)
    optimizer.zero_grad(set_to_none=True)
    loss = flow_loss(pipeline, edits, noise, level)
    loss.backward()
    optimizer.step()
    return loss.item()


def main(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a Flux2KleinPipeline.")],
    source: Annotated[Path, typer.Argument(help="The picture before the edit.")],
    target: Annotated[Path, typer.Argument(help="The picture after it, of the same size.")],
    prompt: Annotated[str, typer.Argument(help="The edit in words.")],
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="AdamW's learning rate.")] = 1e-5,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens a prompt is padded to.")] = 512,
) -> None:
    """Train the transformer on one edit, and print the loss of each step as one JSON line."""
    with one_line_errors():
        pipeline = Flux2KleinPipeline.from_pretrained(model, use_safetensors=True)
        source_pixels, target_pixels = (
            Image.decode(path.read_bytes()).pixels[None] for path in (source, target)
        )
        edits = encode(pipeline, source_pixels, target_pixels, [prompt], prompt_tokens=prompt_tokens)
        optimizer = torch.optim.AdamW(pipeline.transformer.parameters(), lr=rate)
        generator = torch.Generator().manual_seed(0)
        losses = [train_step(pipeline, optimizer, edits, generator) for _ in range(steps)]
    typer.echo(json.dumps({"loss": losses}))


if __name__ == "__main__":
    typer.run(main)
