"""A chat back end on transformers: any checkpoint `AutoModelForImageTextToText` can load, in batches.

Weights are read from safetensors only, and no code out of a checkpoint is run.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from jinja2 import TemplateError
from transformers import LogitsProcessorList

from goalreel.chat.conversation import (
    ChatRequest,
    Conversation,
    Decoder,
    NoReply,
    Reply,
    ReplyWork,
    TokenReply,
    Usage,
    cut_off,
    token_reply,
)
from goalreel.chat.decoding import OUT_OF_MEMORY, Lane, LocalWork, RecordScores, ReplyRow, row_tokens
from goalreel.chat.hf_model import ChatTemplate, load_checkpoint, sampling
from goalreel.chat.world import World
from goalreel.errors import BackendError, InputError, first_line
from goalreel.progress import begin_reply
from goalreel.torch_support import free_memory, threads_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

    from goalreel.torch_support import Quantize

log = logging.getLogger(__name__)


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
        replies = self._replies([ChatRequest(c, on_text=begin_reply()) for c in conversations])
        return [reply.text if isinstance(reply, TokenReply) else reply for reply in replies]

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[TokenReply | NoReply]:
        """Continue each conversation; the probabilities are the model's own, whatever it is sampled with.

        Raises:
            BackendError: the device failed.
        """
        return self._replies([ChatRequest(c, tokens=True) for c in conversations])

    @contextmanager
    def on_device(self) -> Iterator[None]:
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

    def decoder(self) -> Decoder:
        """Make what answers many callers at once (`goalreel.chat.decoder`)."""
        from goalreel.chat.decoder import HfDecoder

        return HfDecoder(self)

    def row(self, work: ReplyWork) -> ReplyRow:
        """Begin the reply to a request."""
        return ReplyRow(work, self._generation["max_new_tokens"], self._text)

    @torch.inference_mode()
    def lane(self, rows: Sequence[ReplyRow]) -> Lane:
        """Read the rows' conversations."""
        inputs = self.template.inputs([row.work.request.conversation for row in rows])
        # `generate` comes from GenerationMixin, which AutoModelForImageTextToText's models are too.
        lane: Lane = self.model.generate(  # pyrefly: ignore[not-callable]
            **inputs.to(self.model.device, self.model.dtype),
            **self._generation,
            logits_processor=LogitsProcessorList([RecordScores()]),
            custom_generate=Lane,
        )
        lane.seat(rows)
        return lane

    @torch.inference_mode()
    def step(self, lane: Lane) -> None:
        """Write one token in each row of a lane, and answer the rows that have their last one."""
        for row in lane.step():
            row.answer(self._reply(row))

    def attempt(self, rows: Sequence[ReplyRow], write: Callable[[Sequence[ReplyRow]], None]) -> None:
        """Let `write` handle the rows; rows that fail are split, down to the one that causes it.

        Raises:
            BackendError: the device failed.
        """
        try:
            write(rows)
            return
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            rows = [row for row in rows if not row.answered]
            if len(rows) == 1:
                rows[0].answer(OUT_OF_MEMORY)
                return
            self.batch_size = max(1, len(rows) // 2)
            log.warning("out of memory: going on with batches of %d", self.batch_size)
        except (ValueError, TemplateError) as e:
            if len(rows) == 1:
                rows[0].answer(NoReply(first_line(e)[:300], refused=True))
                return
        except RuntimeError as e:
            raise self.failure(e) from e
        for row in rows:
            row.restart()
        half = len(rows) // 2
        self.attempt(rows[:half], write)
        self.attempt(rows[half:], write)

    def failure(self, error: RuntimeError) -> BackendError:
        """Describe an error of the device."""
        return BackendError(f"the model failed on {self.model.device}: {first_line(error)[:300]}")

    def _replies(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        works = [LocalWork(request) for request in requests]
        done = 0
        with self.on_device(), threads_for([self.model]):
            while done < len(works):
                rows = [self.row(work) for work in works[done : done + self.batch_size]]
                done += len(rows)
                self.attempt(rows, self._write)
        return [work.reply for work in works]

    def _write(self, rows: Sequence[ReplyRow]) -> None:
        lane = self.lane(rows)
        while lane.rows:
            self.step(lane)

    def _reply(self, row: ReplyRow) -> TokenReply | NoReply:
        text, usage = self._text(row.ids).strip(), Usage(row.prompt_tokens, len(row.ids))
        if not row.ended:
            return cut_off(text, usage)
        if not text:
            return NoReply("the model said nothing", usage=usage)
        tokens = row_tokens(self.processor.tokenizer, row.chances) if row.chances else ()
        return replace(token_reply(text, tokens), usage=usage)

    def _text(self, ids: Sequence[int]) -> str:
        return self.processor.decode(ids, skip_special_tokens=True)
