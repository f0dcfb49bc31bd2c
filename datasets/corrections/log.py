"""The append-only log of an episode: who changed what, when. The truth of a review.

OUT/meta/goalreel/corrections/chunk-000/episode_000003.jsonl

A line is on the disk, with its newline, before anybody is told that it is saved; what a killed write left of
a line is no line. One writer at a time holds `Records.reviewing`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from goalreel.datasets.corrections.events import BeginLog, Correction, LogEntry, RedoChange, UndoChange
from goalreel.datasets.corrections.files import reference_of
from goalreel.datasets.corrections.replay import Replay
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import append_lines, whole_lines
from goalreel.image import Image

_ENTRY: TypeAdapter[LogEntry] = TypeAdapter(LogEntry)
MAX_BYTES = 64_000_000
"""Of one log; about ten thousand changes."""


class ConflictError(InputError):
    """Another change came first."""

    def __init__(self, revision: int, by: str) -> None:
        super().__init__(f"revision {revision} by {by} came first: look at it, then change that")
        self.revision, self.by = revision, by


@dataclass(frozen=True)
class ReadLog:
    """The whole lines of a log, as they were read."""

    replay: Replay = field(default_factory=Replay)
    size: int = 0
    """Bytes of the lines."""
    last: bytes = b""
    """The last line."""


@dataclass(frozen=True)
class CorrectionLog:
    """The log of one episode."""

    path: Path

    def read(self, get_image: Callable[[str], Image], log: ReadLog | None = None) -> ReadLog:
        """Read the lines behind `log`, or all of a file that does not go on from there; none of no file.

        Raises:
            DatasetError: a line is damaged, or does not fit those before it.
        """
        log = log or ReadLog()
        try:
            with self.path.open("rb") as file:
                file.seek(log.size - len(log.last))
                if file.read(len(log.last)) != log.last:
                    log = ReadLog()
                    file.seek(0)
                whole = whole_lines(file.read())
        except FileNotFoundError:
            return ReadLog()
        numbered = enumerate(whole, start=len(log.replay.entries) + 1)
        entries = [self._entry(number, line, get_image) for number, line in numbered]
        if not entries:
            return log
        try:
            replay = log.replay.added(entries)
        except (InputError, StopIteration, IndexError) as e:
            raise DatasetError(f"{self.path}: damaged: its lines do not fit one another ({e})") from e
        return ReadLog(replay, log.size + sum(map(len, whole)), whole[-1])

    def _entry(self, number: int, line: bytes, get_image: Callable[[str], Image]) -> LogEntry:
        try:
            entry = _ENTRY.validate_json(line, context={"get_image": get_image})
            if entry.revision != number or (number == 1 and not isinstance(entry.change, BeginLog)):
                raise ValueError(f"is revision {entry.revision}, a {entry.change.kind}")
            return entry
        except (ValidationError, ValueError) as e:
            what = first_line(e)
            raise DatasetError(
                f"{self.path}: line {number} is damaged ({what}): restore the file, or remove that line "
                "and all lines after it"
            ) from e

    def append(
        self,
        revision: int,
        by: str,
        change: Correction,
        base: BeginLog,
        get_image: Callable[[str], Image],
        previous_read: ReadLog | None = None,
    ) -> ReadLog:
        """Add a change to revision `revision` (0: no log yet), and give all lines.

        The caller holds `Records.reviewing`. `base`, the record as it is, goes before the change where the
        lines are not of it. A change that was saved, but whose answer was lost, is not made twice.

        Raises:
            ConflictError: the log is at another revision.
            InputError: the change does not fit, or there is nothing to undo.
            DatasetError: the log is damaged, or the disk is full.
        """
        log = self.read(get_image, previous_read)
        entries = log.replay.entries
        if len(entries) != revision:
            if _is_saved(entries[revision:], by, change):
                return log
            raise ConflictError(len(entries), entries[-1].by if entries else "nobody")
        new = [change] if entries and log.replay.review.record == base.record else [base, change]
        at = datetime.now(UTC)
        added = [
            LogEntry(revision=revision + n, at=at, by=by, change=item) for n, item in enumerate(new, start=1)
        ]
        previous = log.replay.added(added[:-1])
        _check_stack(previous, change)
        replay = previous.added(added[-1:])
        lines = [_line(entry) for entry in added]
        self._write(b"".join(lines), log.size)
        return ReadLog(replay, log.size + sum(map(len, lines)), lines[-1])

    def _write(self, data: bytes, size: int) -> None:
        """Write lines at once behind `size` bytes of whole lines, and onto the disk."""
        if size + len(data) > MAX_BYTES:
            raise DatasetError(f"{self.path}: cannot be read: larger than {MAX_BYTES} bytes")
        append_lines(self.path, data, size)


def _is_saved(entries: Sequence[LogEntry], by: str, change: Correction) -> bool:
    """Whether the first change of some lines is this one, by the same person."""
    first = next((entry for entry in entries if not isinstance(entry.change, BeginLog)), None)
    return first is not None and (first.by, first.change) == (by, change)


def _line(entry: LogEntry) -> bytes:
    text = entry.model_dump_json(context={"put_image": reference_of})
    return text.encode() + b"\n"


def _check_stack(replay: Replay, change: Correction) -> None:
    if isinstance(change, UndoChange) and not replay.can_undo:
        raise InputError("there is nothing to undo")
    if isinstance(change, RedoChange) and not replay.undone:
        raise InputError("there is nothing to redo")
