"""How sure a model was of one word of its reply, from the probabilities of the reply's tokens."""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

from goalreel.chat.conversation import Token, TokenReply

YES, NO = ("true", "yes"), ("false", "no")


def token_reply(text: str, tokens: Sequence[Token]) -> TokenReply:
    """Make a reply of its text and its tokens, cut to the text; without tokens if they do not contain it.

    >>> [t.text for t in token_reply("yes", [Token(" yes", {" yes": 1.0}), Token("<end>", {})]).tokens]
    ['yes']
    """
    whole = "".join(t.text for t in tokens)
    first = whole.rfind(text)
    if first < 0 or not tokens:
        return TokenReply(text)
    ends = accumulate(len(t.text) for t in tokens)
    cut = [_cut(t, end, first, first + len(text)) for t, end in zip(tokens, ends, strict=True)]
    return TokenReply(text, tuple(t for t in cut if t is not None))


def _cut(token: Token, end: int, first: int, last: int) -> Token | None:
    """The part of a token that lies within [first, last), where it ends at `end`; None without one."""
    start = end - len(token.text)
    if start >= last or end < first or (token.text and end == first):
        return None
    text = token.text[max(0, first - start) : last - start]
    return token if text == token.text else Token(text, _renamed(token, text))


def _renamed(token: Token, text: str) -> Mapping[str, float]:
    """The token's alternatives, with its new text for itself."""
    probabilities: dict[str, float] = {}
    for other, probability in token.alternatives.items():
        name = text if other == token.text else other
        probabilities[name] = probabilities.get(name, 0.0) + probability
    return probabilities


def probability_of_yes(reply: TokenReply, key: str, *, value: bool) -> float | None:
    """Compute P(yes) / (P(yes) + P(no)) where the value of `key` begins for the last time in a reply.

    All alternatives count that begin a yes or a no there; a token may also contain the key, or much more.

    Args:
        reply: its text is JSON, or close to it.
        key: the key of a yes or no.
        value: the value as the parser read it.

    Returns:
        0-1; None without tokens, where the text seems to give another value, where the token has no
        alternatives, or where no alternative begins a yes or a no.
    """
    place = re.compile(rf"""[{{,]\s*["']?{re.escape(key)}["']?\s*:[\s"']*(\w+)""")
    matches = list(place.finditer(reply.text))
    if not matches or _truth(matches[-1][1]) is not value:
        return None
    target, start = matches[-1].start(1), 0
    for token in reply.tokens:
        if start + len(token.text) > target:
            return _share(reply.text[:start], token, place)
        start += len(token.text)
    return None


def _share(prefix: str, token: Token, place: re.Pattern[str]) -> float | None:
    probabilities = {True: 0.0, False: 0.0}
    if len(token.alternatives) < 2:  # of a server without alternatives, the token would be certain
        return None
    for other, probability in token.alternatives.items():
        values = [m[1] for m in place.finditer(prefix + other) if m.start(1) >= len(prefix)]
        truth = _truth(values[-1]) if values else None
        if truth is not None:
            probabilities[truth] += probability
    total = sum(probabilities.values())
    return probabilities[True] / total if total > 0 else None


def _truth(word: str) -> bool | None:
    """The truth value that a word, or its beginning, stands for; None for neither."""
    word = word.casefold()
    if any(yes.startswith(word) for yes in YES):
        return True
    return False if any(no.startswith(word) for no in NO) else None
