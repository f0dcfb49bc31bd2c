"""The templates, style and script of the report, filled in.

Everything a dataset or a model says is escaped.
"""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from goalreel.annotator.report.cards import EpisodeCard

_HERE = Path(__file__).parent


class Pages:
    """Renders whole pages and the pieces they are made of."""

    def __init__(self, title: str, summary: Mapping[str, str]) -> None:
        script = "\n" + (_HERE / "report.js").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.globals.update(
            title=title,
            summary=dict(summary),
            script=script,
            script_hash=f"sha256-{digest}",
            style=(_HERE / "report.css").read_text(encoding="utf-8"),
        )

    def _render(self, template: str, **values: Any) -> str:
        return self._jinja.get_template(template).render(values)

    def episode(self, card: EpisodeCard, sheet: str | None) -> str:
        """One episode in full; `sheet` is the address of its contact sheet."""
        return self._render("episode.html.j2", card=card, sheet=sheet)

    def row(self, card: EpisodeCard, link: str, thumbnail: str | None) -> str:
        """One line of the list of episodes."""
        return self._render("row.html.j2", card=card, link=link, thumbnail=thumbnail)

    def page(self, entries: list[str], first: int, last: int, before: str | None, after: str | None) -> str:
        """Some consecutive episodes; `before` and `after` are the neighbours' addresses."""
        return self._render(
            "page.html.j2", entries=entries, first=first, last=last, before=before, after=after
        )

    def index(self, entries: list[str], counts: Mapping[str, int], *, inline: bool) -> str:
        """The first page: rows of the list, or with `inline` the episodes themselves."""
        return self._render("index.html.j2", entries=entries, counts=dict(counts), inline=inline)
