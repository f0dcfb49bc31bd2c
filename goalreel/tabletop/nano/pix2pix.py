"""The nano editor in InstructPix2Pix's class (arXiv 2211.09800): a UNet beside a CLIP text encoder.

The source's latents stand beside the noisy ones. It is trained on velocities with zero terminal SNR
(arXiv 2305.08891), so that sampling begins at noise alone as training does.
"""

from collections.abc import Iterable
from typing import Any, Self

import torch
import transformers
from diffusers import (
    AutoencoderKL,  # pyright: ignore[reportPrivateImportUsage]  (exported lazily)
    DDIMScheduler,  # pyright: ignore[reportPrivateImportUsage]
    StableDiffusionInstructPix2PixPipeline,  # pyright: ignore[reportPrivateImportUsage]
    UNet2DConditionModel,  # pyright: ignore[reportPrivateImportUsage]
)
from diffusers.models.attention_processor import AttnProcessor
from tokenizers import AddedToken, pre_tokenizers
from torch import Tensor, nn

from goalreel.editors.catalogue import Entry
from goalreel.tabletop.nano.editor import NanoEditor
from goalreel.tabletop.nano.editor_config import EditorConfig, EditorShape
from goalreel.tabletop.nano.words import tabletop_words, token_id
from goalreel.training.precision import fused_attention_is_slow, half

START, END = "<|startoftext|>", "<|endoftext|>"


class Pix2Pix(NanoEditor[StableDiffusionInstructPix2PixPipeline]):
    """A `StableDiffusionInstructPix2PixPipeline` with small parts."""

    pipeline_class = StableDiffusionInstructPix2PixPipeline
    denoiser_name = "unet"

    @classmethod
    def build(cls, config: EditorConfig, texts: Iterable[str]) -> Self:
        """Make one with random weights, the same for the same seed, on the CPU in float32."""
        words = tokenizer(config.shape, texts)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            pipeline = StableDiffusionInstructPix2PixPipeline(
                tokenizer=words,
                scheduler=DDIMScheduler(  # pyright: ignore[reportArgumentType]
                    prediction_type="v_prediction",
                    rescale_betas_zero_snr=True,
                    timestep_spacing="trailing",
                    clip_sample=False,
                ),
                safety_checker=None,  # pyright: ignore[reportArgumentType]
                feature_extractor=None,  # pyright: ignore[reportArgumentType]
                requires_safety_checker=False,
                **cls.parts(config.shape, words),  # pyright: ignore[reportArgumentType]
            )
        return cls(pipeline, config)

    @staticmethod
    def parts(shape: EditorShape, tokenizer: Any) -> dict[str, nn.Module]:
        return {"vae": vae(shape), "text_encoder": text_encoder(shape, tokenizer), "unet": unet(shape)}

    @property
    def cell(self) -> int:
        return self.config.shape.stride

    def entry(self) -> Entry:
        shape = self.config.shape
        return Entry(
            kinds=("edit",),
            steps=self.config.sampling_steps,
            guidance={"guidance_scale": 1.0, "image_guidance_scale": 1.0},
            size=(shape.size, shape.size),
            multiple=shape.stride,
        )

    def tokens(self, prompts: Iterable[str]) -> tuple[Tensor, ...]:
        """Token ids (n, length), as the pipeline makes them: it has no mask."""
        words, texts = self.pipeline.tokenizer, list(prompts)
        self.check_length(words(texts, padding="longest", return_tensors="pt")["input_ids"])
        made = words(texts, padding="max_length", return_tensors="pt")
        return (made["input_ids"],)

    @torch.no_grad()
    def measure_latents(self, pictures: Tensor) -> None:
        """Set the factor that brings latents to unit variance."""
        z = torch.cat([self.encoded(part).float() for part in pictures.split(16)])
        self.pipeline.vae.register_to_config(scaling_factor=round(1 / z.std().item(), 4))

    @torch.no_grad()
    def encode(self, pictures: Tensor) -> Tensor:
        """Latents (b, channels, h, w) as the VAE gives them."""
        return self.encoded(pictures).float()

    def loss(self) -> "Denoising":
        if self.config.precision == "bf16" and fused_attention_is_slow():
            self.pipeline.unet.set_attn_processor(AttnProcessor())
        return Denoising(self.pipeline, self.config)


def vae(shape: EditorShape) -> AutoencoderKL:
    """Make a VAE of the shape; its scaling factor is set after training."""
    levels = len(shape.vae_encoder)
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * levels,  # pyright: ignore[reportArgumentType]
        up_block_types=("UpDecoderBlock2D",) * levels,  # pyright: ignore[reportArgumentType]
        block_out_channels=shape.vae_encoder,  # pyright: ignore[reportArgumentType]
        layers_per_block=shape.vae_blocks,
        latent_channels=shape.latent_channels,
        norm_num_groups=8,
        sample_size=shape.size,
        mid_block_add_attention=False,
    )


def unet(shape: EditorShape) -> UNet2DConditionModel:
    """Make the denoiser: it sees noisy and source latents; all levels but the first see the words."""
    deeper = len(shape.unet) - 1
    return UNet2DConditionModel(
        sample_size=shape.size // shape.stride,
        in_channels=2 * shape.latent_channels,
        out_channels=shape.latent_channels,
        down_block_types=("DownBlock2D", *("CrossAttnDownBlock2D",) * deeper),
        up_block_types=(*("CrossAttnUpBlock2D",) * deeper, "UpBlock2D"),
        block_out_channels=shape.unet,
        layers_per_block=shape.unet_blocks,
        cross_attention_dim=shape.text_width,
        attention_head_dim=4,
        norm_num_groups=16,
    )


def tokenizer(shape: EditorShape, texts: Iterable[str]) -> transformers.CLIPTokenizer:
    """Train CLIP's BPE on words of at most `vocabulary` tokens; the tabletop's names are one token each."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    alphabet = [START, END, *letters, *(f"{letter}</w>" for letter in letters)]
    empty = transformers.CLIPTokenizer(vocab={token: i for i, token in enumerate(alphabet)}, merges=[])
    words = tabletop_words()
    made = empty.train_new_from_iterator(texts, shape.vocabulary, show_progress=False)
    made.add_tokens([AddedToken(word, normalized=False, special=False) for word in words])
    made.model_max_length = shape.prompt_tokens
    return made


def text_encoder(shape: EditorShape, words: transformers.CLIPTokenizer) -> transformers.CLIPTextModel:
    """Make the text encoder, causal as CLIP's is."""
    return transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(words),
            hidden_size=shape.text_width,
            intermediate_size=3 * shape.text_width,
            projection_dim=shape.text_width,
            num_hidden_layers=shape.text_layers,
            num_attention_heads=shape.text_width // 32,
            max_position_embeddings=shape.prompt_tokens,
            bos_token_id=token_id(words, START),
            eos_token_id=token_id(words, END),
            pad_token_id=token_id(words, END),
        )
    )


class Denoising(nn.Module):
    """The editor's loss: squared error of the velocity, changed parts weighted."""

    def __init__(self, pipeline: StableDiffusionInstructPix2PixPipeline, config: EditorConfig) -> None:
        super().__init__()
        self.unet: nn.Module = pipeline.unet
        self.text_encoder: nn.Module = pipeline.text_encoder
        self.scheduler: DDIMScheduler = pipeline.scheduler  # pyright: ignore[reportAttributeAccessIssue]
        self.scale = float(pipeline.vae.config["scaling_factor"])
        self.autocast = config.precision == "bf16"

    def forward(
        self, source: Tensor, target: Tensor, noise: Tensor, level: Tensor, ids: Tensor, weight: Tensor
    ) -> Tensor:
        """Latents (b, channels, h, w) as the VAE gives them, levels (b,) from 0 to 1, prompt tokens
        (b, length), weights (b, h w)."""
        at = (level * (self.scheduler.config["num_train_timesteps"] - 1)).long()
        clean = target * self.scale
        mixed = self.scheduler.add_noise(clean, noise, at)
        wanted = self.scheduler.get_velocity(clean, noise, at)
        with half(source.device, wanted=self.autocast):
            words = self.text_encoder(input_ids=ids)[0]
            velocity = self.unet(torch.cat([mixed, source], 1), at, words, return_dict=False)[0]
        error = (velocity.float() - wanted).square()
        return (error * weight.view(len(error), 1, *error.shape[2:])).mean()
