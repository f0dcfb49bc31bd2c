"""From the lines of a log to the storyboard, with undo and redo. Pure.

A line is a fact (what a model or a record said), or a person's change. Undo takes back the last change that
stands, redo makes the one again that was taken back last; both are lines too, so nothing leaves a log.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from goalreel.errors import InputError

STATES = 500
"""Lines whose states are kept, so that undo does not begin with the first line."""


class Line(Protocol):
    """A line of a log: a pydantic model with a number, 1 for the first line."""

    @property
    def number(self) -> int: ...
    @classmethod
    def model_validate_json(cls, json_data: bytes, *, context: Any = None) -> Self: ...
    def model_dump_json(self, *, context: Any = None) -> str: ...


class Change(Protocol):
    """A person's change; `undo` and `redo` are the kinds of those of changes."""

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True)
class Rules[E: Line, S]:
    """Rules by which the lines of one kind of log come to a state."""

    person: Callable[[E], tuple[str, Change] | None]
    """The person and the change of a line; None for a fact."""
    apply: Callable[[S | None, E], S]
    """Makes the state after a line that stands. It raises ValueError where the line does not fit."""
    skip: Callable[[S, E], S] = lambda state, line: state
    """Makes the state after a change that was taken back, and after undo and redo."""


class ConflictError(InputError):
    """Another change came first."""

    def __init__(self, by: str) -> None:
        super().__init__(f"a change by {by} came first: look at it, then change that")
        self.by = by


class Replay[E: Line, S]:
    """The lines of a log and their state; more lines give another replay."""

    def __init__(self, rules: Rules[E, S]) -> None:
        self._rules = rules
        self.lines: list[E] = []
        self.done: list[E] = []
        """The changes that stand, in order."""
        self.undone: list[E] = []
        """The changes that were taken back, and can be made again, the last one last."""
        self._standing: set[int] = set()
        """The numbers of the lines in `done`."""
        self._states: list[S] = []

    @property
    def state(self) -> S:
        """The state after the last line; there is at least one."""
        return self._states[-1]

    @property
    def changes(self) -> list[E]:
        """All changes of people but undo and redo, in order, whether they stand or not."""
        found = ((line, self._rules.person(line)) for line in self.lines)
        return [line for line, person in found if person and person[1].kind not in ("undo", "redo")]

    def history(
        self, line: Callable[[E], dict[str, Any]], *, offset: int = 0, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """List the changes as `line` describes each; those that were taken back are marked.

        The `offset` newest are left out, and all before the last `limit` of the others.
        """
        changes = self.changes
        end = max(0, len(changes) - offset)
        start = 0 if limit is None else max(0, end - limit)
        return [
            line(change) | {"undone": change.number not in self._standing} for change in changes[start:end]
        ]

    def added(self, lines: Sequence[E]) -> "Replay[E, S]":
        """Add lines.

        Raises:
            InputError, ValueError: a change does not fit, or there is nothing to undo or redo.
        """
        after = Replay(self._rules)
        after.lines, after.done, after.undone = [*self.lines], [*self.done], [*self.undone]
        after._standing, after._states = {*self._standing}, [*self._states]
        for line in lines:
            after._add(line)
        return after

    def is_saved(self, seen: int, by: str, change: Change) -> bool:
        """Tell whether the change of somebody who has seen `seen` lines is here: its answer was lost.

        Raises:
            ConflictError: another person's change, or another change, came first.
        """
        if self._first_after(seen) == (by, change):
            return True
        self.check(seen)
        return False

    def check(self, seen: int) -> None:
        """Check that nobody has changed anything since there were `seen` lines.

        Raises:
            ConflictError: somebody has, or lines that were seen are gone.
        """
        first = self._first_after(seen)
        if first is not None or seen > len(self.lines):
            raise ConflictError(first[0] if first else "nobody")

    def _first_after(self, seen: int) -> tuple[str, Change] | None:
        found = map(self._rules.person, self.lines[seen:])
        return next((change for change in found if change is not None), None)

    def _add(self, line: E) -> None:
        found = self._rules.person(line)
        kind = None if found is None else found[1].kind
        self.lines.append(line)
        if kind == "undo":
            if not self.done:
                raise InputError("there is nothing to undo")
            self.undone.append(self.done.pop())
            self._standing.remove(self.undone[-1].number)
            self._fold(self.undone[-1].number)
        elif kind == "redo":
            if not self.undone:
                raise InputError("there is nothing to redo")
            self.done.append(self.undone.pop())
            self._standing.add(self.done[-1].number)
            self._fold(self.done[-1].number)
        else:
            if kind is not None:
                self.done.append(line)
                self._standing.add(line.number)
                self.undone.clear()
            self._fold(line.number)

    def _fold(self, number: int) -> None:
        """Make the states from line `number` on anew."""
        kept = number - 1 - (len(self.lines) - 1 - len(self._states))
        first = number - 1 if kept > 0 else 0
        self._states = self._states[: max(kept, 0)]
        for line in self.lines[first:]:
            state = self._states[-1] if self._states else None
            stands = self._rules.person(line) is None or line.number in self._standing
            if stands or state is None:
                self._states.append(self._rules.apply(state, line))
            else:
                self._states.append(self._rules.skip(state, line))
        del self._states[:-STATES]
