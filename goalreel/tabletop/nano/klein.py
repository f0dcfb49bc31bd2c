"""The nano editor in FLUX.2-klein's class: a transformer that learns flow matching, from scratch."""

import re
from collections.abc import Iterable
from typing import Any, Self

import torch
import transformers
from diffusers import (
    AutoencoderKLFlux2,  # pyright: ignore[reportPrivateImportUsage]  (exported lazily)
    FlowMatchEulerDiscreteScheduler,  # pyright: ignore[reportPrivateImportUsage]
    Flux2KleinPipeline,  # pyright: ignore[reportPrivateImportUsage]
    Flux2Transformer2DModel,  # pyright: ignore[reportPrivateImportUsage]
)
from tokenizers import AddedToken, pre_tokenizers
from torch import Tensor, nn

from goalreel.editors.catalogue import Entry
from goalreel.tabletop.nano.editor import NanoEditor
from goalreel.tabletop.nano.editor_config import EditorConfig, EditorShape
from goalreel.tabletop.nano.words import tabletop_words, token_id
from goalreel.training.precision import half

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


class Klein(NanoEditor[Flux2KleinPipeline]):
    """A `Flux2KleinPipeline` with small parts."""

    pipeline_class = Flux2KleinPipeline
    denoiser_name = "transformer"

    @classmethod
    def build(cls, config: EditorConfig, texts: Iterable[str]) -> Self:
        """Make one with random weights, the same for the same seed, on the CPU in float32."""
        shape = config.shape
        words = tokenizer(shape, texts)
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            pipeline = Flux2KleinPipeline(
                scheduler=FlowMatchEulerDiscreteScheduler(
                    use_dynamic_shifting=True, time_shift_type="exponential"
                ),
                tokenizer=words,
                is_distilled=True,
                **cls.parts(shape, words),  # pyright: ignore[reportArgumentType]
            )
        return cls(pipeline, config)

    @staticmethod
    def parts(shape: EditorShape, tokenizer: Any) -> dict[str, nn.Module]:
        return {
            "vae": vae(shape),
            "text_encoder": _text_encoder(shape, tokenizer),
            "transformer": _transformer(shape),
        }

    @property
    def cell(self) -> int:
        return self.config.shape.patch

    def entry(self) -> Entry:
        shape = self.config.shape
        return Entry(
            kinds=("edit",),
            steps=self.config.sampling_steps,
            guidance={"guidance_scale": 1.0},
            arguments={
                "text_encoder_out_layers": list(shape.text_out_layers),
                "max_sequence_length": shape.prompt_tokens,
            },
            size=(shape.size, shape.size),
            multiple=shape.patch,
        )

    def tokens(self, prompts: Iterable[str]) -> tuple[Tensor, ...]:
        """Token ids and attention mask (n, length), as the pipeline makes them."""
        words = self.pipeline.tokenizer
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
        self.check_length(made["input_ids"])
        length = self.config.shape.prompt_tokens
        made = words.pad(made, padding="max_length", max_length=length, return_tensors="pt")
        return made["input_ids"], made["attention_mask"]

    def measure_latents(self, pictures: Tensor) -> None:
        """Set the mean and variance by which the pipeline normalises latents."""
        z = torch.cat([self._patched(part) for part in pictures.split(16)])
        mean, variance = self._statistics()
        mean.copy_(z.mean((0, 2, 3)))
        variance.copy_(z.var((0, 2, 3)))

    def encode(self, pictures: Tensor) -> Tensor:
        """Normalised latents (b, tokens, channels)."""
        mean, variance = (values.view(1, -1, 1, 1) for values in self._statistics())
        deviation = torch.sqrt(variance + self.pipeline.vae.config["batch_norm_eps"])
        return Flux2KleinPipeline._pack_latents((self._patched(pictures) - mean) / deviation)

    def loss(self) -> "Flow":
        return Flow(self.pipeline, self.config)

    @torch.no_grad()
    def _patched(self, pictures: Tensor) -> Tensor:
        return Flux2KleinPipeline._patchify_latents(self.encoded(pictures).float())

    def _statistics(self) -> tuple[Tensor, Tensor]:
        norm = self.pipeline.vae.bn
        assert norm.running_mean is not None
        assert norm.running_var is not None
        return norm.running_mean, norm.running_var


def vae(shape: EditorShape) -> AutoencoderKLFlux2:
    """Make a VAE of the shape; its latents' mean and variance (`bn`) are filled after training."""
    levels = len(shape.vae_encoder)
    return AutoencoderKLFlux2(
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        block_out_channels=shape.vae_encoder,
        decoder_block_out_channels=shape.vae_decoder,
        layers_per_block=shape.vae_blocks,
        latent_channels=shape.latent_channels,
        norm_num_groups=8,
        sample_size=shape.size,
        mid_block_add_attention=False,
    )


def tokenizer(shape: EditorShape, texts: Iterable[str]) -> transformers.Qwen2Tokenizer:
    """Train a byte-level BPE of at most `vocabulary` tokens, with a chat template of markers only."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = transformers.Qwen2Tokenizer(
        vocab={token: i for i, token in enumerate([*SPECIAL, *alphabet])},
        merges=[],
        extra_special_tokens=list(SPECIAL[1:]),
    )
    words = tabletop_words()
    apart = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))
    between = (piece for text in texts for piece in apart.split(text))
    made = bytes_only.train_new_from_iterator(between, shape.vocabulary, show_progress=False)
    made.add_tokens([AddedToken(word, normalized=False, special=False) for word in words])
    made.chat_template = CHAT
    made.padding_side = "right"
    made.model_max_length = shape.prompt_tokens
    return made


def _text_encoder(shape: EditorShape, words: transformers.Qwen2Tokenizer) -> transformers.Qwen3ForCausalLM:
    return transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(
            vocab_size=len(words),
            hidden_size=shape.text_width,
            intermediate_size=3 * shape.text_width,
            num_hidden_layers=shape.text_layers,
            num_attention_heads=shape.text_width // 32,
            num_key_value_heads=shape.text_width // 32,
            head_dim=32,
            max_position_embeddings=max(512, shape.prompt_tokens),
            tie_word_embeddings=True,
            pad_token_id=token_id(words, SPECIAL[0]),
            bos_token_id=None,
            eos_token_id=token_id(words, SPECIAL[2]),
        )
    )


def _transformer(shape: EditorShape) -> Flux2Transformer2DModel:
    return Flux2Transformer2DModel(
        in_channels=4 * shape.latent_channels,
        num_layers=shape.double_blocks,
        num_single_layers=shape.single_blocks,
        attention_head_dim=shape.head_size,
        num_attention_heads=shape.heads,
        joint_attention_dim=3 * shape.text_width,
        timestep_guidance_channels=64,
        axes_dims_rope=(shape.head_size // 4,) * 4,
        guidance_embeds=False,
    )


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
        with half(source.device, wanted=self.autocast):
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
