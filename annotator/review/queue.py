"""The list of all episodes of a dataset under review, in memory, and the order in which to review them.

It is read once; then each change updates its row, and an act on many episodes weighs them anew. Episodes
stand by the doubt about what the models wrote: a rejected picture, a low probability, a boundary without a
change in the motion, a step unlike the rest of the dataset. Verdicts of people leave the order as it is.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from statistics import median
from threading import Lock
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from goalreel.boards.step import UndoChange
from goalreel.claims import PICTURE_CHECKS
from goalreel.critics.examination import Examination, worst_word
from goalreel.datasets.corrections.events import CarrySteps, GiveVerdict, LogEntry, Opinion
from goalreel.datasets.corrections.reviews import Reviewed, Reviews
from goalreel.progress import OnProgress
from goalreel.settings import Frozen
from goalreel.types import Segment, Storyboard, Word

BREAK = timedelta(minutes=10)
"""A longer time without a change is a break, and not spent on the review."""
ENOUGH = 8
"""A name with fewer lengths has no unusual ones."""
UNUSUAL = 3.5
"""A length is unusual if its logarithm deviates by so many times the typical deviation."""
MISSING_CUT, CUT = 0.7, 0.1
"""Weights of the sign of a missing cut, and of one that is superfluous or elsewhere: what they cost a policy
differs by seven times (lab/docs/label-worth.md)."""
SURE = 0.9
"""The Critic is sure at this probability or above."""
_MIN_DEVIATION = 0.1
"""The least typical deviation: a robot that repeats itself to the frame has hardly any."""


class EpisodeFacts(NamedTuple):
    """The reasons for doubt about one episode."""

    claims: tuple[tuple[float, str], ...]
    """Weight, 0-1, and words of each reason in the episode itself."""
    lengths: tuple[tuple[str, int], ...]
    """Name and number of frames of each step with a segment."""


class Priority(NamedTuple):
    """The doubt about an episode, 0-1, and the reasons for it, the heaviest first."""

    value: float = 0.0
    reasons: tuple[str, ...] = ()


class ListQuery(Frozen):
    """A page of the list, or the list from which an episode was chosen: its order, verdicts and words."""

    order: Literal["doubt", "index"] = "doubt"
    status: Literal["all", "unreviewed", "doubt", "accept", "unseen", "reject", "unsure"] = "all"
    q: Annotated[str, Field(max_length=200)] = ""
    offset: Annotated[int, Field(ge=0)] = 0
    limit: Annotated[int, Field(ge=1, le=200)] = 24
    by: Annotated[str, Field(max_length=80)] = ""
    """The person who asks: undo and redo are of their own changes."""


class OfAct(NamedTuple):
    """The change of an episode that is part of an act on many."""

    name: str
    at: datetime
    by: str
    refused: bool
    """The act left this episode as it was."""


@dataclass(frozen=True)
class QueueRow:
    """An episode in the list."""

    episode: int
    instruction: str
    frames: int
    names: tuple[str, ...]
    """The names of its steps."""
    word: Word
    """The least that a step of it is worth."""
    doubt: Priority
    words: str = ""
    """The makers of the words of its steps, and who checked them."""
    verdict: Opinion | None = None
    by: str | None = None
    unseen: bool = False
    revision: int = 0
    labelled: datetime | None = None
    """The time of the last change of an episode whose steps a person made or accepted."""
    refused: str | None = None
    """The reason why nothing was carried over."""
    open: bool = True
    """Steps may be carried over to it: a person has said nothing of those that it has."""
    carried: bool = False
    """Its steps are carried over, without a doubt of their own, and nobody has given a verdict."""
    act: OfAct | None = None
    """The act on many episodes that its last change was part of."""
    undone: OfAct | None = None
    """The one that was taken back last, where nothing was changed since."""
    times: tuple[datetime, ...] = ()
    """The times of people's own changes."""
    own: Mapping[str, dict[str, dict[str, Any] | None]] = MappingProxyType({})
    """The change that each person would take back here, and the one they would make again."""
    moved: tuple[int, ...] = ()
    """Frames from each boundary that was carried over to the nearest one that a person left or made."""

    @property
    def sure(self) -> bool:
        """Its steps are carried over, and the list has no doubt of them either."""
        return self.carried and not self.doubt.reasons

    @property
    def in_doubt(self) -> bool:
        """There are reasons for doubt, and nobody who looked has accepted or rejected it."""
        return bool(self.doubt.reasons) and (self.verdict in (None, "unsure") or self.unseen)

    def has_status(self, status: str) -> bool:
        """Tell if the row has the status that is asked for."""
        if status in ("all", "doubt"):
            return status == "all" or self.in_doubt
        return status == ("unseen" if self.unseen else self.verdict or "unreviewed")

    @cached_property
    def text(self) -> str:
        """The words that a search looks through, in lower case."""
        parts = (str(self.episode), self.instruction, *self.doubt.reasons, *self.names, self.words)
        return " ".join([*parts, self.by or ""]).lower()


class ReviewQueue:
    """The rows, in either order; several threads may use it."""

    def __init__(
        self,
        reviews: Reviews,
        lengths: dict[int, int],
        progress: OnProgress,
        unmoved: Callable[[int, Storyboard], int],
        examination: Examination | None,
    ) -> None:
        """Read the records of the episodes of `lengths` (episode -> frames), and people's verdicts.

        `unmoved` counts an episode's boundaries that have no motion near them.

        Raises:
            DatasetError: a record or a log is damaged.
        """
        self._reviews, self._unmoved, self._examination = reviews, unmoved, examination
        self._facts: dict[int, EpisodeFacts] = {}
        self._rows: dict[int, QueueRow] = {}
        self._lock = Lock()  # two people may change two episodes at once
        reviewed = set(reviews.episodes())
        for done, (episode, frames) in enumerate(sorted(lengths.items()), start=1):
            board = reviews.records.original(episode)
            names, worth = tuple(step.step.name for step in board.steps), worst_word(board, examination)
            self._rows[episode] = QueueRow(
                episode, board.task.instruction, frames, names, worth, Priority(), _words(board)
            )
            if episode in reviewed:
                self._read(episode)
            else:
                self._facts[episode] = facts(board, unmoved(episode, board))
            progress("read", done, len(lengths))
        self._order()

    def _read(self, episode: int) -> None:
        """Take what people have said and changed."""
        look = self._reviews.look(episode, self._rows[episode].frames)
        board, unmoved = self._reviews.corrected(look.review), 0
        self.update(episode, look, board)
        if not (look.review.corrected or look.review.refused):
            board = self._reviews.records.original(episode)
            unmoved = self._unmoved(episode, board)
        self._facts[episode] = facts(board, unmoved, look.review.refused)

    def _order(self) -> None:
        for episode, doubt in priorities(self._facts).items():
            self._rows[episode] = replace(self._rows[episode], doubt=doubt)
        by_doubt = sorted(self._rows, key=lambda episode: (-self._rows[episode].doubt.value, episode))
        self._orders = {
            name: {episode: place for place, episode in enumerate(order)}
            for name, order in (("doubt", by_doubt), ("index", self._rows))
        }

    def weigh(self, episodes: Iterable[int]) -> None:
        """Order all episodes anew after an act on some, which another process may have changed meanwhile."""
        labelled = {row.episode for row in self.rows() if row.labelled}
        for episode in sorted(labelled.union(episodes)):
            self._read(episode)
        self._order()

    def __contains__(self, episode: object) -> bool:
        return episode in self._rows

    def __getitem__(self, episode: int) -> QueueRow:
        return self._rows[episode]

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, episode: int, reviewed: Reviewed, board: Storyboard) -> None:
        """Update the row of an episode; `board` is what its review is to the dataset."""
        with self._lock:
            row = replace(self._rows[episode], word=worst_word(board, self._examination))
            self._rows[episode] = _row(row, reviewed, board)

    def rows(self) -> list[QueueRow]:
        """All rows, by number."""
        return list(self._rows.values())

    def last_labelled(self, episode: int) -> int | None:
        """The other episode that was labelled last, rather one of the same instruction."""
        text = self._rows[episode].instruction
        found = [
            (row.instruction == text, row.labelled, row.episode)
            for row in self.rows()
            if row.labelled and row.episode != episode
        ]
        return max(found)[-1] if found else None

    def select(self, query: ListQuery) -> list[QueueRow]:
        """The rows that are asked for, in order, on whatever page."""
        rows = (self._rows[episode] for episode in self._orders[query.order])
        terms = query.q.lower().split()
        return [row for row in rows if row.has_status(query.status) and all(t in row.text for t in terms)]

    def neighbours(self, episode: int, query: ListQuery) -> tuple[int | None, int | None]:
        """The previous episode that is asked for, and, in a circle, the next one without a verdict."""
        place, rows = self._orders[query.order], self.select(query)
        before = [row for row in rows if place[row.episode] < place[episode]]
        circle = [*rows[len(before) :], *before]
        following = (row.episode for row in circle if row.verdict is None and row.episode != episode)
        return before[-1].episode if before else None, next(following, None)

    def turns(self, by: str) -> dict[str, dict[str, Any] | None]:
        """Describe what undo and redo of a person would do, in whatever episode that is."""
        last: dict[str, dict[str, Any] | None] = {"undo": None, "redo": None}
        for row in self.rows():
            for kind, turn in row.own.get(by, {}).items():
                known = last[kind]
                if turn and (known is None or turn["at"] > known["at"]):
                    last[kind] = turn | {"episode": row.episode}
        undo, redo = last["undo"], last["redo"]
        if undo and redo and redo["at"] < undo["at"]:  # something new was done since
            last["redo"] = None
        return last

    def names(self) -> list[str]:
        """The step names of the dataset, the most frequent first, at most 200."""
        counts = Counter(name for row in self.rows() for name in row.names)
        return [name for name, _ in counts.most_common(200)]

    def progress(self) -> dict[str, int]:
        """Count the episodes with a verdict, with and without looking, and in doubt; and seconds spent."""
        rows = self.rows()
        unseen = sum(row.unseen for row in rows)
        given = sum(row.verdict is not None for row in rows)
        return {
            "reviewed": given - unseen,
            "unseen": unseen,
            "in_doubt": sum(row.in_doubt for row in rows),
            "spent_s": round(spent(time for row in rows for time in row.times).total_seconds()),
        }


def spent(times: Iterable[datetime]) -> timedelta:
    """Sum the time between changes, without breaks."""
    gaps = (later - earlier for earlier, later in pairwise(sorted(times)))
    return sum((gap for gap in gaps if gap <= BREAK), timedelta())


def _row(row: QueueRow, reviewed: Reviewed, board: Storyboard) -> QueueRow:
    review, replay = reviewed.review, reviewed.replay
    done, lines = replay.done, replay.lines
    changes = (entry.change for entry in reversed(done))
    carried = next((change for change in changes if isinstance(change, CarrySteps) and change.steps), None)
    moved: list[int] = []
    if carried and review.labelled:
        edges = _edges([step.segment for step in review.steps if step.segment])
        was = _edges([step.segment for step in carried.steps])
        moved = [min((abs(now - at) for now in edges), default=row.frames) for at in was]
    touched = review.corrected and review.taken != "carry"
    touched = touched or any(step.edited or step.issues or step.accepted for step in review.steps)
    doubted = review.issues or review.refused or any(step.doubts or step.issues for step in review.steps)
    last = lines[-1] if lines else None
    back = replay.own(last.by, redo=True) if last and isinstance(last.change, UndoChange) else None
    return replace(
        row,
        names=tuple(step.step.name for step in review.steps),
        words=_words(board),
        verdict=review.verdict,
        by=review.by,
        unseen=review.unseen,
        revision=reviewed.revision,
        labelled=done[-1].at if done and review.labelled else None,
        refused=review.refused,
        open=review.verdict is None and not touched,
        carried=review.verdict is None and review.taken == "carry" and not doubted,
        act=_of_act(done[-1], done[-1]) if done else None,
        undone=_of_act(back, last) if last and back else None,
        times=tuple(e.at for e in lines if e.person and not _of_act(e, e)),
        own={by: reviewed.steps_back(by) for by in {e.by for e in (*done, *replay.undone)}},
        moved=tuple(moved),
    )


def _of_act(entry: LogEntry, last: LogEntry) -> OfAct | None:
    change = entry.change
    if isinstance(change, CarrySteps):
        return OfAct(change.act, last.at, last.by, change.refused is not None)
    if isinstance(change, GiveVerdict) and change.unseen:
        return OfAct(change.act or "accept", last.at, last.by, refused=False)
    return None


def _edges(segments: Sequence[Segment]) -> list[int]:
    """The frames where a step begins or ends, without the first and the last one."""
    return sorted({edge for segment in segments for edge in (segment.start, segment.end)})[1:-1]


def _words(board: Storyboard) -> str:
    lines = dict.fromkeys(step.claims.what.line for step in board.steps)
    return f"words {'; '.join(lines)}" if lines else ""


def facts(board: Storyboard, unmoved: int = 0, refused: str | None = None) -> EpisodeFacts:
    """Collect the reasons in an episode's storyboard.

    `unmoved` boundaries have no motion near them. `refused`: the reason why nothing was carried over.
    """
    claims = list(_claims(board))
    if refused:
        claims.append((0.9, f"not carried over: {refused}"))
    if unmoved:
        where = "a boundary" if unmoved == 1 else f"{unmoved} boundaries"
        claims.append((1 - (1 - CUT) ** unmoved, f"{where} where the motion shows none"))
    timed = ((step.step.name, step.segment) for step in board.steps)
    return EpisodeFacts(tuple(claims), tuple((name, s.end - s.start) for name, s in timed if s))


def unmoved(board: Storyboard, proposed: Sequence[int], slack: int) -> int:
    """Count the inner boundaries further than `slack` frames from any of `proposed`; 0 without a proposal."""
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
    if board.end_doubt:
        yield 0.6, board.end_doubt
    for doubt in dict.fromkeys(doubt for step in board.steps for doubt in step.step.doubts):
        yield 0.5, doubt
    steps = list(enumerate(board.steps, start=1))
    for number, step in steps:
        if step.unaligned:
            yield 0.6, f"step {number} not found in the recording"
        match step.status:
            case "unjudged":
                yield 0.6, f"no Critic judged step {number}"
            case "rejected":
                rules = step.claims.looks is not None and step.claims.looks.checked == PICTURE_CHECKS
                yield 0.6, f"step {number} rejected by {PICTURE_CHECKS if rules else 'the Critic'}"
            case "failed":
                yield 0.7, f"step {number} has no picture"
            case "skipped":
                yield 0.5, f"step {number} never tried"
    chosen = (
        (number, step.attempts[step.chosen].verdict) for number, step in steps if step.chosen is not None
    )
    judged = [(v.probability, number) for number, v in chosen if v and v.probability is not None]
    sure, number = min(judged, default=(1.0, 0))
    if sure < SURE:
        yield 0.9 * (1 - sure), f"probability {sure:.2f} of step {number}"


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
                weight, word = (MISSING_CUT, "long") if off > 0 else (CUT, "short")
                yield weight, f"“{name}” is unusually {word}"
