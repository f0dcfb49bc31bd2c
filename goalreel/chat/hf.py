"""A chat back end on transformers: any checkpoint `AutoModelForImageTextToText` can load, in batches.

Weights are read from safetensors only, and no code out of a checkpoint is run.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from jinja2 import TemplateError
from transformers import LogitsProcessor, LogitsProcessorList

from goalreel.chat.conversation import (
    ChatRequest,
    Conversation,
    NoReply,
    Reply,
    Token,
    TokenReply,
    Usage,
    cut_off,
    token_reply,
)
from goalreel.chat.hf_model import ChatTemplate, load_checkpoint, sampling
from goalreel.chat.world import World
from goalreel.errors import BackendError, InputError, first_line
from goalreel.torch_support import free_memory, threads_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

    from goalreel.torch_support import Quantize

log = logging.getLogger(__name__)

OUT_OF_MEMORY = NoReply("out of memory for this conversation alone: use smaller or fewer images")
LIKELIEST = 5
"""The alternatives that are kept of each token."""

type TokenChances = tuple[list[int], list[float]]
"""Ids and probabilities: the token that was written first, then the likeliest, of which it may be one."""


class HfChat:
    """A vision-language model in this process.

    Greedy unless `temperature` is above 0, or the checkpoint's own. Greedy answers do not depend on the batch
    up to the rounding of the model's dtype. Sampling draws from torch's global generator: seed that to repeat
    a run.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        processor: "ProcessorMixin",
        *,
        max_new_tokens: int = 4096,
        batch_size: int = 8,
        temperature: float | Literal["checkpoint"] = 0.0,
        top_p: float | None = None,
        top_k: int | None = None,
        system_role: bool = True,
    ) -> None:
        """
        Args:
            model: in evaluation mode, on its device.
            processor: the model's own, with a chat template; its padding side is set to left.
            max_new_tokens: where a reply is cut.
            batch_size: conversations in one call of the model; halved for good when memory runs out.
            temperature: 0 is greedy; "checkpoint" samples as the checkpoint's generation_config.json says,
                never with beams. Its repetition penalty applies with a batch_size of 1 only: the penalty
                counts the padding of shorter neighbours, so that answers would depend on the batch.
            top_p: when sampling, the probability mass to draw from; None is all, or the checkpoint's.
            top_k: when sampling, how many tokens to draw from; None is all, or the checkpoint's.
            system_role: False puts system text in front of the user's turn, as is done by itself where the
                chat template refuses that role.

        Raises:
            InputError: a number is out of range, or the processor has no chat template.
        """
        if max_new_tokens < 1 or batch_size < 1:
            raise InputError("max_new_tokens and batch_size start at 1")
        tokenizer = processor.tokenizer
        if not (processor.chat_template or tokenizer.chat_template):
            raise InputError("the checkpoint has no chat template: use an instruction-tuned one")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.padding_side = "left"
        self.model = model
        self.processor = processor
        self.batch_size = batch_size
        self._call_device: str | None = None
        """The device that computes, if the weights lie elsewhere between the calls."""
        self.template = ChatTemplate(model, processor, system_role=system_role)
        self._generation: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            "pad_token_id": tokenizer.pad_token_id,
            "num_beams": 1,  # a checkpoint that searches with beams would answer in rows of its own
            "num_return_sequences": 1,
            **sampling(temperature, top_p, top_k),
        }
        if temperature != "checkpoint" or batch_size > 1:
            self._generation["repetition_penalty"] = 1.0

    @classmethod
    def load(
        cls,
        repo_or_dir: str | Path,
        *,
        device: str | None = None,
        dtype: str | None = None,
        processor: str | Path | None = None,
        quantize: "Quantize | None" = None,
        offload: Literal["model"] | None = None,
        variant: str | None = None,
        **options: Any,
    ) -> Self:
        """Load a checkpoint from a folder or from the Hugging Face hub.

        Args:
            repo_or_dir: a folder written by `save_pretrained`, or a repository's name.
            device: "cuda", "cuda:1", "cpu", or "auto" (all GPUs); None is a GPU if there is one.
            dtype: "bfloat16", "float32", ...; None is bfloat16 on a GPU and float32 on the CPU.
            processor: a folder or a repository whose processor is used; None is the checkpoint's.
            quantize: "fp8", "int8" or "nf4": how the weights are stored (`goalreel.torch_support`).
            offload: "model" keeps the weights in the machine's memory, and on the GPU during a call only.
            variant: of the weights' files, such as "fp16".
            options: as in the constructor.

        Raises:
            InputError: transformers cannot load the checkpoint with safetensors and without its own code.
        """
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        model, loaded_processor = load_checkpoint(
            repo_or_dir,
            device=device,
            dtype=dtype,
            processor=processor,
            quantize=quantize,
            offload=offload,
            variant=variant,
        )
        chat = cls(model, loaded_processor, **options)
        chat._call_device = device if offload else None
        chat.template.world = World.of(Path(repo_or_dir).expanduser())
        return chat

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[Reply]:
        """Continue each conversation. `schema` is not enforced.

        Raises:
            BackendError: the device failed.
        """
        replies = self.answer([ChatRequest(c) for c in conversations])
        return [reply.text if isinstance(reply, TokenReply) else reply for reply in replies]

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[TokenReply | NoReply]:
        """Continue each conversation; the probabilities are the model's own, whatever it is sampled with.

        Raises:
            BackendError: the device failed.
        """
        return self.answer([ChatRequest(c, tokens=True) for c in conversations])

    def answer(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        """Answer requests, each up to its own limit.

        Raises:
            BackendError: the device failed.
        """
        replies: list[TokenReply | NoReply] = []
        with self._on_device(), threads_for([self.model]):
            while len(replies) < len(requests):
                # The size is read each time: running out of memory makes it smaller.
                replies += self._attempt(requests[len(replies) : len(replies) + self.batch_size])
        return replies

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Have the weights where the model computes.

        Raises:
            BackendError: there is no room for them.
        """
        if self._call_device is None:
            yield
            return
        home = self.model.device
        try:
            self.model.to(self._call_device)  # pyrefly: ignore[bad-argument-type]  (decorated in transformers)
            yield
        except torch.OutOfMemoryError as e:
            raise BackendError(f"the model does not fit on {self._call_device}: use ?quantize=fp8") from e
        finally:
            self.model.to(home)  # pyrefly: ignore[bad-argument-type]
            free_memory()

    def _attempt(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        """Make one call; if it fails, two calls of half the requests each, down to the one that causes it.

        Raises:
            BackendError: the device failed.
        """
        half = len(requests) // 2
        try:
            return self._write(requests)
        except torch.OutOfMemoryError:
            problem = OUT_OF_MEMORY
            self.batch_size = max(1, half)
            log.warning("out of memory: going on with batches of %d", self.batch_size)
        except (ValueError, TemplateError) as e:
            problem = NoReply(first_line(e)[:300], refused=True)
        except RuntimeError as e:
            raise BackendError(f"the model failed on {self.model.device}: {first_line(e)[:300]}") from e
        # Outside the handler, where the failed call's tensors are no longer held by the exception.
        torch.cuda.empty_cache()
        if not half:
            return [problem]
        return self._attempt(requests[:half]) + self._attempt(requests[half:])

    @torch.inference_mode()
    def _write(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        inputs = self.template.inputs([request.conversation for request in requests])
        most = self._generation["max_new_tokens"]
        limits = [min(most, request.max_tokens or most) for request in requests]
        chances = _RecordChances() if any(request.tokens for request in requests) else None
        # `generate` comes from GenerationMixin, which AutoModelForImageTextToText's models are too.
        ids: torch.Tensor = self.model.generate(  # pyrefly: ignore[not-callable]
            **inputs.to(self.model.device, self.model.dtype),
            **(self._generation | {"max_new_tokens": max(limits)}),
            logits_processor=LogitsProcessorList([] if chances is None else [chances]),
        )
        if chances is not None:
            chances.add(ids)
        new = ids[:, inputs["input_ids"].shape[1] :].tolist()
        prompts = inputs["attention_mask"].sum(1).tolist()
        ends = self.model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else {*(ends or ())}
        replies: list[TokenReply | NoReply] = []
        for row, (request, limit) in enumerate(zip(requests, limits, strict=True)):
            end = next((n for n, token in enumerate(new[row][:limit], 1) if token in ends), None)
            written = new[row][: end or limit]
            text = self.processor.decode(written, skip_special_tokens=True).strip()
            usage = Usage(prompts[row], len(written))
            if end is None:
                replies.append(cut_off(text, usage))
            elif not text:
                replies.append(NoReply("the model said nothing", usage=usage))
            else:
                steps = [step[row] for step in chances.steps[:end]] if chances and request.tokens else []
                tokens = row_tokens(self.processor.tokenizer, steps) if steps else ()
                replies.append(replace(token_reply(text, tokens), usage=usage))
        return replies


class _RecordChances(LogitsProcessor):
    """Keeps how likely each step's tokens were, by the scores before temperature, top-k and top-p."""

    def __init__(self) -> None:
        self.steps: list[list[TokenChances]] = []
        """For each step the chances of its token in each row."""
        self._scores: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (rows, vocabulary) unchanged."""
        self.add(input_ids)
        self._scores = scores
        return scores

    def add(self, ids: torch.Tensor) -> None:
        """Note the step that wrote the last of the `ids` (rows, length)."""
        if self._scores is None:
            return
        tokens, chances = ids[:, -1:].to(self._scores.device), self._scores.softmax(-1)
        likeliest, others = chances.topk(min(LIKELIEST, chances.shape[-1]))
        all_ids = torch.cat([tokens, others], -1).tolist()
        all_chances = torch.cat([chances.gather(1, tokens), likeliest], -1).tolist()
        self.steps.append(list(zip(all_ids, all_chances, strict=True)))


def row_tokens(tokenizer: "PreTrainedTokenizerBase", steps: Sequence[TokenChances]) -> list[Token]:
    """Make the tokens of one reply, without the special ones."""
    token_ids = sorted({token for ids, _ in steps for token in ids})
    texts = dict(zip(token_ids, tokenizer.batch_decode([[i] for i in token_ids]), strict=True))
    visible = tokenizer.batch_decode([[i] for i in token_ids], skip_special_tokens=True)
    special = {i for i, text in zip(token_ids, visible, strict=True) if texts[i] and not text}
    text_steps = [(ids, chances) for ids, chances in steps if ids[0] not in special]
    pieces = _pieces(tokenizer, [ids[0] for ids, _ in text_steps])
    return [_token(piece, *step, texts) for piece, step in zip(pieces, text_steps, strict=True)]


def _token(piece: str, ids: Sequence[int], probabilities: Sequence[float], texts: dict[int, str]) -> Token:
    """The sampled token has the text that it adds to the reply; tokens of one text count together."""
    by_text: dict[str, float] = {}
    for token, probability in dict(zip(reversed(ids), reversed(probabilities), strict=True)).items():
        text = piece if token == ids[0] else texts[token]
        by_text[text] = by_text.get(text, 0.0) + probability
    return Token(piece, by_text)


def _pieces(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int]) -> Iterator[str]:
    """The text that each token adds. A character of several tokens comes with its last one.

    A token is decoded together with its predecessor, as some tokenizers drop a leading blank.
    """
    start = at = 0
    for end in range(1, len(ids) + 1):
        prefix, text = tokenizer.batch_decode([list(ids[start:at]), list(ids[start:end])])
        whole = end == len(ids) or not text.endswith("\ufffd")
        yield text[len(prefix) :] if whole else ""
        if whole:
            start, at = at, end
