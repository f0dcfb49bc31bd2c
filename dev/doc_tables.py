"""Write the tables of docs/reference/editors.md and docs/how-to/models.md: `python dev/doc_tables.py`."""

from collections.abc import Callable
from pathlib import Path

from goalreel.editors import catalogue
from goalreel.models import table

DOCS = Path(__file__).parents[1] / "docs"
TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "reference/editors.md": ("catalogue", catalogue.table),
    "how-to/models.md": ("names", table.table),
}
"""Page -> the name of the marks around its table, and what makes it."""


def main() -> None:
    """Replace what is between the two marks of each page."""
    for page, (name, make_table) in TABLES.items():
        start_text, start, rest = (DOCS / page).read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        if not (start and end):
            raise ValueError(f"{page} lacks the marks around its table")
        (DOCS / page).write_text(f"{start_text}{start}{make_table()}{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
