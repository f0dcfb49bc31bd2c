"""Record the likeliest tokens at each step of `generate`: all logits would not fit in memory."""

from collections.abc import Iterator, Sequence

import torch
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from goalreel.planners.chat.conversation import Token

LIKELIEST = 5


class TopTokens(LogitsProcessor):
    """Records the likeliest tokens of every step, and the probability of the token that was sampled.

    In `generate` it runs after the checkpoint's repetition penalty and before temperature, top-k and top-p.
    """

    def __init__(self) -> None:
        self._ids: list[torch.Tensor] = []
        self._probabilities: list[torch.Tensor] = []
        self._sampled: list[torch.Tensor] = []
        self._last: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the logits (rows, vocabulary) unchanged, after the tokens `input_ids` (rows, length)."""
        self._add_sampled(input_ids[:, -1])
        self._last = scores.softmax(-1)
        probabilities, ids = self._last.topk(min(LIKELIEST, scores.shape[-1]))
        self._ids.append(ids)
        self._probabilities.append(probabilities)
        return scores

    def read(self, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and probabilities (rows, steps, LIKELIEST + 1) of the generated `new` (rows, steps).

        At each step the sampled token comes first, then the likeliest ones, of which it may be one.
        """
        steps = new.shape[1]
        if len(self._sampled) < steps:
            self._add_sampled(new[:, -1])
        sampled = torch.stack(self._sampled[:steps], 1)
        ids, probabilities = (torch.stack(part[:steps], 1) for part in (self._ids, self._probabilities))
        return torch.cat([new[..., None], ids], -1), torch.cat([sampled[..., None], probabilities], -1)

    def _add_sampled(self, ids: torch.Tensor) -> None:
        if self._last is not None:
            self._sampled.append(self._last.gather(1, ids[:, None])[:, 0])


def tokens_by_row(
    tokenizer: PreTrainedTokenizerBase, new: torch.Tensor, likeliest: TopTokens
) -> list[list[Token]]:
    """Make the tokens of each row of `new` (rows, steps), without the special ones."""
    ids, probabilities = (part.tolist() for part in likeliest.read(new))
    token_ids = sorted({token for row in ids for step in row for token in step})
    texts = dict(zip(token_ids, tokenizer.batch_decode([[i] for i in token_ids]), strict=True))
    visible = tokenizer.batch_decode([[i] for i in token_ids], skip_special_tokens=True)
    special = {i for i, text in zip(token_ids, visible, strict=True) if texts[i] and not text}
    rows = []
    for row_ids, row_chances in zip(ids, probabilities, strict=True):
        steps = [(i, c) for i, c in zip(row_ids, row_chances, strict=True) if i[0] not in special]
        pieces = _pieces(tokenizer, [i[0] for i, _ in steps])
        rows.append([_token(piece, i, c, texts) for piece, (i, c) in zip(pieces, steps, strict=True)])
    return rows


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
