"""The append-only log of an episode: who changed what, when. The truth of a review.

OUT/meta/goalreel/corrections/chunk-000/episode_000003.jsonl

A line is on the disk, with its newline, before anybody is told that it is saved; what a killed write left of
a line is no line. One writer at a time holds `Records.reviewing`.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from goalreel.datasets.corrections.events import BeginLog, Correction, LogEntry, RedoChange, UndoChange
from goalreel.datasets.corrections.files import reference_of
from goalreel.datasets.corrections.replay import renewed, reviewed, standing
from goalreel.datasets.corrections.state import Review
from goalreel.errors import DatasetError, InputError
from goalreel.files import disk
from goalreel.image import Image

_ENTRY: TypeAdapter[LogEntry] = TypeAdapter(LogEntry)
MAX_BYTES = 64_000_000
"""Of one log; about ten thousand changes."""


def length_of(entries: Sequence[LogEntry]) -> int:
    """Frames of the episode, as a log knows it; it begins with a `Begin`."""
    return next(e.change.length for e in reversed(entries) if isinstance(e.change, BeginLog))


def current(entries: Sequence[LogEntry], base: BeginLog, path: Path) -> Review:
    """What a log comes to, on the record as it is now.

    Raises:
        DatasetError: its changes do not fit one another.
    """
    try:
        review = reviewed(entries)
    except (InputError, StopIteration, IndexError) as e:
        raise DatasetError(f"{path}: damaged: its lines do not fit one another ({e})") from e
    return review if review.record == base.record else renewed(review, base)


class ConflictError(InputError):
    """Another change came first."""

    def __init__(self, revision: int, by: str) -> None:
        super().__init__(f"revision {revision} by {by} came first: look at it, then change that")
        self.revision = revision


@dataclass(frozen=True)
class CorrectionLog:
    """The log of one episode."""

    path: Path

    def entries(self, get_image: Callable[[str], Image]) -> list[LogEntry]:
        """All lines; none where there is no log.

        Raises:
            DatasetError: a line is damaged.
        """
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        whole = [line for line in lines if line.endswith(b"\n")]
        return [self._entry(number, line, get_image) for number, line in enumerate(whole, start=1)]

    def _entry(self, number: int, line: bytes, get_image: Callable[[str], Image]) -> LogEntry:
        try:
            entry = _ENTRY.validate_json(line, context={"get_image": get_image})
            if entry.revision != number or (number == 1 and not isinstance(entry.change, BeginLog)):
                raise ValueError(f"is revision {entry.revision}, a {entry.change.kind}")
            return entry
        except (ValidationError, ValueError) as e:
            what = str(e).splitlines()[0]
            raise DatasetError(
                f"{self.path}: line {number} is damaged ({what}): restore the file, or remove that line "
                "and all behind it"
            ) from e

    def append(
        self,
        revision: int,
        by: str,
        change: Correction,
        base_of: Callable[[Sequence[LogEntry]], BeginLog | None],
        get_image: Callable[[str], Image],
    ) -> list[LogEntry]:
        """Add a change to revision `revision` (0: no log yet), and give all lines.

        The caller holds `Records.reviewing`. `base_of` gives the record as it is, where the lines are not of
        it; it goes before the change.

        Raises:
            ConflictError: the log is at another revision.
            InputError: the change does not fit, or there is nothing to take back.
            DatasetError: the log is damaged, or the disk is full.
        """
        entries = self.entries(get_image)
        if len(entries) != revision:
            raise ConflictError(len(entries), entries[-1].by if entries else "nobody")
        new = [item for item in (base_of(entries), change) if item is not None]
        at = datetime.now(UTC)
        added = [
            LogEntry(revision=revision + n, at=at, by=by, change=item) for n, item in enumerate(new, start=1)
        ]
        _check_stack([*entries, *added[:-1]], change)
        reviewed([*entries, *added])
        self._write(added)
        return [*entries, *added]

    def _write(self, added: list[LogEntry]) -> None:
        """The lines in one write behind the last whole line, and on the disk."""
        data = b"".join(_line(entry) for entry in added)
        with disk(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                size = _whole_bytes(handle)
                if size + len(data) > MAX_BYTES:
                    raise DatasetError(f"{self.path}: too long to go on: more than {MAX_BYTES} bytes")
                os.ftruncate(handle, size)
                try:
                    _all(handle, data, size)
                    os.fsync(handle)
                except OSError:
                    os.ftruncate(handle, size)
                    raise
            finally:
                os.close(handle)
            if new:
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)


def _line(entry: LogEntry) -> bytes:
    text = entry.model_dump_json(context={"put_image": reference_of})
    return text.encode() + b"\n"


def _all(handle: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(handle, data, offset)
        data, offset = data[written:], offset + written


def _whole_bytes(handle: int) -> int:
    """Bytes up to the last newline."""
    size = os.fstat(handle).st_size
    return os.pread(handle, size, 0).rfind(b"\n") + 1


def _check_stack(entries: list[LogEntry], change: Correction) -> None:
    done, undone = standing(entries)
    if isinstance(change, UndoChange) and all(isinstance(entry.change, BeginLog) for entry in done):
        raise InputError("there is nothing to take back")
    if isinstance(change, RedoChange) and not undone:
        raise InputError("there is nothing to make again")
