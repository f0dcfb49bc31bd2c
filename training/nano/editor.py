"""The nano editor: a Flux2KleinPipeline with small parts, built from scratch."""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import torch
import transformers
from diffusers import (
    AutoencoderKLFlux2,  # pyright: ignore[reportPrivateImportUsage]  (exported lazily)
    FlowMatchEulerDiscreteScheduler,  # pyright: ignore[reportPrivateImportUsage]
    Flux2KleinPipeline,  # pyright: ignore[reportPrivateImportUsage]
    Flux2Transformer2DModel,  # pyright: ignore[reportPrivateImportUsage]
)
from tokenizers import AddedToken, pre_tokenizers

from goalreel.checkpoints import located
from goalreel.datasets.tabletop.phrases import PARAPHRASES
from goalreel.datasets.tabletop.scene import COLOURS
from goalreel.editors.catalogue import Entry
from goalreel.editors.loading import model_index
from goalreel.errors import InputError
from goalreel.training.editor_config import EditorConfig, EditorShape
from goalreel.training.nano.words import tabletop_words, token_id

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


def build(config: EditorConfig, texts: Iterable[str] | None = None) -> Flux2KleinPipeline:
    """Make a pipeline with random weights, the same for the same seed, on the CPU in float32.

    `texts`: what the tokenizer learns its words from; by default the tabletop's phrases.
    """
    shape = config.shape
    words = tokenizer(shape, phrases() if texts is None else texts)
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return Flux2KleinPipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(
                use_dynamic_shifting=True, time_shift_type="exponential"
            ),
            vae=vae(shape),
            text_encoder=_text_encoder(shape, words),
            tokenizer=words,
            transformer=_transformer(shape),
            is_distilled=True,
        )


def load(config: EditorConfig) -> Flux2KleinPipeline:
    """Load the pipeline that `config.model` names, to go on with it on the CPU in float32.

    Raises:
        InputError: there is none, or it is of another class or shape.
    """
    source, kind = located(str(config.model)), Flux2KleinPipeline
    if not Path(source).is_dir():
        raise InputError(f"no folder {source}: name one that holds an editor, or nano-editor")
    if (name := model_index(source).get("_class_name")) != kind.__name__:
        raise InputError(f"{source} is a {name}: only a {kind.__name__} is trained")
    try:
        pipeline = kind.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
    except (OSError, ValueError) as e:
        raise InputError(f"cannot load {source} to train it: {str(e).strip().splitlines()[0][:300]}") from e
    with torch.device("meta"):
        shape = config.shape
        wanted = {
            "vae": vae(shape),
            "transformer": _transformer(shape),
            "text_encoder": _text_encoder(shape, pipeline.tokenizer),
        }
    for part, model in wanted.items():
        sizes, found = (
            {k: v.shape for k, v in m.state_dict().items()} for m in (model, getattr(pipeline, part))
        )
        if sizes != found:
            raise InputError(f"{source} is of another shape than the configuration's: see its {part}")
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def entry(config: EditorConfig) -> Entry:
    """Say how the editor calls the pipeline: steps, size, arguments."""
    shape = config.shape
    return Entry(
        kinds=("edit",),
        steps=config.sampling_steps,
        guidance={"guidance_scale": 1.0},
        arguments={
            "text_encoder_out_layers": list(shape.text_out_layers),
            "max_sequence_length": shape.prompt_tokens,
        },
        size=(shape.size, shape.size),
        multiple=shape.patch,
    )


def save(pipeline: Flux2KleinPipeline, config: EditorConfig, folder: Path) -> None:
    """Write what `diffusers:FOLDER` loads. The pipeline's weights take the type they are saved in."""
    pipeline.to(getattr(torch, config.dtype))
    pipeline.save_pretrained(folder, safe_serialization=True)
    entry(config).save(folder)


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


def phrases() -> Iterator[str]:
    """Yield the tabletop's sub-goal phrases, alone and with what must stay."""
    for templates in PARAPHRASES.values():
        for template, first, second, kind in product(templates, COLOURS, COLOURS, ("block", "bowl")):
            names = {"object": f"{first} block", "target": f"{second} {kind}"}
            parts = dict.fromkeys(("objects", "base", "middle", "top"), f"{second} block")
            text = template.format(**names, **parts)
            yield f"{text}. Keep the {second} {kind} and all other objects where they are."


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
