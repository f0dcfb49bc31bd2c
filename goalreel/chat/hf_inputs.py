"""What `HfChat` hands to transformers: conversations in its form, and the arguments of sampling."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import PIL.Image
from jinja2 import TemplateError

from goalreel.chat.conversation import Conversation, fold_system, refuses_system
from goalreel.errors import InputError
from goalreel.image import Image

if TYPE_CHECKING:
    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin

log = logging.getLogger(__name__)


class ChatTemplate:
    """Makes of conversations what a model reads. It learns whether the template takes system text."""

    def __init__(self, model: "PreTrainedModel", processor: "ProcessorMixin", *, system_role: bool) -> None:
        self._model, self._processor, self._folds = model, processor, not system_role
        self._reserved = _reserved(processor)

    def inputs(self, batch: Sequence[Conversation]) -> "BatchFeature":
        """The tokens and pictures of conversations, padded on the left.

        Raises:
            ValueError: a conversation is too long, or its text is no Unicode or opens a turn of its own.
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
