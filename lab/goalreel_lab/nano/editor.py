"""The parts of the nano editor's pipeline, with random weights."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import torch
import transformers
from diffusers.configuration_utils import ConfigMixin
from diffusers.models.attention_processor import AttnProcessor
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_instruct_pix2pix import (
    StableDiffusionInstructPix2PixPipeline,
)
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from tokenizers import AddedToken, pre_tokenizers
from torch import Tensor, nn

from goalreel.checkpoints import located
from goalreel.editors.catalogue import Entry
from goalreel.editors.loading import model_index
from goalreel.errors import InputError, first_line
from goalreel.training.run import fused_attention_is_slow, half
from goalreel_lab.nano.config import EditorConfig, EditorShape
from goalreel_lab.nano.language import tabletop_words, token_id

START, END = "<|startoftext|>", "<|endoftext|>"


def make_parts(shape: EditorShape, tokenizer: transformers.CLIPTokenizer) -> dict[str, nn.Module]:
    """Make the parts that hold weights, by the pipeline's names."""
    return {
        "vae": make_vae(shape),
        "text_encoder": make_text_encoder(shape, tokenizer),
        "unet": make_unet(shape),
    }


def make_vae(shape: EditorShape) -> AutoencoderKL:
    """Make a VAE of the shape; its scaling factor is set after training."""
    levels = len(shape.vae_encoder)
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        block_out_channels=shape.vae_encoder,
        layers_per_block=shape.vae_blocks,
        latent_channels=shape.latent_channels,
        norm_num_groups=8,
        sample_size=shape.size,
        mid_block_add_attention=False,
    )


def make_unet(shape: EditorShape) -> UNet2DConditionModel:
    """Make the denoiser: it sees noisy and source latents; all levels but the first see the prompt."""
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


def make_tokenizer(shape: EditorShape, texts: Iterable[str]) -> transformers.CLIPTokenizer:
    """Train CLIP's BPE of at most `vocabulary` tokens on texts; the tabletop's names are one token each."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    alphabet = [START, END, *letters, *(f"{letter}</w>" for letter in letters)]
    empty = transformers.CLIPTokenizer(vocab={token: i for i, token in enumerate(alphabet)}, merges=[])
    tokenizer = empty.train_new_from_iterator(texts, shape.vocabulary, show_progress=False)
    tokenizer.add_tokens([AddedToken(word, normalized=False, special=False) for word in tabletop_words()])
    tokenizer.model_max_length = shape.prompt_tokens
    return tokenizer


def make_text_encoder(
    shape: EditorShape, tokenizer: transformers.CLIPTokenizer
) -> transformers.CLIPTextModel:
    """Make the text encoder, causal as CLIP's is."""
    return transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=shape.text_width,
            intermediate_size=3 * shape.text_width,
            projection_dim=shape.text_width,
            num_hidden_layers=shape.text_layers,
            num_attention_heads=shape.text_width // 32,
            max_position_embeddings=shape.prompt_tokens,
            bos_token_id=token_id(tokenizer, START),
            eos_token_id=token_id(tokenizer, END),
            pad_token_id=token_id(tokenizer, END),
        )
    )


class NanoEditor:
    """A `StableDiffusionInstructPix2PixPipeline` with small parts, to train or to save."""

    def __init__(self, pipeline: StableDiffusionInstructPix2PixPipeline, config: EditorConfig) -> None:
        self.pipeline = pipeline
        self.config = config

    @classmethod
    def build(cls, config: EditorConfig, texts: Iterable[str]) -> Self:
        """Make one with random weights, the same for the same seed, on the CPU in float32.

        `texts`: what the tokenizer learns its words from.
        """
        tokenizer = make_tokenizer(config.shape, texts)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            pipeline = StableDiffusionInstructPix2PixPipeline(
                tokenizer=tokenizer,
                scheduler=DDIMScheduler(  # pyrefly: ignore[bad-argument-type]
                    prediction_type="v_prediction",
                    rescale_betas_zero_snr=True,
                    timestep_spacing="trailing",
                    clip_sample=False,
                ),
                safety_checker=None,  # pyrefly: ignore[bad-argument-type]
                feature_extractor=None,
                requires_safety_checker=False,
                **make_parts(config.shape, tokenizer),  # pyrefly: ignore[bad-argument-type]
            )
        return cls(pipeline, config)

    @classmethod
    def load(cls, config: EditorConfig) -> Self:
        """Load the pipeline that `config.model` names, to go on with it on the CPU in float32.

        Raises:
            InputError: there is none, or it is of another class or shape.
        """
        source, pipeline_class = located(str(config.model)), StableDiffusionInstructPix2PixPipeline
        if not Path(source).is_dir():
            raise InputError(f"no folder {source}: name one that holds an editor, or nano-editor")
        if (name := model_index(source).get("_class_name")) != pipeline_class.__name__:
            raise InputError(f"{source} is a {name}: the configuration trains a {pipeline_class.__name__}")
        try:
            pipeline = pipeline_class.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
        except (OSError, ValueError) as e:
            raise InputError(f"cannot load {source} to train it: {first_line(e)[:300]}") from e
        with torch.device("meta"):
            parts = make_parts(config.shape, pipeline.tokenizer)
        for name, part in parts.items():
            if _sizes(part) != _sizes(getattr(pipeline, name)):
                raise InputError(f"{source} is of another shape than the configuration's: see its {name}")
        pipeline.set_progress_bar_config(disable=True)
        return cls(pipeline, config)

    @property
    def vae(self) -> Any:
        return self.pipeline.vae

    @property
    def denoiser(self) -> nn.Module:
        """Give the part that is called at every step."""
        return self.pipeline.unet

    @property
    def cell(self) -> int:
        """Give the side, in pixels, of what one weight of the loss stands for."""
        return self.config.shape.stride

    def entry(self) -> Entry:
        """Say how the editor calls the pipeline: steps, size, arguments."""
        shape = self.config.shape
        return Entry(
            kinds=("edit",),
            steps=self.config.sampling_steps,
            guidance={"guidance_scale": 1.0, "image_guidance_scale": 1.0},
            size=(shape.size, shape.size),
            multiple=shape.stride,
        )

    def token_ids(self, prompts: Iterable[str]) -> Tensor:
        """Tokenize prompts as the pipeline does, which has no mask: ids (n, length).

        Raises:
            InputError: a prompt is longer than the configuration's `prompt_tokens`.
        """
        tokenizer, texts = self.pipeline.tokenizer, list(prompts)
        longest = tokenizer(texts, padding="longest", return_tensors="pt")["input_ids"].shape[1]
        length = self.config.shape.prompt_tokens
        if longest > length:
            raise InputError(f"a prompt has {longest} tokens: raise prompt_tokens, which is {length}")
        return tokenizer(texts, padding="max_length", return_tensors="pt")["input_ids"]

    @torch.no_grad()
    def measure_latents(self, pictures: Tensor) -> None:
        """Set the factor that brings the latents of pictures (b, 3, size, size) uint8 to unit variance."""
        latents = torch.cat([self.encode(part) for part in pictures.split(16)])
        self.pipeline.vae.register_to_config(scaling_factor=round(1 / latents.std().item(), 4))

    @torch.no_grad()
    def encode(self, pictures: Tensor) -> Tensor:
        """Encode pictures (b, 3, size, size) uint8 to the latents' means (b, channels, h, w), float32."""
        vae = self.vae
        with half(vae.device, enabled=self.config.precision == "bf16"):
            return latent_means(vae, pictures).float()

    def loss(self) -> "DenoisingLoss":
        """Make the loss whose parameters are the denoiser's and the text encoder's."""
        if self.config.precision == "bf16" and fused_attention_is_slow():
            self.pipeline.unet.set_attn_processor(AttnProcessor())
        return DenoisingLoss(self.pipeline, self.config)

    def save(self, folder: Path) -> None:
        """Write what `diffusers:FOLDER` loads. The pipeline's weights take the type they are saved in."""
        pipeline: Any = self.pipeline
        pipeline.to(getattr(torch, self.config.dtype))
        for part in (pipeline, *pipeline.components.values()):
            if isinstance(part, ConfigMixin):
                # diffusers would write the folder that it was loaded from, which names this machine's disk.
                part.register_to_config(_name_or_path="")
        pipeline.save_pretrained(folder, safe_serialization=True)
        self.entry().save(folder)


class DenoisingLoss(nn.Module):
    """The editor's loss: squared error of the velocity, changed parts weighted."""

    def __init__(self, pipeline: StableDiffusionInstructPix2PixPipeline, config: EditorConfig) -> None:
        super().__init__()
        self.unet: nn.Module = pipeline.unet
        self.text_encoder: nn.Module = pipeline.text_encoder
        self.scheduler: DDIMScheduler = pipeline.scheduler
        self.scale = float(pipeline.vae.config["scaling_factor"])
        self.autocast = config.precision == "bf16"

    def forward(
        self, source: Tensor, target: Tensor, noise: Tensor, level: Tensor, ids: Tensor, weight: Tensor
    ) -> Tensor:
        """Give the loss of a batch.

        Args:
            source: latents (b, channels, h, w) to edit from, as the VAE gives them.
            target: latents (b, channels, h, w) of the goal.
            noise: standard normal, of the latents' shape.
            level: noise levels (b,) from 0, the picture, to 1, noise alone.
            ids: the prompts' tokens (b, length).
            weight: weights (b, h w).
        """
        timestep = (level * (self.scheduler.config["num_train_timesteps"] - 1)).long()
        clean = target * self.scale
        mixed = self.scheduler.add_noise(clean, noise, timestep)
        velocity = self.scheduler.get_velocity(clean, noise, timestep)
        with half(source.device, enabled=self.autocast):
            states = self.text_encoder(input_ids=ids)[0]
            output = self.unet(torch.cat([mixed, source], 1), timestep, states, return_dict=False)[0]
        error = (output.float() - velocity).square()
        return (error * weight.view(len(error), 1, *error.shape[2:])).mean()


def _sizes(part: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in part.state_dict().items()}


def latent_means(vae: Any, pictures: Tensor) -> Tensor:
    """Compute the means (b, channels, h, w) of a VAE's latents for pictures (b, 3, size, size) uint8."""
    return vae.encode(to_model(pictures, vae.device), return_dict=False)[0].mean


def to_model(pictures: Tensor, device: torch.device) -> Tensor:
    """Scale pixels as the VAE takes them, float32 from -1 to 1."""
    return pictures.to(device).float() / 127.5 - 1
