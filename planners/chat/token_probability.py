"""What the tokens of a reply tell beside its text: how sure the model was of one word of it."""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

from goalreel.planners.chat.conversation import Spoken, Token

YES, NO = ("true", "yes"), ("false", "no")


def spoken(text: str, tokens: Sequence[Token]) -> Spoken:
    """Make a reply of its text and its tokens, cut to the text; without tokens where they do not hold it.

    >>> [t.text for t in spoken("yes", [Token(" yes", {" yes": 1.0}), Token("<end>", {})]).tokens]
    ['yes']
    """
    whole = "".join(t.text for t in tokens)
    first = whole.rfind(text)
    if first < 0 or not tokens:
        return Spoken(text)
    ends = accumulate(len(t.text) for t in tokens)
    cut = [_cut(t, end, first, first + len(text)) for t, end in zip(tokens, ends, strict=True)]
    return Spoken(text, tuple(t for t in cut if t is not None))


def _cut(token: Token, end: int, first: int, last: int) -> Token | None:
    """What a token that ends at `end` has within [first, last); None where that is nothing."""
    begin = end - len(token.text)
    if begin >= last or end < first or (token.text and end == first):
        return None
    text = token.text[max(0, first - begin) : last - begin]
    return token if text == token.text else Token(text, _renamed(token, text))


def _renamed(token: Token, text: str) -> Mapping[str, float]:
    """The token's alternatives, itself under its new text."""
    chances: dict[str, float] = {}
    for other, chance in token.alternatives.items():
        name = text if other == token.text else other
        chances[name] = chances.get(name, 0.0) + chance
    return chances


def chance_of_yes(reply: Spoken, key: str, said: bool) -> float | None:
    """Compute P(yes) / (P(yes) + P(no)) where the value of `key` begins, the last time that a reply has it.

    All alternatives count that begin a yes or a no there; a token may also hold the key, or much more.

    Args:
        reply: holds JSON, or what stands for it.
        key: of a yes or no.
        said: the value as it was read; None is the answer where the text seems to say another.

    Returns:
        0-1; None without tokens, where the token there has no alternative to tell of, or where none begins a
        yes or a no.
    """
    place = re.compile(rf"""[{{,]\s*["']?{re.escape(key)}["']?\s*:[\s"']*(\w+)""")
    found = list(place.finditer(reply.text))
    if not found or _truth(found[-1][1]) is not said:
        return None
    value, start = found[-1].start(1), 0
    for token in reply.tokens:
        if start + len(token.text) > value:
            return _share(reply.text[:start], token, place)
        start += len(token.text)
    return None


def _share(before: str, token: Token, place: re.Pattern[str]) -> float | None:
    chances = {True: 0.0, False: 0.0}
    if len(token.alternatives) < 2:  # a server that gives none: its word alone would be certain
        return None
    for other, chance in token.alternatives.items():
        words = [m[1] for m in place.finditer(before + other) if m.start(1) >= len(before)]
        truth = _truth(words[-1]) if words else None
        if truth is not None:
            chances[truth] += chance
    total = sum(chances.values())
    return chances[True] / total if total > 0 else None


def _truth(word: str) -> bool | None:
    """What a word, or its beginning, says; None for neither."""
    word = word.casefold()
    if any(yes.startswith(word) for yes in YES):
        return True
    return False if any(no.startswith(word) for no in NO) else None
