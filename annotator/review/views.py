"""An episode's review as JSON: the requests of the page, and the answers that it gets."""

from typing import Annotated, Any, assert_never
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from goalreel.annotator.report.cards import claim_lines
from goalreel.boards.words import FRAME, Phrase, StepId, Who, one_line
from goalreel.datasets.corrections import events
from goalreel.datasets.corrections.board import WORDS, has_followed
from goalreel.datasets.corrections.reviews import Reviewed
from goalreel.datasets.corrections.state import ReviewStep
from goalreel.details import Details
from goalreel.types import Attempt, StoryboardStep
from goalreel.wording import background_note, verdict_text

type Json = dict[str, Any]
type PageEvent = Annotated[
    events.StepEdit
    | events.InsertStep
    | events.RenameStep
    | events.FlagIssue
    | events.GiveVerdict
    | events.UndoChange
    | events.RedoChange,
    Field(discriminator="kind"),
]
"""A change that the page may request; only the server itself adds a rendering."""
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


def _clean(event: PageEvent) -> PageEvent:
    texts = ("name", "instruction", "prompt", "text")
    lines = {name: one_line(text) for name in texts if (text := getattr(event, name, None)) is not None}
    return event.model_copy(update=lines)


class Seen(BaseModel):
    """A request of a person who has seen a revision of an episode."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    revision: Annotated[int, Field(ge=0)]
    by: Who


class ChangeRequest(Seen):
    """A change of an episode."""

    event: Annotated[PageEvent, AfterValidator(_clean)]


class RenderRequest(Seen):
    """Another picture of a step, from a person's prompt."""

    step: StepId
    prompt: Phrase


def step_view(episode: int, step: ReviewStep, corrected: StoryboardStep) -> Json:
    """Describe a step with its attempts; `corrected` is what it is to the dataset.

    `end` is the first frame after the step. Frames that it ended with once, and nobody chose, are left out.
    """
    words, segment = step.step, step.segment
    return {
        "id": step.id,
        **words.model_dump(include={"name", "instruction", "prompt", "outcome"}),
        "start": segment.start if segment else None,
        "end": segment.end if segment else None,
        "unaligned": step.alignment.reason if step.alignment else None,
        "doubts": corrected.step.doubts,
        "claims": corrected.claims,
        "claim_lines": claim_lines(corrected.claims),
        "details": words.details or Details(),
        "issues": step.issues,
        "chosen": step.chosen,
        "edited": sorted(step.edited),
        "attempts": [
            _attempt(episode, step, number)
            for number, attempt in enumerate(step.attempts)
            if number == step.chosen or not has_followed(attempt)
        ],
    }


def _attempt(episode: int, step: ReviewStep, number: int) -> Json:
    attempt = step.attempts[number]
    verdict, failure = attempt.verdict, attempt.failure
    outcome = "failed" if verdict is None else "accepted" if verdict.success else "rejected"
    if number in step.taken or (number == step.chosen and "goal" in step.edited):
        outcome = "person"
    elif has_followed(attempt):
        outcome = "observed"
    text = f"{failure.stage}: {failure.message}" if failure else ""
    if verdict is not None:
        text = verdict_text(verdict, attempt.registration)
    elif note := background_note(attempt.registration, text):
        text = f"{text} {note}"
    return {
        "number": number,
        "picture": _picture(episode, attempt),
        "prompt": attempt.prompt,
        "by": attempt.by,
        "outcome": outcome,
        "text": text,
        "probability": verdict.probability if verdict else None,
        "semantics": verdict.semantics if verdict else None,
        "quality": verdict.quality if verdict else None,
    }


def _picture(episode: int, attempt: Attempt) -> str | None:
    reference = attempt.image.frame if attempt.image else None
    if reference is None:
        return None
    if not reference.startswith(FRAME):
        return "/pictures/" + reference.removeprefix("images/")
    camera, _, frame = reference.removeprefix(FRAME).rpartition("#")
    return f"/frames/{episode}/{quote(camera, safe='')}/{frame}.jpg?width={PICTURE_WIDTH}"


def history_view(reviewed: Reviewed, offset: int = 0, limit: int = HISTORY) -> Json:
    """List the last changes, leaving out the `offset` newest; `changes` counts all of them."""
    names = {step.id: step.step.name for step in reviewed.review.steps}

    def line(entry: events.LogEntry) -> Json:
        words = _describe(entry.change, names)
        return {"number": entry.revision, "at": entry.at, "by": entry.by, "words": words}

    lines = reviewed.replay.history(line, offset=offset, limit=limit)
    return {"changes": len(reviewed.replay.changes), "history": lines}


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
        case events.BeginLog() | events.UndoChange() | events.RedoChange():
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
