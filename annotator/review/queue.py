"""The list of all episodes of a dataset under review, in memory, and the order in which to review them.

It is read once, at the start of the page; from then on each change updates its row. Episodes stand by the
doubt about what the models wrote: a rejected picture, a low probability, a boundary without a change in the
motion, a step unlike the rest of the dataset. Verdicts of people do not change it, so that the order stays
the same during a review.
"""

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from goalreel.datasets.corrections.events import GiveVerdict, Opinion
from goalreel.datasets.corrections.reviews import Reviewed, Reviews
from goalreel.progress import OnProgress
from goalreel.settings import Frozen
from goalreel.types import Storyboard, StoryboardStep

BREAK = timedelta(minutes=10)
"""A longer time without a verdict is a break, which does not count as work."""
NAMES = 200
ENOUGH = 8
"""A name with fewer lengths has no unusual ones."""
UNUSUAL = 3.5
"""A length is unusual if its logarithm deviates by so many times the typical deviation."""
SURE = 0.9
"""The Critic is sure at this probability or above."""
_MIN_DEVIATION = 0.1
"""The least typical deviation: a robot that repeats itself to the frame has hardly any."""


class EpisodeFacts(NamedTuple):
    """The reasons for doubt about one episode."""

    claims: tuple[tuple[float, str], ...]
    """The weight, 0-1, and the words of each reason in the episode itself."""
    lengths: tuple[tuple[str, int], ...]
    """Name and number of frames of each step with a segment."""


class Priority(NamedTuple):
    """The doubt about an episode, 0-1, and the reasons for it, the heaviest first."""

    value: float = 0.0
    reasons: tuple[str, ...] = ()


class ListQuery(Frozen):
    """A page of the list, or the list from which an episode was chosen: its order, verdicts and words."""

    order: Literal["doubt", "index"] = "doubt"
    status: Literal["all", "unreviewed", "accept", "reject", "unsure"] = "all"
    q: Annotated[str, Field(max_length=200)] = ""
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=200)] = 24


@dataclass(frozen=True, slots=True)
class QueueRow:
    """An episode in the list."""

    episode: int
    instruction: str
    frames: int
    names: tuple[str, ...]
    """The names of its present steps."""
    status: str
    """The worst status of its steps, before any correction."""
    doubt: Priority
    words: str = ""
    """The makers of the words of its present steps, and who checked them."""
    verdict: Opinion | None = None
    by: str | None = None
    judged: datetime | None = None

    def passes(self, query: ListQuery, terms: Sequence[str]) -> bool:
        """Tell if the row has a verdict that is asked for, and each of the terms, which are in lower case."""
        if query.status != "all" and query.status != (self.verdict or "unreviewed"):
            return False
        if not terms:
            return True
        parts = (str(self.episode), self.instruction, *self.doubt.reasons, *self.names, self.words)
        text = " ".join([*parts, self.by or ""]).lower()
        return all(term in text for term in terms)


class ReviewQueue:
    """The rows, in either order. `read` makes it; several threads may use it."""

    def __init__(self, rows: Sequence[QueueRow]) -> None:
        self._rows = {row.episode: row for row in sorted(rows, key=lambda row: row.episode)}
        by_doubt = sorted(self._rows.values(), key=lambda row: (-row.doubt.value, row.episode))
        self._orders = {"doubt": [row.episode for row in by_doubt], "index": list(self._rows)}

    @classmethod
    def read(
        cls,
        reviews: Reviews,
        lengths: dict[int, int],
        progress: OnProgress,
        unmoved: Callable[[int, Storyboard], int] = lambda episode, board: 0,
    ) -> "ReviewQueue":
        """Read the records of the episodes of `lengths` (episode -> frames), and people's verdicts.

        `unmoved` counts an episode's boundaries that have no motion near them.

        Raises:
            DatasetError: a record or a log is damaged.
        """
        by_episode: dict[int, EpisodeFacts] = {}
        rows: list[QueueRow] = []
        reviewed = set(reviews.episodes())
        for done, (episode, frames) in enumerate(lengths.items(), start=1):
            board = reviews.records.original(episode)
            by_episode[episode] = facts(board, unmoved(episode, board))
            # Most words occur in many episodes: each text is in memory once.
            names = tuple(sys.intern(step.step.name) for step in board.steps)
            instruction, words = sys.intern(board.task.instruction), sys.intern(_words(board))
            row = QueueRow(episode, instruction, frames, names, _status(board), Priority(), words)
            if episode in reviewed:
                look = reviews.look(episode, frames)
                row = _row(row, look, reviews.corrected(look.review))
            rows.append(row)
            progress("read", done, len(lengths))
        doubt = priorities(by_episode)
        for at, row in enumerate(rows):
            rows[at] = replace(row, doubt=doubt[row.episode])
        return cls(rows)

    def __contains__(self, episode: object) -> bool:
        return episode in self._rows

    def __getitem__(self, episode: int) -> QueueRow:
        return self._rows[episode]

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, episode: int, reviewed: Reviewed, board: Storyboard) -> None:
        """Update the row of an episode; `board` is what its review is to the dataset."""
        self._rows[episode] = _row(self._rows[episode], reviewed, board)

    def select(self, query: ListQuery) -> list[QueueRow]:
        """The rows that are asked for, in order, on whatever page."""
        terms = query.q.lower().split()
        rows = (self._rows[episode] for episode in self._orders[query.order])
        return [row for row in rows if row.passes(query, terms)]

    def neighbours(self, episode: int, query: ListQuery) -> tuple[int | None, int | None]:
        """The previous episode and the next one without a verdict, among those that are asked for.

        After the last episode the queue starts again.
        """
        place = {other: at for at, other in enumerate(self._orders[query.order])}
        rows = [row for row in self.select(query) if row.episode != episode]
        earlier = [row for row in rows if place[row.episode] < place[episode]]
        following = (row.episode for row in (*rows[len(earlier) :], *earlier) if row.verdict is None)
        return earlier[-1].episode if earlier else None, next(following, None)

    def names(self) -> list[str]:
        """The step names of the dataset, the most frequent first, at most NAMES."""
        names = Counter(name for row in self._rows.values() for name in row.names)
        return [name for name, _ in names.most_common(NAMES)]

    def progress(self) -> tuple[int, float | None]:
        """The number of episodes with a verdict, and the recent rate an hour; None for fewer than two."""
        times = [row.judged for row in self._rows.values() if row.judged is not None]
        return len(times), pace(times)


def pace(times: Sequence[datetime]) -> float | None:
    """Verdicts an hour since the last long break; None for fewer than two."""
    latest = sorted(times)
    for at in range(len(latest) - 1, 0, -1):
        if latest[at] - latest[at - 1] > BREAK:
            latest = latest[at:]
            break
    worked = sum((second - first for first, second in pairwise(latest)), timedelta())
    return (len(latest) - 1) / (worked / timedelta(hours=1)) if worked else None


def _row(row: QueueRow, reviewed: Reviewed, board: Storyboard) -> QueueRow:
    review, done = reviewed.review, reviewed.replay.done
    judged = next((entry.at for entry in reversed(done) if isinstance(entry.change, GiveVerdict)), None)
    return replace(
        row,
        names=tuple(step.step.name for step in review.steps),
        words=_words(board),
        verdict=review.verdict,
        by=review.by,
        judged=None if review.verdict is None else judged,
    )


def _words(board: Storyboard) -> str:
    lines = dict.fromkeys(step.claims.what.line for step in board.steps)
    return f"words {'; '.join(lines)}" if lines else ""


def _status(board: Storyboard) -> str:
    if board.failure is not None:
        return "failed"
    statuses = {step.status for step in board.steps}
    worst_first = ("failed", "unverified", "skipped", "observed", "verified")
    return next((status for status in worst_first if status in statuses), "text")


def facts(board: Storyboard, unmoved: int = 0) -> EpisodeFacts:
    """Collect the reasons in an episode's storyboard; `unmoved` boundaries have no motion near them."""
    spans = ((step.step.name, step.segment) for step in board.steps)
    claims = list(_claims(board))
    if unmoved:
        where = "a boundary" if unmoved == 1 else f"{unmoved} boundaries"
        claims.append((1 - 0.8**unmoved, f"{where} where the motion shows none"))
    lengths = tuple((sys.intern(name), s.end - s.start) for name, s in spans if s is not None)
    return EpisodeFacts(tuple(claims), lengths)


def unmoved(board: Storyboard, proposed: Sequence[int], slack: int) -> int:
    """Count the inner boundaries without a proposal of the kinematics (frames) within `slack` frames.

    0 where the kinematics propose nothing at all.
    """
    starts = sorted(step.segment.start for step in board.steps if step.segment is not None)[1:]
    return sum(all(abs(at - p) > slack for p in proposed) for at in starts) if proposed else 0


def priorities(episodes: Mapping[int, EpisodeFacts]) -> dict[int, Priority]:
    """Weigh each episode among the others."""
    lengths: defaultdict[str, list[float]] = defaultdict(list)
    for episode_facts in episodes.values():
        for name, frames in episode_facts.lengths:
            lengths[name].append(math.log(frames))
    typical = {name: _typical(logs) for name, logs in lengths.items() if len(logs) >= ENOUGH}
    found: dict[int, Priority] = {}
    for episode, episode_facts in episodes.items():
        claims = [*episode_facts.claims, *_unusual(episode_facts, typical)]
        doubt = 1 - math.prod(1 - weight for weight, _ in claims)
        ordered = sorted(claims, key=lambda claim: -claim[0])
        found[episode] = Priority(round(doubt, 4), tuple(reason for _, reason in ordered))
    return found


def _claims(board: Storyboard) -> Iterator[tuple[float, str]]:
    if board.failure is not None:
        yield 1.0, "no plan"
    for doubt in dict.fromkeys(doubt for step in board.steps for doubt in step.step.doubts):
        yield 0.5, doubt
    for number, step in enumerate(board.steps, start=1):
        if step.unaligned:
            yield 0.6, f"step {number} not found in the recording"
        match step.status:
            case "unverified":
                yield 0.6, f"step {number} rejected by the Critic"
            case "failed":
                yield 0.7, f"step {number} has no picture"
            case "skipped":
                yield 0.5, f"step {number} never tried"
    sure, number = min(_probabilities(board.steps), default=(1.0, 0))
    if sure < SURE:
        yield 0.9 * (1 - sure), f"probability {sure:.2f} of step {number}"


def _probabilities(steps: Sequence[StoryboardStep]) -> Iterator[tuple[float, int]]:
    for number, step in enumerate(steps, start=1):
        verdict = None if step.chosen is None else step.attempts[step.chosen].verdict
        if verdict is not None and verdict.probability is not None:
            yield verdict.probability, number


def _typical(logs: Sequence[float]) -> tuple[float, float]:
    """The median, and 1.4826 times the median deviation from it (sigma of a normal distribution)."""
    middle = median(logs)
    return middle, max(_MIN_DEVIATION, 1.4826 * median(abs(log - middle) for log in logs))


def _unusual(
    episode: EpisodeFacts, typical: Mapping[str, tuple[float, float]]
) -> Iterator[tuple[float, str]]:
    for name, frames in episode.lengths:
        if name in typical:
            middle, deviation = typical[name]
            off = (math.log(frames) - middle) / deviation
            if abs(off) > UNUSUAL:
                yield 0.4, f"“{name}” is unusually {'long' if off > 0 else 'short'}"
