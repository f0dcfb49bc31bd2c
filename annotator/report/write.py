"""Write a report: `index.html`, pages of episodes, and a contact sheet per episode.

Episodes stream through: one page of them is in memory at a time, however many there are. When one page
holds all, `index.html` alone carries everything and can be mailed.
"""

import base64
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jinja2

from goalreel.annotator.report.cards import (
    THUMBNAIL,
    EpisodeCard,
    EpisodeView,
    display_name,
    episode_card,
    jpeg,
)
from goalreel.annotator.report.sheet import contact_sheet

_HERE = Path(__file__).parent
logger = logging.getLogger(__name__)
PAGE_EPISODES = 20
PAGE_STEPS = 40
PAGE_BYTES = 6_000_000
"""A page is closed at whichever comes first; an episode is never split."""
_OURS = ("index.html", "page-*.html", "thumbs/episode_*.jpg", "sheets/episode_*.png")


class ReportRows:
    """Texts, and a row for each episode: index, page, thumbnail, status, title, instruction, facts, bars.

    `title`, `instruction` and `facts` are indices into the texts, which are unique. `bars` is flat: hue,
    status, left and width (per cent) of each bar in turn.
    """

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._rows: list[str] = []

    def add(self, card: EpisodeCard, page: int, *, thumbnail: bool) -> None:
        """Add the episode on page number `page`."""
        facts = " · ".join(filter(None, (card.tally, card.seconds)))
        texts = [self._text(text) for text in (card.title, card.instruction, facts)]
        bars = [v for b in card.bars for v in (b.hue, b.status, round(b.left, 2), round(b.width, 2))]
        row = [card.index, page, int(thumbnail), card.status, *texts, bars]
        self._rows.append(json.dumps(row, separators=(",", ":")))

    def json(self) -> str:
        """Encode texts and rows, safe inside a script element."""
        texts = json.dumps(list(self._texts), separators=(",", ":"))
        return f'{{"texts":{texts},"rows":[{",".join(self._rows)}]}}'.replace("<", "\\u003c")

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


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


@dataclass(slots=True)
class _Page:
    number: int
    entries: list[str] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    steps: int = 0
    thumbnails: dict[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"page-{self.number:04d}.html"

    def fits(self, entry: str, steps: int) -> bool:
        if not self.entries:
            return True
        size = sum(map(len, self.entries)) + len(entry)
        return len(self.entries) < PAGE_EPISODES and self.steps + steps <= PAGE_STEPS and size <= PAGE_BYTES


class _Report:
    """One report being written."""

    def __init__(self, out: Path, pages: Pages, *, sheets: bool) -> None:
        self.out, self.pages, self.sheets = out, pages, sheets
        self.page = _Page(1)
        self.rows = ReportRows()
        self.written: list[PageLink] = []
        self.counts: Counter[str] = Counter()
        self.seen: set[int] = set()

    def add(self, view: EpisodeView) -> None:
        if view.index in self.seen:
            raise ValueError(f"episode {view.index} came twice: a report shows each once")
        self.seen.add(view.index)
        name = f"episode_{view.index:06d}"
        sheet = f"sheets/{name}.png" if self.sheets else None
        if sheet is not None:
            self._write(sheet, contact_sheet(view).png())
        card = episode_card(view)
        entry = self.pages.episode(card, sheet)
        if not self.page.fits(entry, len(card.steps)):
            self._write_page(last=False)
            self.page = _Page(self.page.number + 1)
        self.page.entries.append(entry)
        self.page.indices.append(view.index)
        self.page.steps += len(card.steps)
        self.counts[view.status] += 1
        if (first := view.storyboard.task.image) is not None:
            self.page.thumbnails[f"thumbs/{name}.jpg"] = jpeg(first, THUMBNAIL)
        self.rows.add(card, self.page.number, thumbnail=first is not None)

    def finish(self) -> Path:
        if self.page.number == 1:
            text = self.pages.whole(self.counts, self.page.entries)
        else:
            self._write_page(last=True)
            text = self.pages.index(self.counts, self.rows.json(), self.written)
        return self._write("index.html", _utf8(text))

    def _write_page(self, *, last: bool) -> None:
        page = self.page
        previous = _Page(page.number - 1).name if page.number > 1 else None
        after = None if last else _Page(page.number + 1).name
        text = self.pages.page(page.entries, page.indices[0], page.indices[-1], previous, after)
        self._write(page.name, _utf8(text))
        self.written.append(PageLink(page.name, page.indices[0], page.indices[-1]))
        for name, data in page.thumbnails.items():
            self._write(name, data)
        logger.info("wrote %s: episodes %d to %d", page.name, page.indices[0], page.indices[-1])

    def _write(self, name: str, data: bytes) -> Path:
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


def _utf8(text: str) -> bytes:
    # A dataset's text may hold lone surrogates, which have no UTF-8 form.
    return text.encode("utf-8", "replace")


def write_report(
    episodes: Iterable[EpisodeView],
    out: Path,
    *,
    title: str,
    summary: Mapping[str, str],
    models: Mapping[str, str] = MappingProxyType({}),
    sheets: bool = True,
) -> Path:
    """Write the report of `episodes` into the folder `out` and return its `index.html`.

    A report written there before is replaced; other files in `out` are left alone. `summary` is shown
    as names and values at the top, and `models` (role -> full name) with short names, the full ones on
    demand. Without `sheets` no contact sheets (`sheets/episode_000003.png`) are
    written, which takes most of the time of a large report.

    Raises:
        ValueError: an episode index came twice.
        OSError: `out` cannot be written.
    """
    for pattern in _OURS:
        for stale in out.glob(pattern):
            stale.unlink()
    report = _Report(out, Pages(title, summary, models), sheets=sheets)
    for view in episodes:
        report.add(view)
    return report.finish()
