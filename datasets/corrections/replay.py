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
from goalreel.types import Segment


def reviewed(entries: Sequence[LogEntry]) -> Review:
    """What a log that begins with a `Begin` comes to.

    Raises:
        InputError: a change does not fit what it is made to.
    """
    done, _ = standing(entries)
    assert isinstance(done[0].change, BeginLog)
    review = Review.of(done[0].change)
    for entry in done[1:]:
        match entry.change:
            case BeginLog():
                review = renewed(review, entry.change)
            case UndoChange() | RedoChange():
                continue
            case GiveVerdict(verdict=verdict):
                review = review.model_copy(update={"verdict": verdict, "by": entry.by})
            case FlagIssue() as flag:
                review = _flagged(review, flag)
            case edit:
                review = changed(review, edit, f"r{entry.revision}")
    return review


def standing(entries: Sequence[LogEntry]) -> tuple[list[LogEntry], list[LogEntry]]:
    """The entries that stand, in order, and the changes that were taken back, the last one last."""
    done: list[LogEntry] = []
    undone: list[LogEntry] = []
    for entry in entries:
        if isinstance(entry.change, UndoChange):
            last = next(i for i in reversed(range(len(done))) if not isinstance(done[i].change, BeginLog))
            undone.append(done.pop(last))
        elif isinstance(entry.change, RedoChange):
            done.append(undone.pop())
        else:
            done.append(entry)
            if not isinstance(entry.change, BeginLog):
                undone.clear()
    return done, undone


def renewed(review: Review, base: BeginLog) -> Review:
    """What a person's corrections make of another record of the episode.

    Their steps stay. Where the record has the very same ones, as after `annotate` with their plan, its goal
    images take the place of those that nobody set. A verdict, or an issue, stays with what it was said of.
    """
    fresh = Review.of(base)
    if base.recording != review.recording or base.length != review.length:
        return fresh
    if _outline(review) == _outline(fresh):
        pairs = zip(review.steps, fresh.steps, strict=True)
        steps = tuple(old if "goal" in old.edited else _renewed(old, new) for old, new in pairs)
        same = [s.goal for s in steps] == [s.goal for s in review.steps]
        opinion = {"verdict": review.verdict, "by": review.by} if same else {}
        review_fields = {"issues": review.issues, "corrected": review.corrected}
        return fresh.model_copy(update={"steps": steps} | review_fields | opinion)
    if not review.corrected:
        return fresh
    return review.model_copy(update={"record": fresh.record, "task": fresh.task})


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
