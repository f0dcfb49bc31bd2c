"""What `HfChat` hands to transformers: conversations in its form, and the arguments of sampling."""

from typing import TYPE_CHECKING, Any, Literal

import PIL.Image

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.planners.chat.conversation import Conversation

if TYPE_CHECKING:
    from transformers import ProcessorMixin


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


def content(conversation: Conversation) -> list[dict[str, Any]]:
    """A conversation as a chat template reads it."""
    return [{"role": m.role, "content": [_part(p) for p in m.parts]} for m in conversation]


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "image": PIL.Image.fromarray(part.pixels)}


def reserved(processor: "ProcessorMixin") -> tuple[str, ...]:
    """The tokenizer's special tokens and the mark the processor replaces by an image."""
    marks = (getattr(processor, name, None) for name in ("image_token", "video_token"))
    tokens = dict.fromkeys((*processor.tokenizer.all_special_tokens, *marks))
    return tuple(t for t in tokens if t)
