"""Models of published shapes (`full_sizes.yaml`) with random weights, built on their device."""

import argparse
import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from diffusers.models.autoencoders.autoencoder_kl_flux2 import AutoencoderKLFlux2
from diffusers.models.transformers.transformer_flux2 import Flux2Transformer2DModel
from parts.full_agents import ScriptedReplies
from support import tiny, tiny_pipelines
from torch import nn
from transformers import (
    PreTrainedModel,
    Qwen2VLImageProcessor,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from goalreel.chat.hf import HfChat
from goalreel.critics.chat import ChatCritic
from goalreel.editors.batching import Flux2KleinPairs
from goalreel.editors.catalogue import find
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.planners.chat import ChatPlanner
from goalreel_lab.nano.language import PICTURE

type Klein = Literal["klein-4b", "klein-9b"]
type Sizes = Mapping[str, Any]


def read_sizes(size: Literal["full", "tiny"]) -> Sizes:
    """Read the shapes of each model by its name."""
    return yaml.safe_load(Path(__file__).with_name("full_sizes.yaml").read_text(encoding="utf-8"))[size]


def random_model[Model: nn.Module](make: Callable[[], Model], device: str) -> Model:
    """Build a model on its device, in bfloat16 on a GPU: on the CPU 8 billion numbers would take minutes."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32 if device == "cpu" else torch.bfloat16)
    try:
        with torch.device(device):
            return make().eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(previous)


def chat_model(sizes: Sizes, device: str) -> tuple[PreTrainedModel, Qwen3VLProcessor]:
    """Build a model of Qwen3-VL's class and its processor. No token ends a reply."""
    tokens = tiny.tokenizer(image=PICTURE)
    shape = sizes["chat"]
    patches = {
        "patch_size": shape["vision_config"]["patch_size"],
        "merge_size": shape["vision_config"]["spatial_merge_size"],
        "temporal_patch_size": shape["vision_config"]["temporal_patch_size"],
    }
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(
            size=shape["pixels"], image_mean=[0.5] * 3, image_std=[0.5] * 3, **patches
        ),
        tokenizer=tokens,
        video_processor=Qwen3VLVideoProcessor(**patches),
        chat_template=tokens.chat_template,
    )
    text = {**shape["text_config"], "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    ids: dict[str, Any] = tiny.qwen_ids(tokens)
    config = Qwen3VLConfig(
        text_config=text, vision_config=dict(shape["vision_config"]), tie_word_embeddings=False, **ids
    )
    model = random_model(lambda: Qwen3VLForConditionalGeneration(config), device)
    model.generation_config.eos_token_id = None
    return model, processor


def klein_editor(sizes: Sizes, name: Klein, device: str, batch: int) -> DiffusersEditor:
    """Build an editor of FLUX.2-klein's class: transformer, text encoder and VAE."""
    shape = sizes[name]
    text: dict[str, Any] = {
        **shape["text_encoder"],
        "bos_token_id": None,
        "eos_token_id": 0,
        "pad_token_id": 0,
    }
    pipeline = Flux2KleinPairs(
        scheduler=tiny_pipelines.flow(),
        vae=random_model(lambda: AutoencoderKLFlux2(**shape["vae"]), device),
        text_encoder=random_model(lambda: Qwen3ForCausalLM(Qwen3Config(**text)), device),
        tokenizer=tiny_pipelines.qwen_tokenizer(),
        transformer=random_model(lambda: Flux2Transformer2DModel(**shape["transformer"]), device),
        is_distilled=True,
    )
    pipeline.set_progress_bar_config(disable=True)
    entry = find(f"flux2-{name}").model_copy(update=shape["call"])
    return DiffusersEditor(pipeline, entry, batch_size=batch)


def weights_gb(model: nn.Module | DiffusersEditor) -> float:
    """Sum the bytes of a model's parameters and buffers, or of an editor's, in GB."""
    parts = vars(model.pipeline).values() if isinstance(model, DiffusersEditor) else [model]
    modules = [part for part in parts if isinstance(part, nn.Module)]
    tensors = {id(t): t for module in modules for t in (*module.parameters(), *module.buffers())}
    return sum(map(_bytes, tensors.values())) / 1e9


def _bytes(tensor: torch.Tensor) -> int:
    names = getattr(tensor, "tensor_data_names", None)  # torchao's tensors hold others
    parts = [tensor] if names is None else [getattr(tensor, name) for name in names]
    return sum(part.numel() * part.element_size() for part in parts)


class Models:
    """The models in memory, each built when it is first needed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = "cuda" if torch.cuda.is_available() and not options.tiny else "cpu"
        self._batch = options.batch
        self._sizes = read_sizes("tiny" if options.tiny else "full")
        self.chats: dict[str, tuple[PreTrainedModel, Qwen3VLProcessor]] = {}
        self.editors: dict[Klein, DiffusersEditor] = {}

    def planner(self, tokens: int, name: str = "chat") -> ChatPlanner:
        """Make the Planner agent; every reply has `tokens` tokens."""
        return ChatPlanner(ScriptedReplies(self._chat(name, tokens), "planner"))

    def critic(self, tokens: int) -> ChatCritic:
        """Make the Critic agent."""
        return ChatCritic(ScriptedReplies(self._chat("chat", tokens), "critic"))

    def _chat(self, name: str, tokens: int) -> HfChat:
        return HfChat(*self.chat_model(name), max_new_tokens=tokens, batch_size=self._batch)

    def chat_model(self, name: str) -> tuple[PreTrainedModel, Qwen3VLProcessor]:
        """Return a chat model and its processor."""
        if name not in self.chats:
            self.chats[name] = chat_model(self._sizes, self.device)
        return self.chats[name]

    def editor(self, name: Klein) -> DiffusersEditor:
        """Return an editor; the other one is freed first."""
        if name not in self.editors:
            self.editors.clear()
            free()
            self.editors[name] = klein_editor(self._sizes, name, self.device, self._batch)
        return self.editors[name]

    def clear(self) -> None:
        """Free all models."""
        self.chats.clear()
        self.editors.clear()
        free()

    def quantize(self, editor: Klein) -> None:
        """Keep the weights of the chat and of the editor's transformer and text encoder in fp8."""
        from torchao.quantization import Float8WeightOnlyConfig, quantize_

        pipeline: Any = self.editor(editor).pipeline
        quantize_(self.chat_model("chat")[0].model, Float8WeightOnlyConfig())
        quantize_(pipeline.transformer, Float8WeightOnlyConfig())
        quantize_(pipeline.text_encoder.model, Float8WeightOnlyConfig())
        free()


def free() -> None:
    """Give back the memory of models that nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
