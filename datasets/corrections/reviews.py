"""Reviewing the episodes of one OUT: looking, changing, and what it comes to."""

from collections.abc import Sequence
from dataclasses import dataclass

from goalreel.claims import attributed
from goalreel.datasets.corrections.board import corrected
from goalreel.datasets.corrections.events import AddRendering, BeginLog, Correction, LogEntry
from goalreel.datasets.corrections.files import log_episode, stand_in
from goalreel.datasets.corrections.log import current
from goalreel.datasets.corrections.replay import reviewed, standing
from goalreel.datasets.corrections.state import Review
from goalreel.datasets.records import Records
from goalreel.types import Attempt, Storyboard


@dataclass(frozen=True)
class Reviewed:
    """An episode as it is, and how it came to that."""

    review: Review
    entries: tuple[LogEntry, ...] = ()

    @property
    def revision(self) -> int:
        """What a change has to name: 0 where nobody has changed anything."""
        return len(self.entries)

    @property
    def can_undo(self) -> bool:
        return any(not isinstance(entry.change, BeginLog) for entry in standing(self.entries)[0])

    @property
    def can_redo(self) -> bool:
        return bool(standing(self.entries)[1])


@dataclass(frozen=True)
class Reviews:
    """The reviews of one OUT, which may be read and changed by several processes at once."""

    records: Records

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
        log = self.records.corrections(episode)
        entries = log.entries(self.records.stand_in)
        base = self.records.begin_log(episode, length)
        if not entries:
            return Reviewed(Review.of(base))
        return Reviewed(current(entries, base, log.path), tuple(entries))

    def corrected(self, review: Review) -> Storyboard:
        """What a review is to the dataset (`goalreel.datasets.corrections.board.corrected`)."""
        return attributed(corrected(review), self.records.makers)

    def change(self, episode: int, length: int, revision: int, by: str, change: Correction) -> Reviewed:
        """Make a change to revision `revision` of an episode; when this returns it is on the disk.

        Raises:
            ConflictError: somebody was first; `look` shows what they did.
            InputError: the change does not fit.
            DatasetError: as `look`, or the disk is full.
        """
        with self.records.reviewing():
            return self._change(episode, length, revision, by, change)

    def _change(self, episode: int, length: int, revision: int, by: str, change: Correction) -> Reviewed:
        base = self.records.begin_log(episode, length)

        def begin(entries: Sequence[LogEntry]) -> BeginLog | None:
            return None if entries and reviewed(entries).record == base.record else base

        log = self.records.corrections(episode)
        entries = log.append(revision, by, change, begin, self.records.stand_in)
        return Reviewed(current(entries, base, log.path), tuple(entries))

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
