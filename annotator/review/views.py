"""Convert an episode's review to the answers that the page gets."""

from typing import assert_never
from urllib.parse import quote

from goalreel.annotator.report.cards import claim_lines
from goalreel.annotator.review.schemas import AttemptAnswer, HistoryAnswer, HistoryLine, StepAnswer
from goalreel.datasets.corrections import events
from goalreel.datasets.corrections.board import WORDS, has_followed
from goalreel.datasets.corrections.files import FRAME
from goalreel.datasets.corrections.reviews import Reviewed
from goalreel.datasets.corrections.state import ReviewStep
from goalreel.details import Details
from goalreel.types import Attempt, StoryboardStep
from goalreel.wording import background_note, verdict_text

PICTURE_WIDTH = 480
"""Width in pixels of a goal image that is a frame of the recording."""
HISTORY = 20
"""Changes in an answer."""
_VERDICTS = {"accept": "accepted it", "reject": "rejected it", "unsure": "was unsure of it"}

_PLAIN = {
    "merge": "merged with the next step",
    "delete": "deleted",
    "blank": "left without a goal image",
    "render": "rendered again",
}


def step_answer(episode: int, step: ReviewStep, corrected: StoryboardStep) -> StepAnswer:
    """A step with its attempts; `corrected` is what it is to the dataset."""
    plan_step, segment = step.step, step.segment
    return StepAnswer(
        id=step.id,
        name=plan_step.name,
        instruction=plan_step.instruction,
        prompt=plan_step.prompt,
        outcome=plan_step.outcome,
        start=segment.start if segment else None,
        end=segment.end if segment else None,
        unaligned=step.alignment.reason if step.alignment else None,
        doubts=corrected.step.doubts,
        claims=corrected.claims,
        claim_lines=claim_lines(corrected.claims),
        details=plan_step.details or Details(),
        issues=step.issues,
        chosen=step.chosen,
        edited=sorted(step.edited),
        attempts=[
            _attempt(episode, step, number)
            for number, attempt in enumerate(step.attempts)
            if number == step.chosen or not has_followed(attempt)
        ],
    )


def _attempt(episode: int, step: ReviewStep, number: int) -> AttemptAnswer:
    attempt = step.attempts[number]
    verdict, failure = attempt.verdict, attempt.failure
    picked = number in step.taken or (number == step.chosen and "goal" in step.edited)
    outcome = "failed" if verdict is None else "accepted" if verdict.success else "rejected"
    if has_followed(attempt):
        outcome = "observed"
    text = f"{failure.stage}: {failure.message}" if failure else ""
    if verdict is not None:
        text = verdict_text(verdict, attempt.registration)
    elif note := background_note(attempt.registration, text):
        text = f"{text} {note}"
    return AttemptAnswer(
        number=number,
        picture=_picture(episode, attempt),
        prompt=attempt.prompt,
        by=attempt.by,
        outcome="person" if picked else outcome,
        text=text,
        probability=verdict.probability if verdict else None,
        semantics=verdict.semantics if verdict else None,
        quality=verdict.quality if verdict else None,
    )


def _picture(episode: int, attempt: Attempt) -> str | None:
    """The address of the picture."""
    reference = attempt.image.frame if attempt.image else None
    if reference is None:
        return None
    if not reference.startswith(FRAME):
        return "/pictures/" + reference.removeprefix("images/")
    camera, _, frame = reference.removeprefix(FRAME).rpartition("#")
    return f"/frames/{episode}/{quote(camera, safe='')}/{frame}.jpg?width={PICTURE_WIDTH}"


def history(reviewed: Reviewed, offset: int = 0, limit: int = HISTORY) -> HistoryAnswer:
    """List the last changes but undo and redo, in order, leaving out the `offset` newest.

    Changes that were undone are marked.
    """
    undo = (events.UndoChange, events.RedoChange)
    changes = [entry for entry in reviewed.entries[1:] if not isinstance(entry.change, undo)]
    effective = {entry.revision for entry in reviewed.replay.done}
    names = {step.id: step.step.name for step in reviewed.review.steps}
    end = max(0, len(changes) - offset)
    lines = [
        HistoryLine(
            revision=entry.revision,
            at=entry.at,
            by=entry.by,
            words=_describe(entry.change, names),
            undone=entry.revision not in effective,
        )
        for entry in changes[max(0, end - limit) : end]
    ]
    return HistoryAnswer(changes=len(changes), history=lines)


def _describe(change: events.BeginLog | events.Correction, names: dict[str, str]) -> str:
    match change:
        case events.InsertStep(start=start, end=end, name=name):
            return f"“{name}” inserted at frames {start} to {end}"
        case events.RenameStep(name=name):
            return f"words set to “{name}”"
        case events.FlagIssue(step=None, issue=issue, on=on):
            return f"the episode: {_flag(issue, on)}"
        case events.GiveVerdict(verdict=verdict):
            return _VERDICTS[verdict]
        case events.BeginLog():
            return "annotated again"
        case events.UndoChange() | events.RedoChange():
            return change.kind
    step = names.get(change.step or "")
    return f"{f'“{step}”' if step else 'a step that is gone'} {_describe_step_change(change)}"


def _describe_step_change(change: events.StepEdit | events.AddRendering | events.FlagIssue) -> str:
    """Describe a change of a step, as the end of a sentence that begins with the step's name."""
    match change:
        case events.MoveBoundary(edge=edge, frame=frame):
            return f"{edge}s at frame {frame}"
        case events.PlaceStep(start=start, end=end):
            return f"placed at frames {start} to {end}"
        case events.SplitStep(frame=frame):
            return f"split at frame {frame}"
        case events.MergeSteps() | events.DeleteStep() | events.BlankGoal() | events.AddRendering():
            return _PLAIN[change.kind]
        case events.SetOutcome(outcome=outcome):
            return "tried in vain" if outcome == "failed" else "done"
        case events.DescribeStep(detail=detail, text=text):
            return f"has no {detail}" if text is None else f"has the {detail} “{text}”"
        case events.ChooseAttempt(attempt=attempt):
            return f"has attempt {attempt + 1} as its goal image"
        case events.TakeFrame(frame=frame):
            return f"has frame {frame} as its goal image"
        case events.FlagIssue(issue=issue, on=on):
            return _flag(issue, on)
    assert_never(change)


def _flag(issue: events.Issue, on: bool) -> str:
    return WORDS[issue] if on else f"no longer {WORDS[issue]}"
