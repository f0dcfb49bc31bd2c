"""The parts of the nano editor's pipeline, with random weights."""

from collections.abc import Iterable

import transformers
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from tokenizers import AddedToken, pre_tokenizers
from torch import nn

from goalreel_lab.nano.config import EditorShape
from goalreel_lab.nano.words import tabletop_words, token_id

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
