"""From the lines of a log to the episode as people have it. Pure."""

from collections.abc import Sequence

from goalreel.datasets.corrections.changes import changed
from goalreel.datasets.corrections.events import (
    BeginLog,
    FlagIssue,
    GiveVerdict,
    Issue,
    LogEntry,
    RedoChange,
    UndoChange,
)
from goalreel.datasets.corrections.state import Review, ReviewStep
from goalreel.datasets.fingerprint import same_frames
from goalreel.types import Segment

STATES = 100
"""Changes that can be taken back without making all those before them again."""


class Replay:
    """What the lines of a log, which begins with a `Begin`, come to; more lines give another one."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.done: list[LogEntry] = []
        """The entries that stand, in order."""
        self.undone: list[LogEntry] = []
        """The changes that were taken back, the last one last."""
        self._states: list[Review] = []

    @property
    def review(self) -> Review:
        """What the lines come to on their own record; there is at least one line."""
        return self._states[-1]

    @property
    def can_undo(self) -> bool:
        """Whether a change stands."""
        return any(not isinstance(entry.change, BeginLog) for entry in reversed(self.done))

    def on(self, base: BeginLog) -> Review:
        """What they come to on the record as it is now."""
        return self.review if self.review.record == base.record else renewed(self.review, base)

    def added(self, entries: Sequence[LogEntry]) -> "Replay":
        """The same with more lines.

        Raises:
            InputError, StopIteration, IndexError: a change does not fit what it is made to.
        """
        after = Replay()
        after.entries, after.done, after.undone = [*self.entries], [*self.done], [*self.undone]
        after._states = [*self._states]
        for entry in entries:
            after._add(entry)
        return after

    def _add(self, entry: LogEntry) -> None:
        if isinstance(entry.change, UndoChange):
            self._undo()
        elif isinstance(entry.change, RedoChange):
            self._make(self.undone.pop())
        else:
            if not isinstance(entry.change, BeginLog):
                self.undone.clear()
            self._make(entry)
        self.entries.append(entry)

    def _make(self, entry: LogEntry) -> None:
        self._states.append(_next(self._states[-1] if self._states else None, entry))
        del self._states[:-STATES]
        self.done.append(entry)

    def _undo(self) -> None:
        last = next(
            i for i in reversed(range(len(self.done))) if not isinstance(self.done[i].change, BeginLog)
        )
        self.undone.append(self.done.pop(last))
        if last == len(self.done) and len(self._states) > 1:
            self._states.pop()
            return
        done, self.done, self._states = self.done, [], []
        for entry in done:
            self._make(entry)


def _next(review: Review | None, entry: LogEntry) -> Review:
    """What an entry makes of an episode; None before the first one."""
    change = entry.change
    if isinstance(change, BeginLog):
        return Review.of(change) if review is None else renewed(review, change)
    assert review is not None
    match change:
        case UndoChange() | RedoChange():
            return review
        case GiveVerdict(verdict=verdict):
            return review.model_copy(update={"verdict": verdict, "by": entry.by})
        case FlagIssue() as flag:
            return _flagged(review, flag)
        case edit:
            return changed(review, edit, f"r{entry.revision}")


def renewed(review: Review, base: BeginLog) -> Review:
    """What a person's corrections make of another record of the episode.

    Their steps stay. Where the record has the very same ones, as after `annotate` with their plan, its goal
    images take the place of those that nobody set. A verdict, or an issue, stays with what it was said of.
    """
    fresh = Review.of(base)
    if not same_frames(base.recording, review.recording) or base.length != review.length:
        return fresh
    review = review.with_instruction(fresh.task.instruction)
    if _outline(review) == _outline(fresh):
        pairs = zip(review.steps, fresh.steps, strict=True)
        steps = tuple(old if "goal" in old.edited else _renewed(old, new) for old, new in pairs)
        same = [s.goal for s in steps] == [s.goal for s in review.steps]
        opinion = {"verdict": review.verdict, "by": review.by} if same else {}
        review_fields = {"issues": review.issues, "corrected": review.corrected}
        return fresh.model_copy(update={"steps": steps} | review_fields | opinion)
    if not review.corrected:
        return fresh
    newer = {"record": fresh.record, "recording": fresh.recording, "task": fresh.task}
    return review.model_copy(update=newer)


def _renewed(old: ReviewStep, new: ReviewStep) -> ReviewStep:
    issues = tuple(issue for issue in old.issues if issue != "wrong_picture" or old.goal == new.goal)
    return new.model_copy(update={"id": old.id, "edited": old.edited, "issues": issues})


def _outline(review: Review) -> list[tuple[Segment | None, str, str]]:
    return [(s.segment, s.step.name, s.step.outcome) for s in review.steps]


def _flagged(review: Review, flag: FlagIssue) -> Review:
    def marked(issues: tuple[Issue, ...]) -> tuple[Issue, ...]:
        others: list[Issue] = [issue for issue in issues if issue != flag.issue]
        return (*others, *([flag.issue] if flag.on else []))

    if flag.step is None:
        return review.model_copy(update={"issues": marked(review.issues)})
    at = review.place(flag.step)
    step = review.steps[at]
    return review.replaced(at, step.model_copy(update={"issues": marked(step.issues)}))
