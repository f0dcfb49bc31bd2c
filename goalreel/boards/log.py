"""Append-only logs of JSON lines, who changed what, when; and the storyboard that their lines come to.

A line is on the disk, with its newline, before anybody hears that it is saved. What a killed write left of a
line is no line, and the next one takes its place.

A line is a fact (what a model or a record said), or a person's change. Undo takes back one's own last change
that stands, redo makes the one again that was taken back last. Both are lines too: nothing leaves a log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, Self

from pydantic import ValidationError

from goalreel.boards.step import RedoChange, UndoChange
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import append_lines, check_file
from goalreel.image import Image, reference_of, stand_in

MAX_BYTES = 64_000_000
"""The limit of one log; tens of thousands of changes."""
STATES = 500
"""Lines whose states are kept, so that undo does not begin with the first line."""


class Line(Protocol):
    """A line of a log: a pydantic model with a number, 1 for the first line."""

    @property
    def number(self) -> int:
        """Its place in the log."""

    @property
    def at(self) -> datetime:
        """The time at which it was written."""

    @property
    def person(self) -> tuple[str, Any] | None:
        """The person and their change; None for a fact."""

    @classmethod
    def model_validate_json(cls, json_data: bytes, *, context: Any = None) -> Self:
        """Read a line; pydantic's ValidationError: it is none."""

    def model_dump_json(self, *, context: Any = None) -> str:
        """The line's text, without its newline."""


type Apply[E: Line, S] = Callable[[S | None, E], S]
"""Makes the state after a line that stands; ValueError: the line does not fit."""


class ConflictError(InputError):
    """Another change came first."""

    def __init__(self, by: str) -> None:
        super().__init__(f"a change by {by} came first: look at it, then change that")
        self.by = by


class Replay[E: Line, S]:
    """The lines of a log and their state; more lines give another replay."""

    def __init__(self, apply: Apply[E, S]) -> None:
        self._apply = apply
        self.lines: list[E] = []
        self.done: list[E] = []
        """The changes that stand, by number."""
        self.undone: list[E] = []
        """The changes that were taken back, and can be made again, the last one last."""
        self._states: list[S] = []
        """The states after the last lines."""

    @property
    def state(self) -> S:
        """The state after the last line; there is at least one."""
        return self._states[-1]

    @property
    def changes(self) -> list[tuple[E, str, Any]]:
        """All changes but undo and redo, whether they stand or not: each line with its person and change."""
        people = ((line, *line.person) for line in self.lines if line.person)
        return [change for change in people if not isinstance(change[2], UndoChange | RedoChange)]

    def history(self, describe: Callable[[Any], str], last: int = 0) -> list[dict[str, Any]]:
        """List the `last` changes, 0 for all, in the words of `describe`; those taken back are marked."""
        standing = {line.number for line in self.done}
        return [
            {
                "number": line.number,
                "at": line.at,
                "by": by,
                "words": describe(change),
                "undone": line.number not in standing,
            }
            for line, by, change in self.changes[-last:]
        ]

    def added(self, lines: Sequence[E]) -> "Replay[E, S]":
        """Add lines.

        Raises:
            InputError, ValueError: a change does not fit, or there is nothing to undo or redo.
        """
        after = Replay(self._apply)
        after.lines, after._states = [*self.lines], [*self._states]
        after.done, after.undone = [*self.done], [*self.undone]
        for line in lines:
            after._add(line)
        return after

    def own(self, by: str, *, redo: bool = False) -> E | None:
        """Find the change that a person would take back now, or make again."""
        lines = self.undone if redo else self.done
        return next((line for line in reversed(lines) if line.person and line.person[0] == by), None)

    def steps_back(self, by: str, describe: Callable[[Any], str]) -> dict[str, dict[str, Any] | None]:
        """Describe what `undo` and `redo` of a person would do; None where there is nothing.

        `at` is the time of the change, or at which it was taken back last.
        """
        undo, redo = self.own(by), self.own(by, redo=True)
        own = (line for line in reversed(self.lines) if line.person and line.person[0] == by)
        back = next((line for line in own if line.person and isinstance(line.person[1], UndoChange)), None)
        return {
            kind: {"number": line.number, "at": last.at, "words": describe(line.person[1])}
            if line and last and line.person
            else None
            for kind, line, last in (("undo", undo, undo), ("redo", redo, back))
        }

    def is_saved(self, seen: int, by: str, change: Any) -> bool:
        """Tell whether the change of somebody who has seen `seen` lines is here: its answer was lost.

        An undo or redo that names its line rests on no other line.

        Raises:
            ConflictError: another person's change, or another change, came first.
        """
        if isinstance(change, UndoChange | RedoChange) and change.of is not None:
            over = self.undone if isinstance(change, UndoChange) else self.done
            return change.of in (line.number for line in over)
        first = next((line.person for line in self.lines[seen:] if line.person is not None), None)
        if first is None and seen <= len(self.lines):
            return False
        if first != (by, change):
            raise ConflictError(first[0] if first else "nobody")
        return True

    def _add(self, line: E) -> None:
        self.lines.append(line)
        by, change = line.person or ("", None)
        if isinstance(change, UndoChange | RedoChange):
            self._turn(by, change)
            return
        if change is not None:
            self.done.append(line)
            self.undone = [other for other in self.undone if other.person and other.person[0] != by]
        self._fold(line)

    def _fold(self, line: E, *, stands: bool = True) -> None:
        state = self._states[-1] if self._states else None
        self._states.append(self._apply(state, line) if stands or state is None else state)
        del self._states[:-STATES]

    def _turn(self, by: str, change: UndoChange | RedoChange) -> None:
        """Take back, or make again, a person's own change, and make the states from there on anew."""
        undo = isinstance(change, UndoChange)
        line = self.own(by, redo=not undo)
        if line is None:
            raise InputError(f"there is nothing to {change.kind}")
        if change.of not in (None, line.number):
            raise InputError(f"change {change.of} is not your last one any more: look at it as it is now")
        out, into = (self.done, self.undone) if undo else (self.undone, self.done)
        out[:] = [other for other in out if other is not line]
        into.append(line)
        self.done.sort(key=lambda other: other.number)
        standing = {other.number for other in self.done}
        kept = max(0, line.number - len(self.lines) + len(self._states))
        first = line.number - 1 if kept else 0
        del self._states[kept:]
        try:
            for other in self.lines[first:]:
                self._fold(other, stands=other.person is None or other.number in standing)
        except InputError as e:
            raise InputError(f"later changes rest on that one: {e}") from e


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
    apply: Apply[E, S]
    get_image: Callable[[str], Image] = stand_in
    """Makes a picture of its reference."""

    @property
    def empty(self) -> ReadLog[E, S]:
        """Nothing, as it is read of no file."""
        return ReadLog(Replay(self.apply))

    def read(self, log: ReadLog[E, S] | None = None) -> ReadLog[E, S]:
        """Read the lines behind `log`, or all of a file that does not go on from there; none of no file.

        Raises:
            DatasetError: a line is damaged, or does not fit those before it.
        """
        log = log or self.empty
        try:
            with check_file(self.path).open("rb") as file:
                file.seek(log.size - len(log.last))
                if file.read(len(log.last)) != log.last:
                    log = self.empty
                    file.seek(0)
                lines = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
        except FileNotFoundError:
            return self.empty
        if not lines:
            return log
        first = len(log.replay.lines) + 1
        events = [self._parsed(number, line) for number, line in enumerate(lines, start=first)]
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
        lines = [e.model_dump_json(context={"put_image": reference_of}).encode() + b"\n" for e in events]
        size = log.size + sum(map(len, lines))
        if size > MAX_BYTES:
            raise DatasetError(f"{self.path}: holds too many changes: no more than {MAX_BYTES} bytes fit")
        append_lines(self.path, b"".join(lines), log.size)
        return ReadLog(replay, size, lines[-1])

    def _parsed(self, number: int, line: bytes) -> E:
        try:
            event = self.line.model_validate_json(line, context={"get_image": self.get_image})
            if event.number != number:
                raise ValueError(f"it is number {event.number}")
            return event
        except ValueError as e:
            if isinstance(e, ValidationError) and e.errors()[0]["type"] == "union_tag_invalid":
                raise DatasetError(
                    f"{self.path}: line {number} is of another version of goalreel ({first_line(e)}): use "
                    "that version, and leave the file as it is: later lines build on this one"
                ) from e
            raise DatasetError(
                f"{self.path}: line {number} is damaged ({first_line(e)}): restore the file, or remove that "
                "line and all lines after it"
            ) from e
