"""Replies written token by token, in batches that a row leaves when it ends and that others may join.

It calls the same functions of transformers as `generate` does, so that a reply is the same too.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.cache_utils import DynamicCache, DynamicLayer

from goalreel.chat.conversation import ChatRequest, NoReply, ReplyWork, Token, TokenReply
from goalreel.errors import BackendError

OUT_OF_MEMORY = NoReply("out of memory for this conversation alone: use smaller or fewer images")

_TOKEN_INPUTS = frozenset(
    {"input_ids", "attention_mask", "position_ids", "token_type_ids", "mm_token_type_ids"}
)
"""The inputs of a decoding step that have one row a reply."""
_PICTURE_PLACES = frozenset({"image_grid_thw", "video_grid_thw"})
"""Read once, for the positions of a prompt's pictures; transformers hands them on all the same."""


LIKELIEST = 5
"""The alternatives that are kept of each token."""


type TokenChances = tuple[list[int], list[float]]
"""Ids and probabilities: the token that was written first, then the likeliest, of which it may be one."""


def token_chances(scores: torch.Tensor, tokens: torch.Tensor) -> list[TokenChances]:
    """Return the chances of one step's `tokens` (rows, 1) and others, by the `scores` (rows, vocabulary)."""
    chances = scores.softmax(-1)
    likeliest, ids = chances.topk(min(LIKELIEST, chances.shape[-1]))
    all_ids = torch.cat([tokens, ids], -1).tolist()
    return list(zip(all_ids, torch.cat([chances.gather(1, tokens), likeliest], -1).tolist(), strict=True))


def row_tokens(tokenizer: PreTrainedTokenizerBase, steps: Sequence[TokenChances]) -> list[Token]:
    """Make the tokens of one reply, without the special ones."""
    token_ids = sorted({token for ids, _ in steps for token in ids})
    texts = dict(zip(token_ids, tokenizer.batch_decode([[i] for i in token_ids]), strict=True))
    visible = tokenizer.batch_decode([[i] for i in token_ids], skip_special_tokens=True)
    special = {i for i, text in zip(token_ids, visible, strict=True) if texts[i] and not text}
    text_steps = [(ids, chances) for ids, chances in steps if ids[0] not in special]
    pieces = _pieces(tokenizer, [ids[0] for ids, _ in text_steps])
    return [_token(piece, *step, texts) for piece, step in zip(pieces, text_steps, strict=True)]


class TextPieces:
    """Calls `on_text` with the text of a growing row of ids, without blanks at either end.

    A character of several tokens comes with its last one, and blanks with the word behind them.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], on_text: Callable[[str], None]) -> None:
        self._decode = decode
        self._on_text = on_text
        self._sent = 0
        self.restart()

    def restart(self) -> None:
        """Begin again; what was sent is not sent again."""
        self._text = ""
        self._start = self._at = 0

    def add(self, ids: Sequence[int]) -> None:
        """Send what the last of `ids` adds."""
        prefix, text = self._decode(ids[self._start : self._at]), self._decode(ids[self._start :])
        if text.endswith("\ufffd"):
            return
        self._start, self._at = self._at, len(ids)
        self._text = (self._text + text[len(prefix) :]).lstrip()
        self.finish(self._text.rstrip())

    def finish(self, text: str) -> None:
        """Send the rest of a `text`."""
        if len(text) > self._sent:
            self._on_text(text[self._sent :])
            self._sent = len(text)


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


class ReplyRow:
    """One reply as it is written; `limit` is the number of its tokens at most."""

    def __init__(self, work: ReplyWork, limit: int, decode: Callable[[Sequence[int]], str]) -> None:
        self.work = work
        self.limit = min(limit, work.request.max_tokens or limit)
        self.prompt_tokens = 0
        self.ids: list[int] = []
        self.chances: list[TokenChances] = []
        self.ended = self.answered = False
        self._decode = decode
        on_text = work.request.on_text
        self._pieces = TextPieces(decode, on_text) if on_text is not None else None

    def add(self, token: int, chances: TokenChances | None, *, last: bool) -> None:
        """Append a token; `last`: it is one that ends a reply."""
        self.ids.append(token)
        if chances is not None:
            self.chances.append(chances)
        self.ended = last or self._has_stop()
        if self._pieces is not None:
            self._pieces.add(self.ids)

    def _has_stop(self) -> bool:
        if not (stop := self.work.request.stop):
            return False
        # A token is a byte at least: the newest ones hold any text that ends with the last of them.
        newest = self.ids[-(max(len(s.encode()) for s in stop) + 8) :]
        text = self._decode(newest)
        text = text if len(newest) < len(self.ids) else text.lstrip()
        return any(s in text for s in stop)

    @property
    def written(self) -> bool:
        """True once it has its last token."""
        return self.ended or len(self.ids) >= self.limit

    def answer(self, answer: TokenReply | NoReply | BackendError) -> None:
        """Hand over the reply, the rest of its pieces first."""
        text = answer.text if isinstance(answer, TokenReply) else getattr(answer, "cut_off", None)
        if self._pieces is not None and text:
            self._pieces.finish(text)
        self.answered = True
        self.work.answer(answer)

    def restart(self) -> None:
        """Forget what was written; pieces that were sent are not sent again."""
        self.ids, self.chances, self.ended = [], [], False
        if self._pieces is not None:
            self._pieces.restart()


@dataclass(eq=False)
class LocalWork:
    """A request of one who waits in this thread, and its reply once there is one."""

    request: ChatRequest
    reply: Any = None
    abandoned: bool = False

    def answer(self, answer: TokenReply | NoReply | BackendError) -> None:
        self.reply = answer


class RecordScores(LogitsProcessor):
    """Keeps the scores of the present step as they are before temperature, top-k and top-p."""

    scores: torch.Tensor

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (rows, vocabulary) unchanged."""
        self.scores = scores
        return scores


_BY_ROW = (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, RecordScores)
"""Processors of a step's scores that look at nothing before it."""


class Lane:
    """Rows that are decoded together.

    It is a `custom_generate` of transformers: `generate` prepares the inputs and makes a lane, which reads
    the prompts. Rows leave early and others join where it `mixes`: the cache is plain, and nothing depends
    on what was written before.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        input_ids: torch.Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        **model_kwargs: Any,
    ) -> None:
        self.rows: list[ReplyRow] = []
        """Those that are not written yet."""
        self._places: list[ReplyRow] = []
        """The row of each row of the tensors."""
        self._model: Any = model
        self._ids = input_ids
        self._processors = logits_processor
        self._recorded = next(p for p in logits_processor if isinstance(p, RecordScores))
        self._sample = bool(generation_config.do_sample)
        ends = model.generation_config.eos_token_id
        self._ends = frozenset([] if ends is None else [ends] if isinstance(ends, int) else ends)
        mask = model_kwargs.get("attention_mask")
        self._prompts = [input_ids.shape[1]] * len(input_ids) if mask is None else mask.sum(1).tolist()
        causal: Any = self._model
        inputs = causal.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **model_kwargs)
        outputs = self._model(**inputs, return_dict=True)
        kwargs = {name: value for name, value in model_kwargs.items() if name not in _PICTURE_PLACES}
        self.mixes = False
        self._take(outputs, kwargs)
        self.mixes = self._can_mix()

    def seat(self, rows: Sequence[ReplyRow]) -> None:
        """Give each prompt its row."""
        self.rows, self._places = list(rows), list(rows)
        for row, length in zip(rows, self._prompts, strict=True):
            row.prompt_tokens = length

    def step(self) -> list[ReplyRow]:
        """Write one token more in each row. Those that have their last one leave, and are returned."""
        if self._logits is None:
            inputs = self._inputs()
            self._take(self._model(**inputs, return_dict=True), self._kwargs)
        scores = self._processors(self._ids, self._logits)  # pyrefly: ignore[bad-argument-type]
        self._logits = None
        drawn = torch.multinomial(scores.softmax(-1), 1) if self._sample else None
        tokens = scores.argmax(-1, keepdim=True) if drawn is None else drawn
        self._ids = torch.cat([self._ids, tokens.to(self._ids.device)], 1)
        self._add(tokens[:, 0].tolist(), tokens)
        written = [row for row in self.rows if row.written]
        self.drop(written)
        return written

    def drop(self, rows: Sequence[ReplyRow]) -> None:
        """Let rows leave; the others do not notice."""
        if not rows:
            return
        rest = [row for row in self.rows if row not in rows]
        if self.mixes and rest:
            self._select([place for place, row in enumerate(self._places) if row in rest])
        self.rows = rest  # not before: where memory runs out they all are still to be answered

    def split(self, rows: Sequence[ReplyRow]) -> "Lane":
        """Move rows to a lane of their own; this one mixes, and keeps a row or more."""
        other = copy(self)
        cache = copy(self._cache)
        cache.layers = [copy(layer) for layer in cache.layers]
        other._kwargs = self._kwargs | {"past_key_values": cache}
        other.drop([row for row in self.rows if row not in rows])
        self.drop(rows)
        return other

    def join(self, other: "Lane") -> None:
        """Take over the rows of another lane. Both mix, and have made a step."""
        width = max(self._ids.shape[1], other._ids.shape[1])
        for lane in (self, other):
            lane._widen(width)
        self._ids = torch.cat([self._ids, other._ids])
        for name, axis in self._row_inputs():
            self._kwargs[name] = torch.cat([self._kwargs[name], other._kwargs[name]], axis)
        for ours, other_layer in zip(self._cache.layers, other._cache.layers, strict=True):
            ours.keys = torch.cat([ours.keys, other_layer.keys])
            ours.values = torch.cat([ours.values, other_layer.values])
        self.rows += other.rows
        self._places += other._places

    def _take(self, outputs: Any, kwargs: dict[str, Any]) -> None:
        self._kwargs = self._model._update_model_kwargs_for_generation(outputs, kwargs)
        self._logits = outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=self._ids.device)
        for name, _ in self._row_inputs():
            if name != "attention_mask":  # of the others only the last token's are read again
                self._kwargs[name] = self._kwargs[name][..., -1:]

    def _inputs(self) -> dict[str, Any]:
        return self._model.prepare_inputs_for_generation(self._ids, next_sequence_length=1, **self._kwargs)

    def _add(self, ids: Sequence[int], tokens: torch.Tensor) -> None:
        """Append to each row its id; `tokens` (rows, 1) are the same ids."""
        chances: Sequence[TokenChances | None] = [None] * len(ids)
        if any(row.work.request.tokens for row in self.rows):
            chances = token_chances(self._recorded.scores, tokens)
        for row, token, chance in zip(self._places, ids, chances, strict=True):
            if not row.written:
                row.add(token, chance, last=token in self._ends)

    @property
    def _cache(self) -> Any:
        return self._kwargs["past_key_values"]

    def _row_inputs(self) -> list[tuple[str, int]]:
        """Names of the tensors that have a row a reply, and the axis of the rows."""
        tensors = {name: self._kwargs[name] for name in _TOKEN_INPUTS & self._kwargs.keys()}
        return [(name, tensor.dim() - 2) for name, tensor in tensors.items() if tensor is not None]

    def _can_mix(self) -> bool:
        cache = self._kwargs.get("past_key_values")
        plain = type(cache) is DynamicCache and all(type(layer) is DynamicLayer for layer in cache.layers)
        tensors = {name for name, value in self._inputs().items() if isinstance(value, torch.Tensor)}
        return (
            plain
            and tensors <= _TOKEN_INPUTS
            and self._kwargs.get("position_ids") is not None
            and all(isinstance(processor, _BY_ROW) for processor in self._processors)
        )

    def _select(self, places: Sequence[int]) -> None:
        """Keep the rows at some places, without the columns in which all of them have padding."""
        index = torch.tensor(places, device=self._ids.device)
        self._places = [self._places[place] for place in places]
        for name, axis in self._row_inputs():
            self._kwargs[name] = self._kwargs[name].index_select(axis, index)
        mask = self._kwargs.get("attention_mask")
        first = 0 if mask is None else int(mask.any(0).int().argmax())
        if mask is not None:
            self._kwargs["attention_mask"] = mask[:, first:]
        self._ids = self._ids[index, first:]
        for layer in self._cache.layers:
            rows = index.to(layer.keys.device)
            layer.keys, layer.values = layer.keys[rows, :, first:], layer.values[rows, :, first:]

    def _widen(self, width: int) -> None:
        """Put padding before all rows, up to `width` tokens."""
        more = width - self._ids.shape[1]
        if self._kwargs.get("attention_mask") is None:
            self._kwargs["attention_mask"] = torch.ones_like(self._ids)
        self._ids = pad(self._ids, (more, 0))
        self._kwargs["attention_mask"] = pad(self._kwargs["attention_mask"], (more, 0))
        for layer in self._cache.layers:
            layer.keys = pad(layer.keys, (0, 0, more, 0))
            layer.values = pad(layer.values, (0, 0, more, 0))
