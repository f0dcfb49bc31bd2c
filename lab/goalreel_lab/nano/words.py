"""What the nano tokenizers hold as one token each: the tabletop's names and places, and the words between."""

from itertools import product
from typing import TYPE_CHECKING

from goalreel.tabletop.scene import COLOURS
from goalreel_lab.lessons.grounding import COLUMNS, ROWS
from goalreel_lab.lessons.prompts import FIXED

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tabletop_words() -> tuple[str, ...]:
    """List objects' names, cells of the table, and how every explicit order ends."""
    names = [f"{colour} {kind}" for colour, kind in product(COLOURS, ("block", "bowl"))]
    objects = [form.format(name) for form in ("{}", " {}", ", the {}") for name in names]
    cells = [*(f" c{n}" for n in range(COLUMNS)), *(f" r{n}" for n in range(ROWS))]
    return (*objects, *cells, f", the {FIXED} as they are.")


def token_id(tokenizer: "PreTrainedTokenizerBase", token: str) -> int:
    """Give the number of one token."""
    number = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(number, int)
    return number
