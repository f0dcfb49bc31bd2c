"""Every pipeline class of the catalogue with tiny random weights, saved as a real one would be."""

from __future__ import annotations  # their evaluation would import every class that they name

import importlib
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import diffusers
import pytest
import torch
import transformers
from tokenizers import pre_tokenizers
from torch import nn

HIDDEN = 32
TINY = {"hidden_size": HIDDEN, "intermediate_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2}
VAE = {
    **{"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4},
    **{"block_out_channels": (8,) * 4, "layers_per_block": 1, "norm_num_groups": 4, "sample_size": 64},
    "mid_block_add_attention": False,
}
QWEN_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet() -> list[str]:
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def qwen_tokenizer() -> transformers.Qwen2Tokenizer:
    vocab = {token: i for i, token in enumerate([*QWEN_SPECIAL, *byte_alphabet()])}
    tokenizer = transformers.Qwen2Tokenizer(
        vocab=vocab, merges=[], extra_special_tokens=list(QWEN_SPECIAL[1:])
    )
    tokenizer.chat_template = CHAT
    return tokenizer


def clip_tokenizer() -> transformers.CLIPTokenizer:
    letters = byte_alphabet()
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    vocab = {token: i for i, token in enumerate(tokens)}
    return transformers.CLIPTokenizer(vocab=vocab, merges=[], model_max_length=77)


def t5_tokenizer() -> transformers.T5Tokenizer:
    pieces = ["<pad>", "</s>", "<unk>", "▁", *string.ascii_letters, *string.digits, *string.punctuation]
    return transformers.T5Tokenizer(vocab=[(p, -float(i)) for i, p in enumerate(pieces)], extra_ids=0)


def clip_text() -> transformers.CLIPTextModel:
    tokenizer = clip_tokenizer()
    return transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(tokenizer), **TINY, bos_token_id=0, eos_token_id=1, pad_token_id=1
        )
    )


def t5(kind: str) -> nn.Module:
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=128, d_model=HIDDEN, d_kv=16, d_ff=HIDDEN, num_layers=1, num_heads=2
    )
    return getattr(transformers, f"{kind}EncoderModel")(config)


def qwen_vl() -> transformers.Qwen2_5_VLForConditionalGeneration:
    ids = {token: i for i, token in enumerate(QWEN_SPECIAL)}
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 300,
            **TINY,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
            "pad_token_id": 0,
            "bos_token_id": None,
            "eos_token_id": 0,
        },
        vision_config={
            "depth": 1,
            "hidden_size": HIDDEN,
            "intermediate_size": HIDDEN,
            "num_heads": 2,
            "out_hidden_size": HIDDEN,
            "fullatt_block_indexes": [0],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def qwen_processor() -> transformers.Qwen2VLProcessor:
    return transformers.Qwen2VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(
            size={"shortest_edge": 28 * 28, "longest_edge": 10**7}
        ),
        tokenizer=qwen_tokenizer(),
        video_processor=transformers.Qwen2VLVideoProcessor(),
        chat_template=CHAT,
    )


def vae_kl(latent_channels: int = 16) -> diffusers.AutoencoderKL:
    return diffusers.AutoencoderKL(
        **VAE,
        latent_channels=latent_channels,
        shift_factor=0.1,
        scaling_factor=0.5,
        use_quant_conv=latent_channels == 4,
        use_post_quant_conv=latent_channels == 4,
    )


def blocks(layers: int, heads: int) -> dict[str, int]:
    """The size of a denoiser that has blocks of two kinds."""
    depth = {"num_layers": layers, "num_single_layers": layers}
    return depth | {"num_attention_heads": heads, "attention_head_dim": 16}


def flow(**options: object) -> diffusers.FlowMatchEulerDiscreteScheduler:
    return diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, **options)


def flux2_klein(layers: int, heads: int) -> diffusers.DiffusionPipeline:
    vae = diffusers.AutoencoderKLFlux2(**VAE, latent_channels=4)
    # The default call reads hidden states 9, 18 and 27.
    text = transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(
            vocab_size=300,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=27,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=16,
            tie_word_embeddings=True,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=0,
        )
    )
    transformer = diffusers.Flux2Transformer2DModel(
        in_channels=16,
        **blocks(layers, heads),
        joint_attention_dim=48,
        timestep_guidance_channels=16,
        axes_dims_rope=(4, 4, 4, 4),
        guidance_embeds=False,
    )
    return diffusers.Flux2KleinPipeline(
        scheduler=flow(),
        vae=vae,
        text_encoder=text,
        tokenizer=qwen_tokenizer(),
        transformer=transformer,
        is_distilled=True,
    )


def flux(pipeline: str, layers: int, heads: int, *, in_channels: int = 64) -> diffusers.DiffusionPipeline:
    transformer = diffusers.FluxTransformer2DModel(
        in_channels=in_channels,
        out_channels=64,
        **blocks(layers, heads),
        joint_attention_dim=HIDDEN,
        pooled_projection_dim=HIDDEN,
        guidance_embeds=True,
        axes_dims_rope=(4, 6, 6),
    )
    return getattr(diffusers, pipeline)(
        scheduler=flow(),
        vae=vae_kl(),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        text_encoder_2=t5("T5"),
        tokenizer_2=t5_tokenizer(),
        transformer=transformer,
    )


def qwen_image(pipeline: str, layers: int, heads: int) -> diffusers.DiffusionPipeline:
    parts = {"processor": qwen_processor()} if "Edit" in pipeline else {}
    return getattr(diffusers, pipeline)(
        scheduler=flow(shift_terminal=0.02, max_shift=0.9, max_image_seq_len=8192),
        vae=diffusers.AutoencoderKLQwenImage(base_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1),
        text_encoder=qwen_vl(),
        tokenizer=qwen_tokenizer(),
        transformer=diffusers.QwenImageTransformer2DModel(
            num_layers=layers,
            attention_head_dim=16,
            num_attention_heads=heads,
            joint_attention_dim=HIDDEN,
            axes_dims_rope=(4, 6, 6),
        ),
        **parts,
    )


def longcat(layers: int, heads: int) -> diffusers.DiffusionPipeline:
    return diffusers.LongCatImageEditPipeline(
        scheduler=flow(),
        vae=vae_kl(),
        text_encoder=qwen_vl(),
        tokenizer=qwen_tokenizer(),
        text_processor=qwen_processor(),
        transformer=diffusers.LongCatImageTransformer2DModel(
            **blocks(layers, heads),
            joint_attention_dim=HIDDEN,
            pooled_projection_dim=HIDDEN,
            axes_dims_rope=[4, 6, 6],
        ),
    )


def unet(in_channels: int, layers: int, heads: int) -> diffusers.UNet2DConditionModel:
    return diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=in_channels,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        block_out_channels=(8 * heads, 16 * heads),
        layers_per_block=layers,
        cross_attention_dim=HIDDEN,
        attention_head_dim=2,
        norm_num_groups=4,
    )


def instruct_pix2pix(layers: int, heads: int) -> diffusers.DiffusionPipeline:
    return diffusers.StableDiffusionInstructPix2PixPipeline(
        vae=vae_kl(latent_channels=4),
        text_encoder=clip_text(),
        tokenizer=clip_tokenizer(),
        unet=unet(8, layers, heads),
        scheduler=diffusers.EulerAncestralDiscreteScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


BUILDERS: dict[str, Callable[[int, int], diffusers.DiffusionPipeline]] = {
    "Flux2KleinPipeline": flux2_klein,
    "FluxPipeline": partial(flux, "FluxPipeline"),
    "FluxKontextPipeline": partial(flux, "FluxKontextPipeline"),
    "QwenImagePipeline": partial(qwen_image, "QwenImagePipeline"),
    "QwenImageEditPipeline": partial(qwen_image, "QwenImageEditPipeline"),
    "QwenImageEditPlusPipeline": partial(qwen_image, "QwenImageEditPlusPipeline"),
    "LongCatImageEditPipeline": longcat,
    "StableDiffusionInstructPix2PixPipeline": instruct_pix2pix,
}


def tiny_pipeline(pipeline: str, folder: Path, *, layers: int = 1, heads: int = 2) -> Path:
    """Save a random pipeline of that class (seed 0) into `folder`; it has what `from_pretrained` needs.

    The denoiser has `layers` blocks of each kind, of `heads` heads of 16.
    """
    torch.manual_seed(0)
    built = BUILDERS[pipeline](layers, heads)
    for part in built.components.values():
        if isinstance(part, nn.Module):
            _spread(part)
    built.save_pretrained(folder)
    return folder


@contextmanager
def reference_area(area: int) -> Iterator[None]:
    """Qwen's and LongCat's pipelines view every source at 1024 x 1024 pixels; within, at `area` pixels."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("qwenimage.pipeline_qwenimage_edit", "qwenimage.pipeline_qwenimage_edit_plus"):
            _scale_dimensions(patch, name, area)
        _scale_dimensions(patch, "longcat_image.pipeline_longcat_image_edit", area)
        yield


def _scale_dimensions(patch: pytest.MonkeyPatch, name: str, area: int) -> None:
    module = importlib.import_module(f"diffusers.pipelines.{name}")
    real = module.calculate_dimensions
    patch.setattr(module, "calculate_dimensions", lambda wanted, ratio: real(wanted * area / 1024**2, ratio))


def _spread(part: nn.Module) -> None:
    """Give zero-initialised tensors values, so that prompt, image and seed all reach the picture."""
    for tensor in part.parameters():
        if tensor.ndim > 1 and not tensor.any():
            nn.init.normal_(tensor, std=0.1)
