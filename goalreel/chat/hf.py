"""A chat back end on transformers: any checkpoint `AutoModelForImageTextToText` can load, in batches.

Weights are read from safetensors only, and no code out of a checkpoint is run.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import PIL.Image
import torch
from jinja2 import TemplateError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    BatchFeature,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProcessorMixin,
)
from transformers.utils import logging as transformers_logging
from transformers.utils.import_utils import is_flash_attn_2_available

from goalreel import files, progress
from goalreel.chat.conversation import (
    Chat,
    ChatRequest,
    Conversation,
    NoReply,
    Token,
    TokenReply,
    Usage,
    cut_off,
    fold_system,
    refuses_system,
    token_reply,
)
from goalreel.chat.places import answered
from goalreel.chat.world import World
from goalreel.errors import BackendError, InputError, first_line
from goalreel.image import Image
from goalreel.torch_support import Quantize, quantization_config, threads_for

log = logging.getLogger(__name__)

OUT_OF_MEMORY = NoReply("out of memory for this conversation alone: use smaller or fewer images")
_LIKELIEST = 5
"""The alternatives that are kept of each token."""

type TokenChances = tuple[list[int], list[float]]
"""Ids and probabilities: the token that was written first, then the likeliest, of which it may be one."""


class HfChat(Chat):
    """A vision-language model in this process.

    Greedy unless `temperature` is above 0, or the checkpoint's own. Greedy answers do not depend on the batch
    up to the rounding of the model's dtype. Sampling draws from torch's global generator: seed that to repeat
    a run.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        processor: ProcessorMixin,
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
                never with beams. Its repetition penalty, which counts padding too, applies with a batch_size
                of 1 only.
            top_p: when sampling, the probability mass to draw from; None is all, or the checkpoint's.
            top_k: when sampling, how many tokens to draw from; None is all, or the checkpoint's.

        Raises:
            InputError: the processor has no chat template, or a number is below 1.
        """
        if max_new_tokens < 1 or batch_size < 1:
            raise InputError("max_new_tokens and batch_size start at 1")
        tokenizer = processor.tokenizer
        if not (processor.chat_template or tokenizer.chat_template):
            raise InputError("the checkpoint has no chat template: use an instruction-tuned one")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        tokenizer.padding_side = "left"
        self.model, self.processor, self.batch_size = model, processor, batch_size
        self.template = ChatTemplate(model, processor)
        self._generation: dict[str, Any] = {
            "max_new_tokens": max_new_tokens,
            "pad_token_id": tokenizer.pad_token_id,
            "num_beams": 1,
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
        quantize: Quantize | None = None,
        **options: Any,
    ) -> Self:
        """Load a checkpoint from a folder or from the Hugging Face hub.

        Args:
            repo_or_dir: a folder written by `save_pretrained`, or a repository's name.
            device: "cuda", "cuda:1", "cpu", or "auto" (all GPUs); None is a GPU if there is one.
            dtype: "bfloat16", "float32", ...; None is bfloat16 on a GPU and float32 on the CPU.
            processor: a folder or a repository whose processor is used; None is the checkpoint's.
            quantize: "fp8" or "nf4": how the weights are stored (`goalreel.torch_support`).
            options: as in the constructor.

        Raises:
            InputError: transformers cannot load the checkpoint with safetensors and without its own code.
        """
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        path = files.check_folder(Path(repo_or_dir).expanduser())
        on_gpu = device != "cpu" and torch.cuda.is_available()
        dtype = dtype or ("bfloat16" if on_gpu else "float32")
        flash = on_gpu and dtype in ("bfloat16", "float16") and is_flash_attn_2_available()
        arguments: dict[str, Any] = {
            "dtype": dtype,
            "device_map": device,
            "attn_implementation": "flash_attention_2" if flash else "sdpa",
        }
        if quantize:
            arguments["quantization_config"] = quantization_config(quantize, "transformers", dtype)
        try:
            AutoConfig.from_pretrained(path, trust_remote_code=False)  # before the processor is to blame
            loaded_processor = _processor(path, processor)
            with progress.without_loading_bars(str(path), transformers_logging):
                model, info = AutoModelForImageTextToText.from_pretrained(
                    path,
                    use_safetensors=True,
                    trust_remote_code=False,
                    output_loading_info=True,  # which makes it a pair; its annotation knows the model alone
                    **arguments,
                )
        except InputError:
            raise
        except torch.OutOfMemoryError as e:
            raise InputError(f"{repo_or_dir} does not fit on {device}: use ?quantize=fp8") from e
        except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as e:
            raise InputError(
                f"cannot load {repo_or_dir} as an image-text-to-text model: {first_line(e)[:300]}"
            ) from e
        if missing := sorted(info["missing_keys"]):  # transformers would go on with random ones
            raise InputError(f"{repo_or_dir} lacks {len(missing)} of the model's weights, {missing[0]} first")
        tokens = {getattr(part, "image_token_id", None) for part in (loaded_processor, model.config)}
        if processor is not None and len(tokens) > 1:
            raise InputError(f"{processor} is the processor of another model than {repo_or_dir}")
        log.info("loaded %s: %s on %s as %s", repo_or_dir, type(model).__name__, device, dtype)
        chat = cls(model.eval(), loaded_processor, **options)
        chat.template.world = World.of(path)
        return chat

    def answer(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        """Answer requests, each up to its own limit. No `schema` is enforced.

        The probabilities are the model's own, whatever it is sampled with. A model of a world concludes about
        whole tasks as `goalreel.chat.places` says.

        Raises:
            BackendError: the device failed.
        """
        return self._answer(requests) if self.template.world is None else answered(self._answer, requests)

    def _answer(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        replies: list[TokenReply | NoReply] = []
        with threads_for([self.model]):
            while len(replies) < len(requests):  # `_attempt` may make the batches smaller
                replies += self._attempt(requests[len(replies) : len(replies) + self.batch_size])
        return replies

    def _attempt(self, requests: Sequence[ChatRequest]) -> list[TokenReply | NoReply]:
        """Make one call; if it fails, two calls of half the requests each, down to the one that causes it."""
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
        self.steps: list[list[TokenChances]] = []  # by step and row
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
        likeliest, others = chances.topk(min(_LIKELIEST, chances.shape[-1]))
        all_ids = torch.cat([tokens, others], -1).tolist()
        all_chances = torch.cat([chances.gather(1, tokens), likeliest], -1).tolist()
        self.steps.append(list(zip(all_ids, all_chances, strict=True)))


def row_tokens(tokenizer: PreTrainedTokenizerBase, steps: Sequence[TokenChances]) -> list[Token]:
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


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> Iterator[str]:
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


def _processor(checkpoint: Path, other: str | Path | None) -> ProcessorMixin:
    source = checkpoint if other is None else files.check_folder(Path(other).expanduser())
    try:
        return AutoProcessor.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError, ImportError) as e:
        mend = "" if other is not None else "; name one that has it, as in ?processor=OWNER/NAME"
        raise InputError(f"cannot load the processor of {source}: {first_line(e)[:300]}{mend}") from e


class ChatTemplate:
    """Makes of conversations what a model reads. It learns whether the template takes system text.

    With a `world` it refuses what is not of it.
    """

    def __init__(self, model: PreTrainedModel, processor: ProcessorMixin) -> None:
        self.world: World | None = None
        self._model, self._processor, self._folds = model, processor, False
        marks = [getattr(processor, name, None) for name in ("image_token", "video_token")]
        self._reserved = [t for t in (*processor.tokenizer.all_special_tokens, *marks) if t]

    def inputs(self, batch: Sequence[Conversation]) -> BatchFeature:
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

    def _apply(self, batch: Sequence[Conversation]) -> BatchFeature:
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
    if temperature == 0:
        return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if temperature == "checkpoint":
        limits = {"top_p": top_p, "top_k": top_k}
        return {name: limit for name, limit in limits.items() if limit is not None}
    return {"do_sample": True, "temperature": temperature, "top_p": top_p or 1.0, "top_k": top_k or 0}


def _content(conversation: Conversation) -> list[dict[str, Any]]:
    """A conversation as a chat template reads it."""
    return [{"role": m.role, "content": [_part(p) for p in m.parts]} for m in conversation]


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "image": PIL.Image.fromarray(part.pixels)}
