"""The templates, style and script of the report, filled in.

Everything a dataset or a model says is escaped.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from goalreel.annotator.report.cards import EpisodeCard
from goalreel.annotator.report.claim_text import display_name

_HERE = Path(__file__).parent


def templates(folder: Path) -> jinja2.Environment:
    """The HTML templates of a folder; every value in them has to be given, and is escaped."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class PageLink(NamedTuple):
    """A page of episodes: its address, and the numbers of its first and last episode."""

    name: str
    first: int
    last: int


class Pages:
    """Renders whole pages and the pieces they are made of."""

    def __init__(self, title: str, summary: Mapping[str, str], models: Mapping[str, str]) -> None:
        script = "\n" + (_HERE / "report.js").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._title = title
        self._jinja = templates(_HERE)
        values: dict[str, Any] = self._jinja.globals
        values |= {
            "title": title,
            "summary": {**summary, **{role: display_name(name) for role, name in models.items()}},
            "models": {role: name for role, name in models.items() if display_name(name) != name},
            "script": script,
            "script_hash": f"sha256-{digest}",
            "style": (_HERE / "report.css").read_text(encoding="utf-8"),
        }

    def _render(self, template: str, **values: Any) -> str:
        return self._jinja.get_template(template).render(values)

    def episode(self, card: EpisodeCard, sheet: str | None) -> str:
        """One episode in full; `sheet` is the address of its contact sheet.

        Where the page's title is its instruction, the page is about it alone and the title is its headline.
        """
        alone = card.instruction == self._title
        return self._render("episode.html.j2", card=card, sheet=sheet, alone=alone)

    def page(self, entries: list[str], first: int, last: int, previous: str | None, after: str | None) -> str:
        """Some consecutive episodes; `previous` and `after` are the neighbours' addresses."""
        return self._render(
            "page.html.j2", entries=entries, first=first, last=last, before=previous, after=after
        )

    def index(self, counts: Mapping[str, int], rows: str, pages: Sequence[PageLink]) -> str:
        """The first page, with the list of episodes: `rows` as `ReportRows.json` gives them."""
        return self._index(counts, entries=[], rows=rows, pages=pages, inline=False)

    def whole(self, counts: Mapping[str, int], entries: Sequence[str]) -> str:
        """The first page, with the episodes themselves."""
        return self._index(counts, entries=entries, rows="", pages=[], inline=True)

    def _index(self, counts: Mapping[str, int], **values: Any) -> str:
        return self._render("index.html.j2", counts=dict(counts), total=sum(counts.values()), **values)
