"""Reviewing the episodes of one OUT: looking, changing, and what it comes to."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from goalreel.boards.log import ReadLog, Replay
from goalreel.claims import attributed
from goalreel.datasets.corrections import logged_episodes
from goalreel.datasets.corrections.board import corrected
from goalreel.datasets.corrections.events import BeginLog, Correction, LogEntry, describe
from goalreel.datasets.corrections.state import Review, after
from goalreel.datasets.records import Records
from goalreel.types import Storyboard

LOGS = 16
"""Logs that are held in memory, so that of a long one only new lines are read."""


_COUNTED: Mapping[str, str] = {
    **{"move": "boundary moved", "place": "step placed", "split": "step split", "merge": "steps merged"},
    **{"insert": "step inserted", "delete": "step deleted", "rename": "words set", "outcome": "outcome set"},
    **{"describe": "detail set", "copy": "steps copied", "carry": "steps carried over"},
    **dict.fromkeys(("choose", "frame", "blank"), "goal image chosen"),
    **{"issue": "issue flagged or mended", "accept": "step accepted"},
}
_VERDICT = {"accept": "accepted", "reject": "rejected", "unsure": "left unsure"}


@dataclass(frozen=True)
class Reviewed:
    """An episode as it is, and how it came to that."""

    review: Review
    replay: Replay[LogEntry, Review] = field(default_factory=lambda: Replay(after))

    @property
    def revision(self) -> int:
        """The number that a change has to name: 0 where nobody has changed anything."""
        return len(self.replay.lines)

    @property
    def names(self) -> dict[str, str]:
        """The names of its steps by id."""
        return {step.id: step.step.name for step in self.review.steps}

    def steps_back(self, by: str) -> dict[str, dict[str, Any] | None]:
        """Describe what `undo` and `redo` of a person would do here."""
        return self.replay.steps_back(by, partial(describe, names=self.names))

    def history(self, last: int) -> list[dict[str, Any]]:
        """List the `last` changes in words."""
        return self.replay.history(partial(describe, names=self.names), last)


@dataclass(frozen=True)
class Reviews:
    """The reviews of one OUT, which may be read and changed by several processes at once."""

    records: Records
    _logs: dict[int, ReadLog[LogEntry, Review]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def episodes(self) -> list[int]:
        """List the episodes that a person has said something of."""
        return [e for e in logged_episodes(self.records.folder) if self.records.is_corrected(e)]

    def tally(self) -> Counter[str]:
        """Count what people said and changed that counts for the records as they are, by its words."""
        counts = Counter[str]()
        for episode in self.episodes():
            review = self.records.review(episode)
            said = [review.verdict, *review.issues, *(s.issues or s.accepted for s in review.steps)]
            if not (review.corrected or any(said)):
                continue
            counts["episodes"] += 1
            done = self.records.corrections(episode).read().replay.done
            counts.update(_COUNTED[entry.change.kind] for entry in done if entry.change.kind in _COUNTED)
            if review.verdict:
                how = ", without looking" if review.unseen else ""
                counts[f"episode {_VERDICT[review.verdict]}{how}"] += 1
        return counts

    def look(self, episode: int, length: int) -> Reviewed:
        """Read an episode of `length` frames as it is now; raises DatasetError for a damaged one or log."""
        log = self.records.corrections(episode).read(self._logs.get(episode))
        return self._reviewed(episode, log, self.records.begin_log(episode, length))

    def corrected(self, review: Review) -> Storyboard:
        """Make the storyboard that a review is to the dataset."""
        return attributed(corrected(review), self.records.makers)

    def change(self, episode: int, length: int, revision: int, by: str, change: Correction) -> Reviewed:
        """Make a change to revision `revision` of an episode; when this returns it is on the disk.

        A change that was saved, but whose answer was lost, is not made twice. The record as it is goes
        before a change where the lines are not of it.

        Raises:
            ConflictError: another change was first; `look` shows what they did.
            InputError: the change does not fit.
            DatasetError: as `look`, or the disk is full.
        """
        with self.records.reviewing():
            base, file = self.records.begin_log(episode, length), self.records.corrections(episode)
            log = file.read(self._logs.get(episode))
            if not log.replay.is_saved(revision, by, change):
                lines, at = log.replay.lines, datetime.now(UTC)
                follows = bool(lines) and log.replay.state.record == base.record
                new = [change] if follows else [base, change]
                entries = [
                    LogEntry(revision=number, at=at, by=by, change=item)
                    for number, item in enumerate(new, start=len(lines) + 1)
                ]
                log = file.append(log, entries)
            return self._reviewed(episode, log, base)

    def _reviewed(self, episode: int, log: ReadLog[LogEntry, Review], base: BeginLog) -> Reviewed:
        if not log.replay.lines:
            return Reviewed(Review.of(base))
        self._logs.pop(episode, None)
        self._logs[episode] = log
        for other in list(self._logs)[:-LOGS]:
            self._logs.pop(other, None)
        return Reviewed(log.replay.state.on_record(base), log.replay)
