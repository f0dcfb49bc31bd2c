"""What the nano tokenizers hold as one token each: the tabletop's names and places, and the words between."""

from itertools import product

from goalreel.datasets.tabletop.lessons.grounding import COLUMNS, ROWS
from goalreel.datasets.tabletop.lessons.prompts import FIXED
from goalreel.datasets.tabletop.scene import COLOURS


def tabletop_words() -> tuple[str, ...]:
    """Objects' names, cells of the table, and how every explicit order ends."""
    names = [f"{colour} {kind}" for colour, kind in product(COLOURS, ("block", "bowl"))]
    objects = [form.format(name) for form in ("{}", " {}", ", the {}") for name in names]
    cells = [*(f" c{n}" for n in range(COLUMNS)), *(f" r{n}" for n in range(ROWS))]
    return (*objects, *cells, f", the {FIXED} as they are.")
