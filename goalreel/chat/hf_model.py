"""A checkpoint as `HfChat` reads it, its chat template, and the arguments of its sampling.

Weights are read from safetensors only, and no code of the checkpoint's own is run.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import PIL.Image
import torch
from jinja2 import TemplateError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor
from transformers.utils import logging as transformers_logging
from transformers.utils.import_utils import is_flash_attn_2_available

from goalreel.chat.conversation import Conversation, fold_system, refuses_system
from goalreel.chat.world import World
from goalreel.errors import InputError, first_line
from goalreel.image import Image
from goalreel.progress import without_loading_bars
from goalreel.torch_support import quantization_config

if TYPE_CHECKING:
    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin

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


class ChatTemplate:
    """Makes of conversations what a model reads. It learns whether the template takes system text.

    With a `world` it refuses what is not of it.
    """

    def __init__(self, model: "PreTrainedModel", processor: "ProcessorMixin", *, system_role: bool) -> None:
        self.world: World | None = None
        self._model, self._processor, self._folds = model, processor, not system_role
        self._reserved = _reserved(processor)

    def inputs(self, batch: Sequence[Conversation]) -> "BatchFeature":
        """The tokens and pictures of conversations, padded on the left.

        Raises:
            ValueError: a conversation is too long or not of the model's world, or its text is no Unicode or
                opens a turn of its own.
            TemplateError: the template refuses a conversation.
        """
        for conversation in batch:
            self._check(conversation)
        try:
            return self._apply([fold_system(c) for c in batch] if self._folds else batch)
        except TemplateError as e:
            if self._folds or not refuses_system(str(e)):
                raise
            log.info("the chat template refuses the system role: its text goes into the user's turn")
            self._folds = True
            return self.inputs(batch)

    def _apply(self, batch: Sequence[Conversation]) -> "BatchFeature":
        inputs: BatchFeature = self._processor.apply_chat_template(  # pyrefly: ignore[bad-assignment]  (tokenize: no str)
            [_content(c) for c in batch],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            processor_kwargs={"padding": True, "padding_side": "left", "return_tensors": "pt"},
        )
        length = inputs["input_ids"].shape[1]
        context = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if context is not None and length >= context:
            raise ValueError(
                f"the conversation has {length} tokens and the model reads {context}: use fewer images"
            )
        return inputs

    def _check(self, conversation: Conversation) -> None:
        """A person's text must not open a turn or an image of its own, and must be valid Unicode."""
        for text in (p for message in conversation for p in message.parts if isinstance(p, str)):
            text.encode()  # the tokenizer would stop the whole batch with a TypeError
            if token := next((t for t in self._reserved if t in text), None):
                raise ValueError(f"the text contains {token!r}, which this model reserves")
        if self.world is not None and (reason := self.world.refusal(conversation)):
            raise ValueError(reason)


def sampling(
    temperature: float | Literal["checkpoint"], top_p: float | None, top_k: int | None
) -> dict[str, Any]:
    """The sampling arguments of `generate`; the checkpoint decides on those that are absent."""
    if (top_p is not None and not 0 < top_p <= 1) or (top_k is not None and top_k < 0):
        raise InputError("top_p is in (0, 1], top_k starts at 0")
    as_checkpoint = temperature == "checkpoint"
    if not as_checkpoint and temperature < 0:
        raise InputError('temperature starts at 0, or is "checkpoint"')
    if not as_checkpoint and temperature == 0:
        return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    limits = {"top_p": top_p, "top_k": top_k}
    if as_checkpoint:
        return {name: limit for name, limit in limits.items() if limit is not None}
    return {"do_sample": True, "temperature": temperature, "top_p": top_p or 1.0, "top_k": top_k or 0}


def _content(conversation: Conversation) -> list[dict[str, Any]]:
    """A conversation as a chat template reads it."""
    return [{"role": m.role, "content": [_part(p) for p in m.parts]} for m in conversation]


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "image": PIL.Image.fromarray(part.pixels)}


def _reserved(processor: "ProcessorMixin") -> tuple[str, ...]:
    """The tokenizer's special tokens and the mark the processor replaces by an image."""
    marks = (getattr(processor, name, None) for name in ("image_token", "video_token"))
    tokens = dict.fromkeys((*processor.tokenizer.all_special_tokens, *marks))
    return tuple(t for t in tokens if t)
