"""The likeliest tokens at each step of a `generate`, kept as it goes: all logits would not fit in memory."""

from collections.abc import Iterator, Sequence

import torch
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from goalreel.planners.chat.conversation import Token

LIKELIEST = 5


class Likeliest(LogitsProcessor):
    """Records the likeliest words of every step, and how likely the word was that was taken.

    Given to `generate`, it runs after a penalty of the checkpoint's, and before temperature, top-k and top-p.
    """

    def __init__(self) -> None:
        self._ids: list[torch.Tensor] = []
        self._chances: list[torch.Tensor] = []
        self._taken: list[torch.Tensor] = []
        self._last: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Change nothing: (rows, length) ids so far, (rows, words) logits -> the same logits."""
        self._take(input_ids[:, -1])
        self._last = scores.softmax(-1)
        chances, ids = self._last.topk(min(LIKELIEST, scores.shape[-1]))
        self._ids.append(ids)
        self._chances.append(chances)
        return scores

    def read(self, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Give ids and probabilities (rows, steps, words + 1) of the generated `new` (rows, steps).

        At each step the word that was taken comes first, then the likeliest, itself among them or not.
        """
        steps = new.shape[1]
        if len(self._taken) < steps:
            self._take(new[:, -1])
        taken = torch.stack(self._taken[:steps], 1)
        ids, chances = (torch.stack(part[:steps], 1) for part in (self._ids, self._chances))
        return torch.cat([new[..., None], ids], -1), torch.cat([taken[..., None], chances], -1)

    def _take(self, ids: torch.Tensor) -> None:
        if self._last is not None:
            self._taken.append(self._last.gather(1, ids[:, None])[:, 0])


def tokens_of(
    tokenizer: PreTrainedTokenizerBase, new: torch.Tensor, likeliest: Likeliest
) -> list[list[Token]]:
    """Make the tokens of each row of `new` (rows, steps), special ones left out."""
    ids, chances = (part.tolist() for part in likeliest.read(new))
    words = sorted({word for row in ids for step in row for word in step})
    texts = dict(zip(words, tokenizer.batch_decode([[word] for word in words]), strict=True))
    shown = tokenizer.batch_decode([[word] for word in words], skip_special_tokens=True)
    special = {word for word, text in zip(words, shown, strict=True) if texts[word] and not text}
    rows = []
    for row_ids, row_chances in zip(ids, chances, strict=True):
        steps = [(i, c) for i, c in zip(row_ids, row_chances, strict=True) if i[0] not in special]
        pieces = _pieces(tokenizer, [i[0] for i, _ in steps])
        rows.append([_token(piece, i, c, texts) for piece, (i, c) in zip(pieces, steps, strict=True)])
    return rows


def _token(piece: str, ids: Sequence[int], chances: Sequence[float], texts: dict[int, str]) -> Token:
    """The token that was taken is called what it adds to the reply; words of one text count together."""
    found: dict[str, float] = {}
    for word, chance in dict(zip(reversed(ids), reversed(chances), strict=True)).items():
        text = piece if word == ids[0] else texts[word]
        found[text] = found.get(text, 0.0) + chance
    return Token(piece, found)


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> Iterator[str]:
    """What each token adds to the text. A sign of several tokens comes with its last one.

    A token is decoded after the one before it, as some tokenizers drop the blank that a text begins with.
    """
    start = at = 0
    for end in range(1, len(ids) + 1):
        before, text = tokenizer.batch_decode([list(ids[start:at]), list(ids[start:end])])
        whole = end == len(ids) or not text.endswith("\ufffd")
        yield text[len(before) :] if whole else ""
        if whole:
            start, at = at, end
