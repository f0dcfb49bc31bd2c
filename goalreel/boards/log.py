"""Append-only logs of JSON lines: who changed what, when.

A line is on the disk, with its newline, before anybody hears that it is saved. What a killed write left of a
line is no line, and the next one takes its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from goalreel.boards.replay import Line, Replay, Rules
from goalreel.boards.words import reference_of, stand_in
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import append_lines, whole_lines
from goalreel.image import Image

MAX_BYTES = 64_000_000
"""The limit of one log; tens of thousands of changes."""


@dataclass(frozen=True)
class ReadLog[E: Line, S]:
    """The whole lines of a log, as they were read."""

    replay: Replay[E, S]
    size: int = 0
    """Bytes of the lines."""
    last: bytes = b""
    """The last line."""


@dataclass(frozen=True)
class EventLog[E: Line, S]:
    """The log of one storyboard; its lines are of the model `line`."""

    path: Path
    line: type[E]
    rules: Rules[E, S]
    get_image: Callable[[str], Image] = stand_in
    """Makes a picture of its reference."""

    def read(self, log: ReadLog[E, S] | None = None) -> ReadLog[E, S]:
        """Read the lines behind `log`, or all of a file that does not go on from there; none of no file.

        Raises:
            DatasetError: a line is damaged, or does not fit those before it.
        """
        empty = ReadLog(Replay(self.rules))
        log = log or empty
        try:
            with self.path.open("rb") as file:
                file.seek(log.size - len(log.last))
                if file.read(len(log.last)) != log.last:
                    log = empty
                    file.seek(0)
                lines = whole_lines(file.read())
        except FileNotFoundError:
            return empty
        first = len(log.replay.lines) + 1
        events = [self._parsed(number, line) for number, line in enumerate(lines, start=first)]
        if not events:
            return log
        try:
            replay = log.replay.added(events)
        except (InputError, ValueError) as e:
            raise DatasetError(f"{self.path}: damaged: its lines do not fit one another ({e})") from e
        return ReadLog(replay, log.size + sum(map(len, lines)), lines[-1])

    def append(self, log: ReadLog[E, S], events: Sequence[E]) -> ReadLog[E, S]:
        """Write events behind all lines that are there, at once and onto the disk.

        Raises:
            InputError, ValueError: an event does not fit; nothing is written.
            DatasetError: the log is full, or the disk is; the file is as it was.
        """
        replay = log.replay.added(events)
        lines = [self._line(event) for event in events]
        size = log.size + sum(map(len, lines))
        if size > MAX_BYTES:
            raise DatasetError(f"{self.path}: holds too many changes: no more than {MAX_BYTES} bytes fit")
        append_lines(self.path, b"".join(lines), log.size)
        return ReadLog(replay, size, lines[-1])

    def _line(self, event: E) -> bytes:
        return event.model_dump_json(context={"put_image": reference_of}).encode() + b"\n"

    def _parsed(self, number: int, line: bytes) -> E:
        try:
            event = self.line.model_validate_json(line, context={"get_image": self.get_image})
            if event.number != number:
                raise ValueError(f"it is number {event.number}")
            return event
        except (ValidationError, ValueError) as e:
            raise DatasetError(
                f"{self.path}: line {number} is damaged ({first_line(e)}): restore the file, or remove that "
                "line and all lines after it"
            ) from e
