"""Shapes of the nano models, and the configuration of the editor's training, read from YAML."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from goalreel.settings import Frozen
from goalreel.training.config import Count, Portion, Positive

HEAD = 32
"""Width of an attention head of the nano models."""


class NanoShape(Frozen):
    """Size of a language agent made from scratch; the defaults make about 2.5M parameters."""

    hidden: Annotated[int, Field(ge=HEAD, multiple_of=HEAD)] = 160
    layers: Count = 4
    vision_hidden: Annotated[int, Field(ge=HEAD, multiple_of=HEAD)] = 128
    vision_layers: Count = 3
    vocabulary: Annotated[int, Field(ge=320)] = 1024
    """Entries of the tokenizer, before the passages that are one token each (`nano.language`)."""
    side: Annotated[int, Field(ge=32, multiple_of=16)] = 128
    """Every picture is brought to about `side` x `side` pixels: 64 tokens at 128."""


class Schedule(Frozen):
    """Length and pace of one trainer's run."""

    steps: Count
    batch: Count
    """Rows a step, over all devices."""
    learning_rate: Positive = 2e-3
    """AdamW's highest rate."""
    muon_learning_rate: Positive = 1.5e-2
    """Muon's highest rate, for the matrices."""
    warmup: Count = 100
    decay: Portion = 0.5
    """The last share of the steps, over which the rates fall to 1 %."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-3
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.999
    log_every: Count = 50
    save_every: Count = 1000


class EditorShape(Frozen):
    """Sizes of the pipeline's parts."""

    size: Count = 128
    """Side of the pictures it works on (px)."""
    vae_encoder: tuple[Count, ...] = (32, 48, 64)
    """Channels of each level of the VAE; every level but the last halves the picture."""
    vae_blocks: Count = 1
    latent_channels: Count = 8
    unet: tuple[Count, ...] = (96, 160, 224)
    """Channels of the UNet's levels; multiples of 16."""
    unet_blocks: Count = 1
    text_width: Count = 128
    """A multiple of 32."""
    text_layers: Count = 3
    vocabulary: Annotated[int, Field(ge=300)] = 768
    prompt_tokens: Count = 128
    """Prompts are padded to this length; a longer one is refused in training and cut when editing."""

    @property
    def stride(self) -> int:
        """Give the side, in pixels, of what one latent shows."""
        return 2 ** (len(self.vae_encoder) - 1)

    @property
    def multiple(self) -> int:
        """Give the number (px) that divides a picture's side: the UNet halves the latents at least once."""
        return 2 * self.stride

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size % self.multiple:
            raise ValueError(f"size {self.size} is not a multiple of {self.multiple}")
        if any(c % 8 for c in self.vae_encoder) or self.text_width % 32:
            raise ValueError("VAE channels are multiples of 8, text_width of 32")
        if any(c % 16 for c in self.unet):
            raise ValueError("unet channels are multiples of 16")
        return self


class VaeTraining(Schedule):
    """Training of the VAE: reconstruction, L1 + L2."""

    steps: Count = 6_000
    batch: Count = 128
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.998
    object_weight: Annotated[float, Field(ge=1)] = 4.0
    """Weight of saturated pixels: the objects, which cover little of the picture."""
    latent_noise: Annotated[float, Field(ge=0)] = 0.05
    """Noise added to latents before decoding, so that the decoder forgives the denoiser's errors."""
    latent_penalty: Annotated[float, Field(ge=0)] = 1e-3
    """Weight of the latents' mean square, which keeps their scale near 1."""
    crop: Count | None = None
    """Side (px) of a window around an object, in the place of the picture at first: objects cover little of
    it and are all that is hard."""
    crop_share: Portion = 0.8
    """Share of the steps that see windows, before whole pictures come."""


class DenoiserTraining(Schedule):
    """Training of the denoiser and the text encoder, on latents."""

    steps: Count = 10_000
    batch: Count = 256
    noisiest: Portion = 0.4
    """Share of the samples at pure noise, where the edit is decided from source and prompt alone."""
    shift: Positive = 7.0
    """Pulls the other noise levels up: t = shift u / (1 + (shift - 1) u), u uniform. With 1, as
    InstructPix2Pix has it, training and sampling see the same levels."""
    explicit: Portion = 0.5
    """Share of explicit rows in a batch, where the data has rows of both registers."""
    balance: Portion = 0.0
    """Balance of rare kinds of goals: 0 as they come, 1 all kinds equally often."""
    change_weight: Annotated[float, Field(ge=1)] = 5.0
    """Weight of the cells that an explicit edit changes; terse rows have none (see `Edits.weights`)."""


class EditorConfig(Frozen):
    """Configuration of the nano editor's training."""

    data: Path | None = None
    """A folder made by `goalreel corpus`: Hugging Face shards data/train-*.parquet of edits."""
    model: str | None = None
    """An editor of this shape to go on from, by its folder or name, with its tokenizer and its VAE as it is;
    by default one is made from scratch."""
    shape: EditorShape = EditorShape()
    vae: VaeTraining = VaeTraining()
    denoiser: DenoiserTraining = DenoiserTraining()
    compile: bool = False
    """Compile the denoiser before it is trained: two minutes, won back within half an hour on a CPU. Without
    a C++ compiler it is not compiled."""
    sampling_steps: Count = 4
    """Steps of an edit, stored with the checkpoint."""
    precision: Literal["bf16", "float32"] = "bf16"
    """Precision of autocast in training; weights stay float32."""
    dtype: Literal["float16", "float32"] = "float16"
    """Type of the saved weights."""
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _crops(self) -> Self:
        crop, side = self.vae.crop, self.shape.multiple
        if crop is not None and (crop % side or crop > self.shape.size):
            raise ValueError(f"vae.crop {crop} is not a multiple of {side} within a picture")
        return self
