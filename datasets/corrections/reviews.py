"""Reviewing the episodes of one OUT: looking, changing, and what it comes to."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from goalreel.claims import attributed
from goalreel.datasets.corrections.board import corrected
from goalreel.datasets.corrections.events import AddRendering, BeginLog, Correction, LogEntry
from goalreel.datasets.corrections.files import log_episode, stand_in
from goalreel.datasets.corrections.log import ReadLog
from goalreel.datasets.corrections.replay import Replay
from goalreel.datasets.corrections.state import Review
from goalreel.datasets.records import Records
from goalreel.types import Attempt, Storyboard

LOGS = 16
"""Logs that are held in memory, so that of a long one only new lines are read."""


@dataclass(frozen=True)
class Reviewed:
    """An episode as it is, and how it came to that."""

    review: Review
    replay: Replay = field(default_factory=Replay)

    @property
    def entries(self) -> list[LogEntry]:
        """All lines of its log."""
        return self.replay.entries

    @property
    def revision(self) -> int:
        """What a change has to name: 0 where nobody has changed anything."""
        return len(self.entries)


@dataclass(frozen=True)
class Reviews:
    """The reviews of one OUT, which may be read and changed by several processes at once."""

    records: Records
    _logs: dict[int, ReadLog] = field(default_factory=dict, init=False, repr=False, compare=False)

    def episodes(self) -> list[int]:
        """Those that a person has said something of, in order."""
        paths = (self.records.folder / "corrections").glob("chunk-*/*.jsonl")
        episodes = (log_episode(path) for path in paths)
        return sorted(e for e in episodes if e is not None and self.records.is_corrected(e))

    def look(self, episode: int, length: int) -> Reviewed:
        """An episode of `length` frames as it is now.

        Raises:
            DatasetError: no record, or it or the log is damaged.
        """
        log = self.records.corrections(episode).read(self.records.stand_in, self._logs.get(episode))
        return self._reviewed(episode, log, self.records.begin_log(episode, length))

    def _reviewed(self, episode: int, log: ReadLog, base: BeginLog) -> Reviewed:
        """What a log comes to, which is held from now on."""
        if not log.replay.entries:
            return Reviewed(Review.of(base))
        self._logs.pop(episode, None)
        self._logs[episode] = log
        for other in list(self._logs)[:-LOGS]:
            self._logs.pop(other, None)
        return Reviewed(log.replay.on(base), log.replay)

    def corrected(self, review: Review) -> Storyboard:
        """What a review is to the dataset (`goalreel.datasets.corrections.board.corrected`)."""
        return attributed(corrected(review), self.records.makers)

    def change(self, episode: int, length: int, revision: int, by: str, change: Correction) -> Reviewed:
        """Make a change to revision `revision` of an episode; when this returns it is on the disk.

        Raises:
            ConflictError: another change was first; `look` shows what they did.
            InputError: the change does not fit.
            DatasetError: as `look`, or the disk is full.
        """
        with self.records.reviewing():
            return self._change(episode, length, revision, by, change)

    def _change(self, episode: int, length: int, revision: int, by: str, change: Correction) -> Reviewed:
        base, last_read = self.records.begin_log(episode, length), self._logs.get(episode)
        log = self.records.corrections(episode)
        after = log.append(revision, by, change, base, self.records.stand_in, last_read)
        return self._reviewed(episode, after, base)

    def render(
        self, episode: int, length: int, revision: int, by: str, step: str, attempts: Sequence[Attempt]
    ) -> Reviewed:
        """Add attempts of another prompt, with their pictures, as `change` does."""
        with self.records.reviewing():
            stored = tuple(
                attempt.model_copy(update={"image": stand_in(self.records.store(attempt.image))})
                if attempt.image
                else attempt
                for attempt in attempts
            )
            return self._change(episode, length, revision, by, AddRendering(step=step, attempts=stored))
