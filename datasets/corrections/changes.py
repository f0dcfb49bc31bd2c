"""From the lines of an episode's log to the episode as people have it. Pure.

Where a step's end is set and its goal image is a frame of the recording that nobody chose, the goal becomes
the step's new last frame: it is what the policy is to reach.
"""

from collections.abc import Collection
from typing import assert_never

from goalreel.boards.replay import Change, Rules
from goalreel.boards.words import FRAME, stand_in
from goalreel.claims import PERSON
from goalreel.datasets.corrections import events
from goalreel.datasets.corrections.board import FOLLOWED, TOOK
from goalreel.datasets.corrections.state import Review, ReviewPart, ReviewStep
from goalreel.datasets.fingerprint import same_frames
from goalreel.details import ASPECTS, Detail, Details, FailureDetail
from goalreel.errors import InputError
from goalreel.types import Attempt, Segment, Step, Verdict

_MENDED: dict[ReviewPart, tuple[events.Issue, ...]] = {
    "time": ("wrong_time",),
    "words": ("wrong_object",),
    "outcome": (),
    "goal": ("wrong_picture",),
}
"""The issues that are over once a person has set a part anew."""


def changed(review: Review, change: events.StepCorrection, name: str) -> Review:
    """The episode with a change made to it; a step that it adds has the id `name`.

    Raises:
        InputError: the change does not fit the episode.
    """
    return _changed(review, change, name).model_copy(
        update={"corrected": True, "verdict": None, "by": None, "failure": None}
    )


def _changed(review: Review, change: events.StepCorrection, name: str) -> Review:
    match change:
        case events.MoveBoundary():
            return _moved(review, change)
        case events.InsertStep():
            return _inserted(review, change, name)
    at = review.place(change.step)
    step = review.steps[at]
    match change:
        case events.PlaceStep():
            segment = _free(review, change.start, change.end, besides=at)
            return _sorted(review.replaced(at, _timed(review, step, segment)))
        case events.SplitStep():
            return _split(review, at, change, name)
        case events.MergeSteps():
            return _merged(review, at)
        case events.DeleteStep():
            return review.replaced(at)
        case events.RenameStep():
            return review.replaced(at, _set(step, "words", step=_worded(step.step, change)))
        case events.SetOutcome():
            renamed = step.step.model_copy(update={"outcome": change.outcome})
            if change.outcome == "done":
                renamed = renamed.model_copy(update={"details": _whole_details(renamed, failure=None)})
            return review.replaced(at, _set(step, "outcome", step=renamed))
        case events.DescribeStep():
            return review.replaced(at, step.model_copy(update={"step": _described(step.step, change)}))
        case events.ChooseAttempt():
            return review.replaced(at, _chosen(step, change.attempt))
        case events.TakeFrame():
            if change.frame >= review.length:
                raise InputError(f"frame {change.frame} is none of the episode's {review.length}")
            return review.replaced(at, _set(_took(step, change.camera, change.frame), "goal"))
        case events.BlankGoal():
            return review.replaced(at, _set(step, "goal", chosen=None))
        case events.AddRendering():
            return review.replaced(
                at, step.model_copy(update={"attempts": (*step.attempts, *change.attempts)})
            )
    assert_never(change)


def _set(target: ReviewStep, part: ReviewPart, **fields: object) -> ReviewStep:
    """The step with a part of it set by a person; what was told of other frames goes."""
    if part == "time":
        fields["step"] = _without(target.step, (*ASPECTS, "failure"))
    issues = tuple(issue for issue in target.issues if issue not in _MENDED[part])
    return target.model_copy(update={"edited": target.edited | {part}, "issues": issues} | fields)


def _timed(review: Review, step: ReviewStep, segment: Segment) -> ReviewStep:
    """The step with other frames, and with another last frame as its goal where that is what it was."""
    ended = step.segment is None or step.segment.end != segment.end
    step = _set(step, "time", segment=segment, alignment=None)
    recorded = step.goal is None or step.goal.startswith(FRAME)
    camera = review.camera if step.goal is None else step.goal.removeprefix(FRAME).rpartition("#")[0]
    pictured = step.goal is not None or step.step.prompt is not None
    if ended and recorded and camera and "goal" not in step.edited and pictured:
        verdict = Verdict(success=True, reasoning=FOLLOWED, pictures_only=True)
        return _with_frame(step, camera, segment.end - 1, verdict)
    return step


def _took(step: ReviewStep, camera: str, frame: int) -> ReviewStep:
    """The step with a frame that a person took."""
    step_with_frame = _with_frame(step, camera, frame, Verdict(success=True, reasoning=TOOK))
    return step_with_frame.model_copy(update={"taken": step.taken | {len(step.attempts)}})


def _with_frame(step: ReviewStep, camera: str, frame: int, verdict: Verdict) -> ReviewStep:
    """The step with a frame of the recording as one more attempt, chosen."""
    prompt = step.step.prompt or step.step.instruction
    attempt = Attempt(prompt=prompt, seed=0, image=stand_in(f"{FRAME}{camera}#{frame}"), verdict=verdict)
    return step.model_copy(update={"attempts": (*step.attempts, attempt), "chosen": len(step.attempts)})


def _chosen(step: ReviewStep, attempt: int) -> ReviewStep:
    if attempt >= len(step.attempts) or step.attempts[attempt].image is None:
        raise InputError(f"step {step.id} has no attempt {attempt} with a picture")
    return _set(step, "goal", chosen=attempt)


def _worded(step: Step, change: events.RenameStep) -> Step:
    texts = {"name": change.name.strip()}
    if change.instruction is not None:
        texts["instruction"] = change.instruction.strip()
    if change.prompt is not None:
        texts["prompt"] = change.prompt.strip()
    return _without(step.model_copy(update=texts), ("reasoning",))


def _without(step: Step, names: Collection[str]) -> Step:
    """The step without the details `names` that models or rules told of it."""
    return step.model_copy(update={"details": step.details and step.details.without(names)})


def _whole_details(step: Step, **fields: object) -> Details | None:
    """The step's details with some of them set; None where none is left."""
    details = (step.details or Details()).model_copy(update=fields)
    return None if details == Details() else details


def _described(step: Step, change: events.DescribeStep) -> Step:
    if change.detail == "failure" and step.outcome != "failed":
        raise InputError("the step is done: say that it failed before you say why")
    detail: Detail | None = None
    if change.text is not None:
        who = {"text": change.text.strip(), "by": PERSON, "checked": PERSON}
        failure = change.detail == "failure"
        detail = FailureDetail(**who, restorable=change.restorable) if failure else Detail(**who)
    return step.model_copy(update={"details": _whole_details(step, **{change.detail: detail})})


def _moved(review: Review, change: events.MoveBoundary) -> Review:
    at = review.place(change.step)
    segment = _segment(review.steps[at])
    start = change.edge == "start"
    moved = (change.frame, segment.end) if start else (segment.start, change.frame)
    near = _neighbour(review, at, -1 if start else 1)
    if near is not None:
        other = _segment(review.steps[near])
        edge, limit = (other.end, other.start) if start else (other.start, other.end)
        if edge == (segment.start if start else segment.end):
            adjoined = (limit, change.frame) if start else (change.frame, limit)
            with_it = _timed(review, review.steps[near], _whole(review, *adjoined))
            review = review.replaced(near, with_it)
        elif change.frame < edge if start else change.frame > edge:
            raise InputError(f"frame {change.frame} is of step {review.steps[near].id}")
    return review.replaced(at, _timed(review, review.steps[at], _whole(review, *moved)))


def _split(review: Review, at: int, change: events.SplitStep, name: str) -> Review:
    step, segment = review.steps[at], _segment(review.steps[at])
    first = _whole(review, segment.start, change.frame)
    second = _whole(review, change.frame, segment.end)
    second_step = _set(step, "time", id=name, segment=second)
    bare = {"attempts": (), "chosen": None, "edited": step.edited - {"goal"}}
    first_step = _timed(review, step.model_copy(update=bare | {"taken": frozenset()}), first)
    return review.replaced(at, first_step, second_step)


def _merged(review: Review, at: int) -> Review:
    step = review.steps[at]
    after = _neighbour(review, at, 1)
    if after is None:
        raise InputError(f"there is no step after step {step.id} to merge it with")
    last = review.steps[after]
    both = Segment(start=_segment(step).start, end=_segment(last).end)
    goal = {name: getattr(last, name) for name in ("attempts", "chosen", "taken")}
    edited = step.edited | last.edited
    joined = _set(step, "time", segment=both, **goal).model_copy(update={"edited": edited | {"time"}})
    # What lies between them was found nowhere, so it stays.
    return review.replaced(after).replaced(at, joined)


def _inserted(review: Review, change: events.InsertStep, name: str) -> Review:
    segment = _free(review, change.start, change.end)
    text = change.name.strip()
    step = ReviewStep(
        id=name,
        step=Step(name=text, instruction=text, prompt=text),
        segment=None,
        attempts=(),
        chosen=None,
        edited=frozenset[ReviewPart]({"words"}),
    )
    steps = (*review.steps, _timed(review, step, segment))
    return _sorted(review.model_copy(update={"steps": steps}))


def _sorted(review: Review) -> Review:
    """Steps in the order of their frames; one without frames stays behind the one that it was behind."""
    keys: list[int] = []
    for step in review.steps:
        keys.append(step.segment.start if step.segment else keys[-1] if keys else -1)
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return review.model_copy(update={"steps": tuple(review.steps[i] for i in order)})


def _segment(step: ReviewStep) -> Segment:
    if step.segment is None:
        raise InputError(f"step {step.id} has no place in the recording: place it first")
    return step.segment


def _neighbour(review: Review, at: int, way: int) -> int | None:
    """The next step, or the last one, that has frames."""
    numbers = range(at + 1, len(review.steps)) if way > 0 else reversed(range(at))
    return next((i for i in numbers if review.steps[i].segment is not None), None)


def _whole(review: Review, start: int, end: int) -> Segment:
    if not 0 <= start < end <= review.length:
        raise InputError(f"frames {start} to {end} of {review.length}: a step holds at least one")
    return Segment(start=start, end=end)


def _free(review: Review, start: int, end: int, besides: int | None = None) -> Segment:
    segment = _whole(review, start, end)
    for number, step in enumerate(review.steps):
        if number == besides or step.segment is None:
            continue
        if step.segment.start < end and start < step.segment.end:
            raise InputError(f"frames {start} to {end} overlap step {step.id}")
    return segment


def _person(entry: events.LogEntry) -> tuple[str, Change] | None:
    return None if isinstance(entry.change, events.BeginLog) else (entry.by, entry.change)


def _after(review: Review | None, entry: events.LogEntry) -> Review:
    if isinstance(entry.change, events.BeginLog):
        return Review.of(entry.change) if review is None else renewed(review, entry.change)
    if review is None:
        raise ValueError("the first line names no record")
    match entry.change:
        case events.UndoChange() | events.RedoChange():
            return review
        case events.GiveVerdict(verdict=verdict):
            return review.model_copy(update={"verdict": verdict, "by": entry.by})
        case events.FlagIssue() as flag:
            return _flagged(review, flag)
        case change:
            return changed(review, change, f"r{entry.revision}")


RULES: Rules[events.LogEntry, Review] = Rules(_person, _after)
"""Rules by which the lines of an episode's log come to its review."""


def on_record(review: Review, base: events.BeginLog) -> Review:
    """Carry a review over to the record as it is now."""
    return review if review.record == base.record else renewed(review, base)


def renewed(review: Review, base: events.BeginLog) -> Review:
    """Carry a person's corrections over to another record of the episode.

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


def _flagged(review: Review, flag: events.FlagIssue) -> Review:
    def marked(issues: tuple[events.Issue, ...]) -> tuple[events.Issue, ...]:
        others: list[events.Issue] = [issue for issue in issues if issue != flag.issue]
        return (*others, *([flag.issue] if flag.on else []))

    if flag.step is None:
        return review.model_copy(update={"issues": marked(review.issues)})
    at = review.place(flag.step)
    step = review.steps[at]
    return review.replaced(at, step.model_copy(update={"issues": marked(step.issues)}))
