"""How `HfChat` reads a checkpoint: weights from safetensors only, and no code of the checkpoint's own."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor
from transformers.utils import logging as transformers_logging
from transformers.utils.import_utils import is_flash_attn_2_available

from goalreel.errors import InputError, first_line
from goalreel.progress import without_loading_bars
from goalreel.torch_support import quantization_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

    from goalreel.torch_support import Quantize

log = logging.getLogger(__name__)


def load_checkpoint(
    repo_or_dir: str | Path,
    *,
    device: str,
    dtype: str | None,
    processor: str | Path | None,
    quantize: "Quantize | None",
    offload: Literal["model"] | None,
    variant: str | None,
) -> "tuple[PreTrainedModel, ProcessorMixin]":
    """Load a model, ready to answer, and its processor; the arguments are those of `HfChat.load`.

    Raises:
        InputError: as `HfChat.load`.
    """
    path = _source(repo_or_dir)
    on_gpu = device != "cpu" and torch.cuda.is_available()
    dtype = dtype or ("bfloat16" if on_gpu else "float32")
    if offload and (not on_gpu or device == "auto"):
        raise InputError("offload needs one GPU to move the model to: leave it out")
    more: dict[str, Any] = {"variant": variant} if variant else {}
    if quantize:
        more["quantization_config"] = quantization_config(quantize, "transformers", dtype)
    flash = on_gpu and dtype in ("bfloat16", "float16") and is_flash_attn_2_available()
    try:
        AutoConfig.from_pretrained(path, trust_remote_code=False)  # before the processor is to blame
        loaded_processor = _processor(path, processor)
        with without_loading_bars(str(path), transformers_logging):
            model, info = AutoModelForImageTextToText.from_pretrained(
                path,
                dtype=dtype,
                device_map="cpu" if offload else device,
                use_safetensors=True,
                trust_remote_code=False,
                attn_implementation="flash_attention_2" if flash else "sdpa",
                output_loading_info=True,  # which makes it a pair; its annotation knows the model alone
                **more,
            )
    except InputError:
        raise
    except torch.OutOfMemoryError as e:
        raise InputError(
            f"{repo_or_dir} does not fit on {device}: use ?quantize=fp8 or ?offload=model"
        ) from e
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as e:
        raise InputError(
            f"cannot load {repo_or_dir} as an image-text-to-text model: {first_line(e)[:300]}"
        ) from e
    if missing := sorted(info["missing_keys"]):  # transformers would go on with random ones
        raise InputError(f"{repo_or_dir} lacks {len(missing)} of the model's weights, {missing[0]} first")
    if processor is not None and _image_token(loaded_processor) != _image_token(model.config):
        raise InputError(f"{processor} is the processor of another model than {repo_or_dir}")
    log.info("loaded %s: %s on %s as %s", repo_or_dir, type(model).__name__, device, dtype)
    return model.eval(), loaded_processor


def _source(name: str | Path) -> Path:
    """A folder or a repository's name."""
    path = Path(name).expanduser()
    if not path.is_dir() and (path.is_absolute() or len(path.parts) != 2):
        raise InputError(f"no folder {name}; a repository is written OWNER/NAME")
    return path


def _processor(checkpoint: Path, other: str | Path | None) -> "ProcessorMixin":
    source = checkpoint if other is None else _source(other)
    try:
        return AutoProcessor.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError, ImportError) as e:
        mend = "" if other is not None else "; name one that has it, as in ?processor=OWNER/NAME"
        raise InputError(f"cannot load the processor of {source}: {first_line(e)[:300]}{mend}") from e


def _image_token(holder: object) -> int | None:
    return getattr(holder, "image_token_id", None)
