"""A diffusers pipeline from its folder or repository: class, weights, LoRA, precision and device."""

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import diffusers
import PIL.Image
import torch
import transformers
from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from diffusers.quantizers.pipe_quant_config import PipelineQuantizationConfig
from safetensors import SafetensorError
from transformers.utils import logging as transformers_logging

from goalreel import files, progress
from goalreel.editors.catalogue import LORA_FILE, EditorKind, Entry, LoraWeights, like, stored
from goalreel.errors import InputError, first_line
from goalreel.torch_support import Quantize, quantization_config, require_package

# Kontext and InstructPix2Pix pair images with prompts themselves, and FLUX.2-klein by its subclass
# here. All other editors take one picture a call.
TEXT_BATCHES = frozenset({"Flux2KleinPipeline", "FluxPipeline", "FluxKontextPipeline", "QwenImagePipeline"})
PAIR_BATCHES = frozenset({"FluxKontextPipeline", "StableDiffusionInstructPix2PixPipeline"})


class Flux2KleinPairs(Flux2KleinPipeline):
    """FLUX.2-klein with one image a prompt."""

    _paired = False

    def edit_pairs(
        self,
        images: Sequence[PIL.Image.Image],
        prompts: Sequence[str],
        generator: Sequence[torch.Generator],
        **arguments: Any,
    ) -> Any:
        """Run the stock call on B edits and return its output. `images` all have one size."""
        self._paired = True
        try:
            return self(image=list(images), prompt=list(prompts), generator=list(generator), **arguments)
        finally:
            self._paired = False

    def prepare_image_latents(
        self, images: list[torch.Tensor], batch_size: int, generator: Any, device: Any, dtype: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Make image i the only reference of prompt i, at the place of a first reference."""
        if not self._paired:
            return super().prepare_image_latents(images, batch_size, generator, device, dtype)
        single = super().prepare_image_latents
        # No generator: the latents of a source are their distribution's mode, and nothing is drawn.
        parts = [single([i], 1, None, device, dtype) for i in images]  # pyrefly: ignore[bad-argument-type]
        return torch.cat([latents for latents, _ in parts]), torch.cat([ids for _, ids in parts])


PAIRED: dict[str, type[DiffusionPipeline]] = {"Flux2KleinPipeline": Flux2KleinPairs}
"""Stock class -> the class that it is loaded as."""

type Offload = Literal["model"]


def model_index(source: str) -> dict[str, Any]:
    """Read `model_index.json` of a folder, or of a repository; InputError where there is none."""
    folder = Path(source)
    if folder.is_dir():
        files.check_folder(folder)
        try:
            return dict(json.loads(files.read_file(folder / "model_index.json")))
        except (OSError, ValueError, TypeError) as e:
            raise InputError(f"{source} is not a diffusers pipeline: no readable model_index.json") from e
    if source.count("/") != 1 or source.startswith((".", "/", "~")):
        raise InputError(
            f"no folder {source!r}: give a folder made by save_pretrained or a repository OWNER/NAME"
        )
    try:
        # A pair only with return_unused_kwargs.
        return DiffusionPipeline.load_config(source)  # pyrefly: ignore[bad-return]
    except OSError as e:
        raise InputError(
            f"cannot fetch {source}: download it once with `hf download {source}`, or give a local folder"
        ) from e


def entry_of(folder: Path, index: dict[str, Any]) -> Entry:
    """Find how a pipeline is called: its folder says, or the catalogue by its class, or the class's call."""
    name = str(index.get("_class_name"))
    stock = getattr(diffusers, name, None)
    takes_image = stock is not None and "image" in inspect.signature(stock.__call__).parameters
    kind: EditorKind = "edit" if takes_image else "text-to-image"
    return stored(folder) or like(name) or Entry(kinds=(kind,))


def pipeline_class(source: str, index: dict[str, Any], entry: Entry) -> type[DiffusionPipeline]:
    """Choose the class to load; InputError where the checkpoint wants code of its own."""
    name = entry.pipeline or index.get("_class_name")
    parts = [v[0] for k, v in index.items() if not k.startswith("_") and isinstance(v, list)]
    # A safety checker's module is one of diffusers' own pipelines, named without its package.
    foreign = set(parts) - {None, "diffusers", "transformers", *dir(diffusers.pipelines)}
    if not isinstance(name, str) or foreign:
        raise InputError(f"{source} brings its own code, which goalreel does not run")
    stock = getattr(diffusers, name, None)
    if not (isinstance(stock, type) and issubclass(stock, DiffusionPipeline)):
        raise InputError(f"diffusers {diffusers.__version__} has no pipeline {name}, which {source} asks for")
    return PAIRED.get(name, stock)


def load_pipeline(
    source: str,
    index: dict[str, Any],
    entry: Entry,
    *,
    device: str | None = None,
    dtype: str | None = None,
    offload: Offload | None = None,
    quantize: Quantize | None = None,
    lora: str | None = None,
) -> DiffusionPipeline:
    """Load a pipeline and put it on its device, ready to be called.

    `device`: by default the GPU if there is one. `dtype`: a torch name, by default bfloat16 on a GPU and
    float32 on the CPU. `offload`: "model". `quantize`: "fp8" or "nf4". `lora`: a folder with LoRA weights
    of diffusers.

    Raises:
        InputError: weights are missing or not safetensors, or an option cannot be had here.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if device == "cpu" else "bfloat16")
    if not isinstance(weights_dtype := getattr(torch, dtype, None), torch.dtype):
        raise InputError(f"no torch dtype {dtype!r}: use bfloat16, float16 or float32")
    if offload and device == "cpu":
        raise InputError("offload needs a GPU to move the parts to: leave it out on the CPU")
    every_lora = [entry.lora] if entry.lora else []
    if lora is not None:
        if not (Path(lora) / LORA_FILE).is_file():
            raise InputError(f"{lora} holds no {LORA_FILE}: save them by diffusers' save_lora_weights")
        every_lora.append(LoraWeights(repository=lora, weight=LORA_FILE))
    for weights in every_lora:
        require_package("peft", f"the LoRA of {weights.repository}")
    options: dict[str, Any] = {"use_safetensors": True, "dtype": weights_dtype}
    if quantize:
        options["quantization_config"] = quantization(index, quantize, dtype)
    kind = pipeline_class(source, index, entry)
    try:
        with progress.without_loading_bars(source, diffusers.utils.logging, transformers_logging):
            pipeline: Any = kind.from_pretrained(source, **options)
        for weights in every_lora:
            pipeline.load_lora_weights(weights.repository, weight_name=weights.weight, use_safetensors=True)
            if quantize is None:
                pipeline.fuse_lora()
                pipeline.unload_lora_weights()
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as e:
        raise InputError(f"cannot load {source} (safetensors only): {first_line(e)}") from e
    if entry.scheduler:
        scheduler = pipeline.scheduler
        pipeline.scheduler = type(scheduler).from_config(scheduler.config, **entry.scheduler)
    # transformers 5 gives pictures two-dimensional positions only where it is told which tokens are pictures,
    # and diffusers 0.42 does not tell it: the encoder would see a picture as a line of text.
    encoder = getattr(pipeline, "text_encoder", None)
    if isinstance(encoder, transformers.Qwen2_5_VLForConditionalGeneration):
        encoder.register_forward_pre_hook(_mark_image_tokens, with_kwargs=True)
    pipeline.set_progress_bar_config(disable=True)
    try:
        if offload == "model":
            pipeline.enable_model_cpu_offload(device=device)
        else:
            pipeline.to(device)
    except torch.OutOfMemoryError as e:
        raise InputError(f"the model does not fit on {device}: use offload='model' or quantize='fp8'") from e
    except RuntimeError as e:
        raise InputError(f"cannot use the device {device!r}: {first_line(e)}") from e
    return pipeline


def quantization(index: dict[str, Any], kind: str, dtype: str) -> PipelineQuantizationConfig:
    """Configure the quantisation of the denoiser's weights and the text encoders'; raises as each part's."""
    mapping: dict[str, Any] = {}
    for part, value in index.items():
        if part in ("transformer", "unet"):
            mapping[part] = quantization_config(kind, "diffusers", dtype)
        elif part.startswith("text_encoder") and value[0] == "transformers":
            mapping[part] = quantization_config(kind, "transformers", dtype)
    return PipelineQuantizationConfig(quant_mapping=mapping)


def _mark_image_tokens(
    encoder: transformers.Qwen2_5_VLForConditionalGeneration, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if options.get("pixel_values") is not None and "mm_token_type_ids" not in options:
        pictures = options["input_ids"] == encoder.config.image_token_id
        options = {**options, "mm_token_type_ids": pictures.int()}
    return args, options
