"""The list of episodes as data: 100,000 lines of HTML take a browser minutes, as JSON a second.

The script of the page makes the few lines on show out of it, as text alone.
"""

import json

from goalreel.annotator.report.cards import EpisodeCard


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
