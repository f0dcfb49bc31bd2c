"""What an annotation may say beside a step's words."""

from typing import Literal, get_args

from goalreel.errors import InputError

type DetailName = Literal["progress"]
DETAILS: tuple[DetailName, ...] = get_args(DetailName.__value__)


def parse_details(text: str | None) -> tuple[DetailName, ...]:
    """Read names with commas between them, in their usual order.

    >>> parse_details("progress, ")
    ('progress',)

    Raises:
        InputError: there is no such detail.
    """
    words = {word.strip() for word in (text or "").split(",")} - {""}
    if unknown := sorted(words.difference(DETAILS)):
        raise InputError(f"there is no detail {unknown[0]!r}: --details takes {', '.join(DETAILS)}")
    return tuple(name for name in DETAILS if name in words)
