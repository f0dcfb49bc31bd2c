"""All episodes of a dataset under review, as the list shows them: a row each, kept in memory.

It is read once, when the page is started; from then on each change made here brings its row up to date.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal, get_args

from goalreel.annotator.review.priority import Doubt, EpisodeFacts, doubts, facts
from goalreel.datasets.corrections.events import GiveVerdict, Opinion
from goalreel.datasets.corrections.replay import standing
from goalreel.datasets.corrections.reviews import Reviewed, Reviews
from goalreel.progress import OnProgress
from goalreel.types import Storyboard

type QueueOrder = Literal["doubt", "index"]
type VerdictFilter = Literal["all", "unreviewed", "accept", "reject", "unsure"]
BREAK = timedelta(minutes=10)
"""Who says nothing for longer has done something else."""
NAMES = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """What is asked for of the list: its order, whose verdict, and words that must be there."""

    order: QueueOrder = "doubt"
    shown: VerdictFilter = "all"
    text: str = ""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """An episode in the list."""

    episode: int
    instruction: str
    frames: int
    names: tuple[str, ...]
    """Of its steps as they are now."""
    status: str
    """The worst of its steps, as the models left them."""
    doubt: Doubt
    verdict: Opinion | None = None
    by: str | None = None
    judged: datetime | None = None

    def matches(self, words: Sequence[str]) -> bool:
        """Whether each of the words, in lower case, is in what the list shows of it."""
        if not words:
            return True
        parts = (str(self.episode), self.instruction, *self.doubt.reasons, *self.names, self.by or "")
        text = " ".join(parts).lower()
        return all(word in text for word in words)


class ReviewQueue:
    """The rows, in either order. Made by `read`; safe to ask from several threads."""

    def __init__(self, rows: Sequence[QueueRow]) -> None:
        self._rows = {row.episode: row for row in sorted(rows, key=lambda row: row.episode)}
        by_doubt = sorted(self._rows.values(), key=lambda row: (-row.doubt.value, row.episode))
        self._orders: dict[QueueOrder, list[int]] = {
            "doubt": [row.episode for row in by_doubt],
            "index": list(self._rows),
        }
        self._lock = threading.Lock()

    @classmethod
    def read(
        cls,
        reviews: Reviews,
        lengths: dict[int, int],
        progress: OnProgress,
        unmoved: Callable[[int, Storyboard], int] = lambda episode, board: 0,
    ) -> "ReviewQueue":
        """Read the records of the episodes of `lengths` (episode -> frames), and what people said of them.

        `unmoved` tells how many of an episode's boundaries have no motion near them.

        Raises:
            DatasetError: a record or a log is damaged.
        """
        found: dict[int, EpisodeFacts] = {}
        rows: list[QueueRow] = []
        said = set(reviews.episodes())
        for done, (episode, frames) in enumerate(lengths.items(), start=1):
            board = reviews.records.original(episode)
            found[episode] = facts(board, unmoved(episode, board))
            names = tuple(step.step.name for step in board.steps)
            row = QueueRow(episode, board.task.instruction, frames, names, _status(board), Doubt())
            rows.append(_row(row, reviews.look(episode, frames)) if episode in said else row)
            progress("read", done, len(lengths))
        judged = doubts(found)
        return cls([replace(row, doubt=judged[row.episode]) for row in rows])

    def __contains__(self, episode: object) -> bool:
        return episode in self._rows

    def __getitem__(self, episode: int) -> QueueRow:
        return self._rows[episode]

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, episode: int, reviewed: Reviewed) -> None:
        """Bring a row up to date with its episode."""
        with self._lock:
            self._rows[episode] = _row(self._rows[episode], reviewed)

    def select(self, listed: Listed) -> list[QueueRow]:
        """The rows that are asked for, in order."""
        words = listed.text.lower().split()
        with self._lock:
            rows = [self._rows[episode] for episode in self._orders[listed.order]]
        return [row for row in rows if _is_shown(row, listed.shown) and row.matches(words)]

    def beside(self, episode: int, listed: Listed) -> tuple[int | None, int | None]:
        """The episode before it, and the next one that nobody has reviewed, in what is asked for.

        After the last one the queue begins anew.
        """
        with self._lock:
            place = {other: at for at, other in enumerate(self._orders[listed.order])}
        rows = [row for row in self.select(listed) if row.episode != episode]
        before = [row for row in rows if place[row.episode] < place[episode]]
        behind = [row for row in rows if place[row.episode] > place[episode]]
        following = (row.episode for row in (*behind, *before) if row.verdict is None)
        return before[-1].episode if before else None, next(following, None)

    def names(self) -> list[str]:
        """The step names of the dataset, the most frequent first, at most NAMES."""
        with self._lock:
            found = Counter(name for row in self._rows.values() for name in row.names)
        return [name for name, _ in found.most_common(NAMES)]

    def progress(self) -> tuple[int, float | None]:
        """Episodes with a verdict, and how many an hour of late; None where nothing tells it."""
        with self._lock:
            times = [row.judged for row in self._rows.values() if row.judged is not None]
        return len(times), pace(times)


def pace(times: Sequence[datetime]) -> float | None:
    """Verdicts an hour since the last long break; None for less than two."""
    latest = sorted(times)
    for at in range(len(latest) - 1, 0, -1):
        if latest[at] - latest[at - 1] > BREAK:
            latest = latest[at:]
            break
    worked = sum((after - before for before, after in pairwise(latest)), timedelta())
    return (len(latest) - 1) / (worked / timedelta(hours=1)) if worked else None


def _row(row: QueueRow, reviewed: Reviewed) -> QueueRow:
    review, (done, _) = reviewed.review, standing(reviewed.entries)
    said = [entry.at for entry in done if isinstance(entry.change, GiveVerdict)]
    return replace(
        row,
        names=tuple(step.step.name for step in review.steps),
        verdict=review.verdict,
        by=review.by,
        judged=said[-1] if review.verdict is not None and said else None,
    )


def _is_shown(row: QueueRow, shown: VerdictFilter) -> bool:
    if shown == "unreviewed":
        return row.verdict is None
    return row.verdict == shown if shown in get_args(Opinion.__value__) else True


def _status(board: Storyboard) -> str:
    if board.failure is not None:
        return "failed"
    statuses = {step.status for step in board.steps}
    return next((s for s in ("failed", "unverified", "skipped", "verified") if s in statuses), "text")
