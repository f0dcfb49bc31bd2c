"""The likeliest tokens of each step, and the text that each token adds."""

from collections.abc import Callable, Iterator, Sequence

import torch
from transformers import PreTrainedTokenizerBase

from goalreel.chat.conversation import Token

LIKELIEST = 5


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
