"""Write the catalogue's table into docs/editors.md: `python scripts/editors_table.py`."""

from pathlib import Path

from goalreel.editors.catalogue import table

PAGE = Path(__file__).parents[1] / "docs" / "editors.md"
START, END = "<!-- catalogue -->\n", "<!-- /catalogue -->"


def main() -> None:
    """Replace what is between the two marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}{table()}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
