"""Write a report: `index.html`, pages of episodes, and a contact sheet per episode.

Episodes stream through: one page of them is in memory at a time, however many there are. When one page
holds all, `index.html` alone carries everything and can be mailed.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2

from goalreel.annotator.report.cards import (
    THUMBNAIL,
    EpisodeView,
    bars,
    claim_lines,
    display_name,
    encoded,
    jpeg,
    step_cards,
    ticks,
    when,
)
from goalreel.annotator.report.sheet import contact_sheet
from goalreel.files import find
from goalreel.planners.kinematic.asked import Asked, asked
from goalreel.types import Storyboard
from goalreel.wording import end_line

_HERE = Path(__file__).parent
PAGE_EPISODES = 20
PAGE_STEPS = 40
PAGE_BYTES = 6_000_000
"""A page is closed at whichever comes first; an episode is never split."""
_OURS = ("index.html", "page-*.html", "thumbs/episode_*.jpg", "sheets/episode_*.png")


def _templates(*folders: Path) -> jinja2.Environment:
    """The HTML templates of folders; every value in them has to be given, and is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["end_line"] = end_line
    environment.filters["asked"] = _asked
    environment.filters["css"] = css
    return environment


def css(word: str) -> str:
    """Name the style of a word for what a step is worth."""
    return word.replace(" ", "-")


def _asked(board: Storyboard) -> list[Asked]:
    return asked(board.task.instruction, [step.step for step in board.steps])


class _Report:
    """A report being written: one page of episodes in memory, and a row of the list for each episode."""

    def __init__(
        self, out: Path, title: str, summary: Mapping[str, str], models: Mapping[str, str], *, sheets: bool
    ) -> None:
        script = "\n" + (_HERE / "report.js").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._out, self._title, self._sheets = out, title, sheets
        self._jinja = _templates(_HERE)
        values: dict[str, Any] = self._jinja.globals
        values |= {
            "title": title,
            "summary": {**summary, **{role: display_name(name) for role, name in models.items()}},
            "models": {role: name for role, name in models.items() if display_name(name) != name},
            "script": script,
            "script_hash": f"sha256-{digest}",
            "style": (_HERE / "report.css").read_text(encoding="utf-8"),
            "claim_lines": claim_lines,
            "when": when,
        }
        self._entries: list[str] = []
        """The episodes of the page, as `_episodes` numbers them."""
        self._episodes: list[int] = []
        self._steps = 0
        self._thumbnails: dict[str, bytes] = {}
        self._links: list[dict[str, Any]] = []
        """The pages that are written."""
        self._texts: dict[str, int] = {}
        self._rows: list[str] = []
        self._counts: Counter[str] = Counter()

    def add(self, view: EpisodeView) -> None:
        name = f"episode_{view.index:06d}"
        sheet = f"sheets/{name}.png" if self._sheets else None
        if sheet is not None:
            self._write(sheet, contact_sheet(view).png())
        first, seconds = view.storyboard.task.image, view.length / view.fps
        entry = self._render(
            "episode.html.j2",
            view=view,
            board=view.storyboard,
            first=encoded(first, "First frame"),
            steps=list(step_cards(view)),
            bars=list(bars(view)),
            ticks=list(ticks(seconds)) if view.length else [],
            sheet=sheet,
            # Where the page's title is the instruction, it is the headline too.
            alone=view.instruction == self._title,
        )
        steps = len(view.storyboard.steps)
        if self._entries and not self._fits(entry, steps):
            self._write_page(last=False)
        self._entries.append(entry)
        self._episodes.append(view.index)
        self._steps += steps
        self._counts[view.word] += 1
        if first is not None:
            self._thumbnails[f"thumbs/{name}.jpg"] = jpeg(first, THUMBNAIL)
        self._rows.append(self._row(view))

    def finish(self) -> Path:
        paged = bool(self._links)
        if paged:
            self._write_page(last=True)
        rows = json.dumps(list(self._texts), separators=(",", ":"))
        rows = f'{{"texts":{rows},"rows":[{",".join(self._rows)}]}}'
        text = self._render(
            "index.html.j2",
            counts=dict(self._counts),
            total=self._counts.total(),
            inline=not paged,
            entries=self._entries,
            rows=rows.replace("<", "\\u003c"),  # it stands in a script element
            pages=self._links,
        )
        return self._write("index.html", text)

    def _fits(self, entry: str, steps: int) -> bool:
        size = sum(map(len, self._entries)) + len(entry)
        enough = len(self._entries) < PAGE_EPISODES and self._steps + steps <= PAGE_STEPS
        return enough and size <= PAGE_BYTES

    def _row(self, view: EpisodeView) -> str:
        """The episode in the list: index, page, thumbnail, word, title, instruction, facts, bars.

        `title`, `instruction` and `facts` are indices into the texts, which are unique. `bars` is flat: hue,
        word, left and width (per cent) of each bar in turn.
        """
        facts = " · ".join(filter(None, (view.tally, view.seconds)))
        texts = [self._texts.setdefault(t, len(self._texts)) for t in (view.title, view.instruction, facts)]
        flat = [v for b in bars(view) for v in (b.hue, css(b.word), round(b.left, 2), round(b.width, 2))]
        pictured = int(view.storyboard.task.image is not None)
        row = [view.index, len(self._links) + 1, pictured, view.word, *texts, flat]
        return json.dumps(row, separators=(",", ":"))

    def _write_page(self, *, last: bool) -> None:
        number = len(self._links) + 1
        page = {"name": _page(number), "first": self._episodes[0], "last": self._episodes[-1]}
        neighbours = {
            "before": _page(number - 1) if number > 1 else None,
            "after": None if last else _page(number + 1),
        }
        self._write(page["name"], self._render("page.html.j2", entries=self._entries, **page, **neighbours))
        for name, data in self._thumbnails.items():
            self._write(name, data)
        self._links.append(page)
        self._entries, self._episodes, self._steps, self._thumbnails = [], [], 0, {}

    def _render(self, template: str, **values: Any) -> str:
        return self._jinja.get_template(template).render(values)

    def _write(self, name: str, content: str | bytes) -> Path:
        path = self._out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A dataset's text may hold lone surrogates, which have no UTF-8 form.
        path.write_bytes(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        return path


def _page(number: int) -> str:
    return f"page-{number:04d}.html"


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
        OSError: `out` cannot be written.
    """
    for pattern in _OURS:
        for stale in find(out, pattern):
            stale.unlink()
    report = _Report(out, title, summary, models, sheets=sheets)
    for view in episodes:
        report.add(view)
    return report.finish()
