"""Write a report: `index.html`, pages of episodes, and a contact sheet per episode.

Episodes stream through: one page of them is in memory at a time, however many there are. When one page
holds all, `index.html` alone carries everything and can be mailed.
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2

from goalreel import files, wording
from goalreel.annotator.report.cards import (
    THUMBNAIL,
    EpisodeView,
    bars,
    claim_lines,
    encoded,
    jpeg,
    late,
    step_cards,
    ticks,
    when,
)
from goalreel.annotator.report.film import write_films
from goalreel.critics.examination import word
from goalreel.planners.kinematic.naming import asked

_HERE = Path(__file__).parent
PAGE_EPISODES, PAGE_BYTES = 20, 6_000_000
"""A page is closed at whichever comes first; an episode is never split."""
TASKS = 12
"""Instructions in the table of an index, those of most episodes."""


def _css(word: str) -> str:
    return word.replace(" ", "-")


def _range(values: Sequence[float], unit: str = "") -> str:
    """Write the least and the most of values, as `3 to 5`."""
    ends = dict.fromkeys(f"{end:.3g}" for end in (min(values), max(values)))
    return f"{' to '.join(ends)}{unit}"


@dataclass(slots=True)
class _Shape:
    """Numbers of the episodes of an instruction, or of all."""

    steps: list[int] = field(default_factory=list)
    """The number of steps of each."""
    seconds: list[float] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)
    """Steps by what they are worth."""
    frames: int = 0
    named: int = 0

    def add(self, view: EpisodeView) -> None:
        steps = view.storyboard.steps
        self.steps.append(len(steps))
        self.seconds.append(view.length / view.fps)
        self.words.update(word(step, view.examination) for step in steps)
        self.words.update(["not found in the recording"] * sum(step.unaligned for step in steps))
        self.frames += view.length
        named = (s for s in steps if s.usable and not s.in_doubt and s.step.outcome != "failed")
        self.named += sum(s.segment.end - s.segment.start for s in named if s.segment)

    @property
    def share(self) -> float:
        """Share of the frames that get words."""
        return self.named / self.frames if self.frames else 0.0


class _Report:
    """A report being written: one page of episodes in memory, and a row of the list for each episode."""

    def __init__(self, out: Path, title: str, *, films: bool, **values: Mapping[str, str]) -> None:
        self._out, self._title, self._films = out, title, films
        script = "\n" + (_HERE / "report.js").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self._jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.filters |= {"end_line": wording.end_line, "css": _css, "range": _range}
        shared: dict[str, Any] = {
            "title": title,
            "script": script,
            "script_hash": f"sha256-{digest}",
            "style": (_HERE / "report.css").read_text(encoding="utf-8"),
            "claim_lines": claim_lines,
            "when": when,
            "late": late,
        }
        self._jinja.globals.update(shared, **values)
        self._entries: dict[int, str] = {}
        """The episodes of the page, by number."""
        self._thumbnails: dict[str, bytes] = {}
        self._pages = 0
        """Pages that are written."""
        self._rows: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()
        """Episodes by the words of their steps."""
        self._whole = _Shape()
        self._tasks: dict[str, _Shape] = {}

    def add(self, view: EpisodeView) -> None:
        board, first = view.storyboard, view.storyboard.task.image
        words = sorted({view.word, *(word(step, view.examination) for step in board.steps)})
        films = write_films(view, self._out) if self._films else {}
        entry = self._render(
            "episode.html.j2",
            view=view,
            board=board,
            asked=asked(board.task.instruction, [step.step for step in board.steps], board.task.done),
            words=" ".join(words),
            first=encoded(first, "First frame"),
            steps=list(step_cards(view)),
            bars=list(bars(view)),
            ticks=list(ticks(view.length / view.fps)) if view.length else [],
            files={kind: path.name for kind, path in films.items()},
            # Where the page's title is the instruction, it is the headline too.
            alone=view.instruction == self._title,
        )
        size = sum(map(len, self._entries.values())) + len(entry)
        if self._entries and (len(self._entries) >= PAGE_EPISODES or size > PAGE_BYTES):
            self._write_page(last=False)
        self._entries[view.index] = entry
        self._counts.update(words)
        for shape in (self._whole, self._tasks.setdefault(view.instruction, _Shape())):
            shape.add(view)
        if first is not None:
            self._thumbnails[f"thumbs/episode_{view.index:06d}.jpg"] = jpeg(first, THUMBNAIL)
        self._rows.append(
            {
                "episode": view.index,
                "page": self._pages + 1,
                "pictured": first is not None,
                "word": view.word,
                "title": view.title,
                "instruction": view.instruction,
                "facts": " · ".join(filter(None, (view.tally, view.seconds))),
                "bars": [[b.hue, _css(b.word), round(b.left, 2), round(b.width, 2)] for b in bars(view)],
                "words": " ".join(words),
            }
        )

    def finish(self) -> Path:
        paged = self._pages > 0
        if paged:
            self._write_page(last=True)
        rows = json.dumps(self._rows, separators=(",", ":"))
        tasks = sorted(self._tasks.items(), key=lambda task: -len(task[1].steps))
        shape = [("", self._whole), *(tasks[:TASKS] if len(tasks) > 1 else ())]
        text = self._render(
            "index.html.j2",
            counts=dict(self._counts),
            total=len(self._rows),
            whole=self._whole,
            shape=shape if len(self._rows) > 1 and self._whole.frames else [],
            more=max(0, len(tasks) - TASKS),
            inline=not paged,
            entries=self._entries,
            rows=rows.replace("<", "\\u003c"),  # it stands in a script element
        )
        return self._write("index.html", text)

    def _write_page(self, *, last: bool) -> None:
        number = self._pages = self._pages + 1
        values = {"number": number, "last": last, "entries": self._entries}
        self._write(f"page-{number:04d}.html", self._render("page.html.j2", **values))
        for name, data in self._thumbnails.items():
            self._write(name, data)
        self._entries, self._thumbnails = {}, {}

    def _render(self, template: str, **values: Any) -> str:
        return self._jinja.get_template(template).render(values)

    def _write(self, name: str, content: str | bytes) -> Path:
        # A dataset's text may hold lone surrogates, which have no UTF-8 form.
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        files.write_bytes(self._out / name, data, durable=False)
        return self._out / name


def write_report(
    episodes: Iterable[EpisodeView],
    out: Path,
    *,
    title: str,
    summary: Mapping[str, str],
    about: Mapping[str, str] = MappingProxyType({}),
    films: bool = False,
) -> Path:
    """Write the report of `episodes` into the folder `out` and return its `index.html`.

    A report written there before is replaced; other files in `out` are left alone. `summary` is shown
    as names and values at the top, and `about`, such as the models, at the end. With `films` each
    episode is also a contact sheet, a GIF and a film, named after its task.

    Raises:
        OSError: `out` cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    for pattern in ("index.html", "page-*.html", "thumbs/episode_*.jpg"):
        for stale in files.find(out, pattern):
            stale.unlink()
    report = _Report(out, title, films=films, summary=summary, about=about)
    for view in episodes:
        report.add(view)
    return report.finish()
