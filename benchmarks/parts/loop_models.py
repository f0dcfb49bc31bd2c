"""The checkpoints of `benchmarks/loop.py`: tiny ones saved and loaded, or full sizes with random weights."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from goalreel.editors.catalogue import Entry, find
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.planners.chat.hf import HfChat
from goalreel.types import Editor

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # its builders of tiny checkpoints
from support import tiny, tiny_pipelines

TINY_SIDE, FULL_SIDE = 96, 1024
TINY_CALL = Entry(
    pipeline="Flux2KleinPipeline",
    kinds=("edit",),
    steps=4,
    guidance={"guidance_scale": 1.0},
    arguments={"max_sequence_length": 64},
)


def build(folder: Path, full: bool, batch: int, tokens: int) -> tuple[HfChat, Editor, int]:
    """Build (chat, editor, side of the pictures); every reply has exactly `tokens` new tokens."""
    vlm = tiny.tiny_vlm(folder / "vlm")
    if full:
        chat = _full_chat(vlm, batch, tokens)
        editor: Editor = DiffusersEditor(_full_pipeline(), find("flux2-klein-4b"), batch_size=batch)
    else:
        chat = HfChat.load(vlm, batch_size=batch, max_new_tokens=tokens)
        path = tiny_pipelines.tiny_pipeline("Flux2KleinPipeline", folder / "editor")
        editor = DiffusersEditor.load(path, entry=TINY_CALL, batch_size=batch)
    chat.model.generation_config.min_new_tokens = tokens
    return chat, editor, FULL_SIDE if full else TINY_SIDE


def qwen3_vl_8b() -> dict[str, Any]:
    """Qwen3-VL-8B's published sizes; the vocabulary's embedding is as large as the real one."""
    rope = {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    }
    text = {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "rope_parameters": rope,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    vision = {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 4096,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    }
    return {"text_config": text, "vision_config": vision, "tie_word_embeddings": False}


def klein_4b() -> tuple[dict[str, Any], dict[str, Any]]:
    """FLUX.2-klein-4B's published sizes: transformer, and Qwen3-4B as its text encoder."""
    transformer = {
        "in_channels": 128,
        "num_layers": 5,
        "num_single_layers": 20,
        "attention_head_dim": 128,
        "num_attention_heads": 24,
        "joint_attention_dim": 7680,
        "timestep_guidance_channels": 256,
        "axes_dims_rope": (32, 32, 32, 32),
        "guidance_embeds": False,
    }
    text = {
        "vocab_size": 151936,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 0,
    }
    return transformer, text


def _random[Model](make: Callable[[], Model]) -> Model:
    """Build on the GPU in bfloat16: 8 billion parameters drawn on the CPU would take minutes."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return make()
    finally:
        torch.set_default_dtype(previous)


def _full_chat(vlm: Path, batch: int, tokens: int) -> HfChat:
    from transformers import AutoProcessor, Qwen3VLConfig, Qwen3VLForConditionalGeneration

    processor = AutoProcessor.from_pretrained(vlm)
    ids: dict[str, Any] = tiny.qwen_ids(processor.tokenizer)
    model = _random(lambda: Qwen3VLForConditionalGeneration(Qwen3VLConfig(**qwen3_vl_8b(), **ids)))
    processor.image_processor.patch_size = 16
    processor.image_processor.size = {"shortest_edge": 32**2, "longest_edge": 512**2}
    return HfChat(model.eval(), processor, batch_size=batch, max_new_tokens=tokens)


def _full_pipeline() -> Any:
    from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
    from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel
    from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline
    from transformers import Qwen3Config, Qwen3ForCausalLM

    transformer, text = klein_4b()
    return Flux2KleinPipeline(
        scheduler=tiny_pipelines.flow(),
        vae=_random(AutoencoderKLFlux2).eval(),
        text_encoder=_random(lambda: Qwen3ForCausalLM(Qwen3Config(**text))).eval(),
        tokenizer=tiny_pipelines.qwen_tokenizer(),
        transformer=_random(lambda: Flux2Transformer2DModel(**transformer)).eval(),
        is_distilled=True,
    )
