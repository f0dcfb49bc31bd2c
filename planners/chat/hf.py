"""A chat back end on transformers: any checkpoint `AutoModelForImageTextToText` can load, in batches.

Weights are read from safetensors only, and no code out of a checkpoint is run.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import PIL.Image
import torch
from jinja2 import TemplateError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor
from transformers.utils import logging as transformers_logging
from transformers.utils.import_utils import is_flash_attn_2_available

from goalreel.device_memory import free_memory
from goalreel.errors import BackendError, InputError
from goalreel.image import Image
from goalreel.planners.chat.conversation import Conversation, NoReply, Reply, TokenReply, cut_off
from goalreel.planners.chat.hf_tokens import TopTokens, tokens_by_row
from goalreel.planners.chat.token_probability import token_reply
from goalreel.progress import without_loading_bars
from goalreel.quantization import quantization_config
from goalreel.torch_threads import threads_for

if TYPE_CHECKING:
    from transformers import BatchFeature, PreTrainedModel, ProcessorMixin

    from goalreel.quantization import Quantize

log = logging.getLogger(__name__)

type _Generate = Callable[[Sequence[Conversation]], list[TokenReply | NoReply]]


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
        """Where the model computes, if its weights lie elsewhere between the calls."""
        self._reserved = _reserved(processor)
        self._generation: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            "pad_token_id": tokenizer.pad_token_id,
            "num_beams": 1,  # a checkpoint that searches with beams would answer in rows of its own
            "num_return_sequences": 1,
            **_sampling(temperature, top_p, top_k),
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
            quantize: "fp8", "int8" or "nf4": how the weights are stored (`goalreel.quantization`).
            offload: "model" keeps the weights in the machine's memory, and on the GPU during a call only.
            variant: of the weights' files, such as "fp16".
            options: as in the constructor.

        Raises:
            InputError: transformers cannot load the checkpoint with safetensors and without its own code.
        """
        path = _source(repo_or_dir)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
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
            raise InputError(f"cannot load {repo_or_dir} as an image-text-to-text model: {_line(e)}") from e
        if missing := sorted(info["missing_keys"]):  # transformers would go on with random ones
            raise InputError(f"{repo_or_dir} lacks {len(missing)} of the model's weights, {missing[0]} first")
        if processor is not None and _image_token(loaded_processor) != _image_token(model.config):
            raise InputError(f"{processor} is the processor of another model than {repo_or_dir}")
        log.info("loaded %s: %s on %s as %s", repo_or_dir, type(model).__name__, device, dtype)
        chat = cls(model.eval(), loaded_processor, **options)
        chat._call_device = device if offload else None
        return chat

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[Reply]:
        """Continue each conversation. `schema` is not enforced.

        Raises:
            BackendError: the device failed.
        """
        replies = self._all(conversations, self._texts)
        return [reply.text if isinstance(reply, TokenReply) else reply for reply in replies]

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[TokenReply | NoReply]:
        """Continue each conversation; the probabilities are the model's own, whatever it is sampled with.

        Raises:
            BackendError: the device failed.
        """
        return self._all(conversations, self._tokens)

    def _all(self, conversations: Sequence[Conversation], generate: _Generate) -> list[TokenReply | NoReply]:
        replies: list[TokenReply | NoReply] = []
        with self._on_device():
            while len(replies) < len(conversations):
                done = len(replies)
                replies += self._batch(conversations[done : done + self.batch_size], generate)
        return replies

    @contextmanager
    def _on_device(self) -> Iterator[None]:
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

    def _batch(self, batch: Sequence[Conversation], generate: _Generate) -> list[TokenReply | NoReply]:
        """Answer a batch; a batch that fails is split, down to the conversation that causes it."""
        try:
            return generate(batch)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(batch) == 1:
                return [NoReply("out of memory for this conversation alone: use smaller or fewer images")]
            self.batch_size = max(1, len(batch) // 2)
            log.warning("out of memory: going on with batches of %d", self.batch_size)
        except (ValueError, TemplateError) as e:
            if len(batch) == 1:
                return [NoReply(_line(e), refused=True)]
        except RuntimeError as e:
            raise BackendError(f"the model failed on {self.model.device}: {_line(e)}") from e
        half = len(batch) // 2
        return self._batch(batch[:half], generate) + self._batch(batch[half:], generate)

    def _texts(self, batch: Sequence[Conversation]) -> list[TokenReply | NoReply]:
        new = self._generate(batch)
        return self._whole(new, [TokenReply(text) for text in self._decoded(new)])

    def _tokens(self, batch: Sequence[Conversation]) -> list[TokenReply | NoReply]:
        likeliest = TopTokens()
        new = self._generate(batch, logits_processor=[likeliest])
        rows = tokens_by_row(self.processor.tokenizer, new, likeliest)
        replies = [token_reply(text, row) for text, row in zip(self._decoded(new), rows, strict=True)]
        return self._whole(new, replies)

    def _whole(self, new: torch.Tensor, replies: Sequence[TokenReply]) -> list[TokenReply | NoReply]:
        """The replies of the generated tokens `new` (rows, steps), of which some did not reach their end."""
        ends = self.model.generation_config.eos_token_id
        end_ids = torch.tensor([] if ends is None else ends, dtype=new.dtype, device=new.device)
        ended = torch.isin(new, end_ids).any(1).tolist()
        return [
            cut_off(reply.text) if not whole else reply if reply.text else NoReply("the model said nothing")
            for reply, whole in zip(replies, ended, strict=True)
        ]

    @torch.inference_mode()
    def _generate(self, batch: Sequence[Conversation], **more: Any) -> torch.Tensor:
        inputs = self._inputs(batch).to(self.model.device, self.model.dtype)
        # `generate` comes from GenerationMixin, which AutoModelForImageTextToText's models are too.
        with threads_for([self.model]):
            tokens = self.model.generate(**inputs, **self._generation, **more)  # pyrefly: ignore[not-callable]
        return tokens[:, inputs["input_ids"].shape[1] :]

    def _decoded(self, new: torch.Tensor) -> list[str]:
        return [text.strip() for text in self.processor.batch_decode(new, skip_special_tokens=True)]

    def _inputs(self, batch: Sequence[Conversation]) -> "BatchFeature":
        for conversation in batch:
            self._check(conversation)
        inputs: BatchFeature = self.processor.apply_chat_template(  # pyrefly: ignore[bad-assignment]  (tokenize: no str)
            [_content(c) for c in batch],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            processor_kwargs={"padding": True, "padding_side": "left", "return_tensors": "pt"},
        )
        length = inputs["input_ids"].shape[1]
        context = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
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
        raise InputError(f"cannot load the processor of {source}: {_line(e)}{mend}") from e


def _image_token(holder: object) -> int | None:
    return getattr(holder, "image_token_id", None)


def _sampling(
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


def _line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
