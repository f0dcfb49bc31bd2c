"""An episode under review, and what each change of a person makes of it. Pure.

Where a step's end is set and its goal image is a frame of the recording that nobody chose, the goal becomes
the step's new last frame: it is what the policy is to reach.
"""

from typing import Literal, Self, assert_never

from goalreel.boards.step import WORDS_CHANGED, EditedBoard, EditedStep, RedoChange, UndoChange
from goalreel.claims import ASPECTS, PERSON, Detail, Details, FailureDetail
from goalreel.datasets.corrections import events
from goalreel.datasets.fingerprint import same_frames
from goalreel.errors import InputError
from goalreel.image import FRAME, recorded_frame, stand_in
from goalreel.planners.rows import one_wording
from goalreel.types import Alignment, Attempt, MotionPhase, Segment, Step, StoryboardStep, Verdict

type ReviewPart = Literal["time", "words", "outcome", "goal"]
TOOK = "A person took this frame."
FOLLOWED = "The last frame of the step, whose end a person set."
CARRIED_END = "A frame at the end of the step, as it was carried over."
_MENDED: dict[ReviewPart, events.Issue] = {
    "time": "wrong_time",
    "words": "wrong_object",
    "goal": "wrong_picture",
}
"""The issue that is over once a person has set a part anew."""


class ReviewStep(EditedStep[Attempt]):
    """A step as the person sees it; the `frame` of a picture is the record's reference."""

    segment: Segment | None
    alignment: Alignment | None = None
    edited: frozenset[ReviewPart] = frozenset()
    taken: frozenset[int] = frozenset()
    """The attempts that are frames which a person took."""
    issues: tuple[events.Issue, ...] = ()
    accepted: bool = False
    """A person who looked has accepted this step, whatever they say of the episode."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """The reasons why its words may be untrue; none where a person wrote them."""
        return () if "words" in self.edited else self.step.doubts

    @property
    def goal(self) -> str | None:
        """Reference of its goal image."""
        image = None if self.chosen is None else self.attempts[self.chosen].image
        return image.frame if image else None

    @property
    def placed(self) -> Segment:
        """Its frames; raises InputError where it was found nowhere."""
        if self.segment is None:
            raise InputError(f"step {self.id} has no place in the recording: place it first")
        return self.segment

    @classmethod
    def of(cls, number: int, step: StoryboardStep) -> Self:
        """The step that a record has at this place."""
        names = ("step", "segment", "attempts", "chosen", "alignment")
        return cls(id=str(number), **{name: getattr(step, name) for name in names})

    def set(self, part: ReviewPart, **fields: object) -> Self:
        """Set a part, as a person does."""
        issues = tuple(issue for issue in self.issues if issue != _MENDED.get(part))
        return self.updated(edited=self.edited | {part}, issues=issues, **fields)

    def reworded(self, **words: str) -> Self:
        """Set words. What a model said of pictures under another claim says nothing of them any more."""
        attempts = self.attempts
        if words.get("instruction", self.step.instruction) != self.step.instruction:
            attempts = tuple(map(_unread, attempts))
        return self.worded(**words).updated(attempts=attempts)

    def shown_in(self, looked: events.Looked) -> bool:
        """Return whether its goal image was on the screen, or, of a recorded one, the frame itself."""
        frame = self.segment.end - 1 if self.segment else None
        if self.goal is not None:
            recorded = recorded_frame(self.goal)
            frame = recorded[1] if recorded else None
        pictured = looked.pictures.get(self.id, 0.0) >= events.FIXATION_S
        return pictured or (frame is not None and looked.shows(frame))

    def without(self, *names: str) -> Self:
        """Drop details that models or rules told of it."""
        return self.worded(details=self.step.details and self.step.details.without(names))

    def detailed(self, **fields: object) -> Self:
        """Set details; none are left where all are empty."""
        details = (self.step.details or Details()).model_copy(update=fields)
        return self.worded(details=None if details == Details() else details)

    def with_frame(self, camera: str, frame: int, verdict: Verdict) -> Self:
        """Add a frame of the recording as an attempt, and choose it."""
        prompt = self.step.prompt or self.step.instruction
        image = stand_in(f"{FRAME}{camera}#{frame}")
        attempt = Attempt(prompt=prompt, seed=0, image=image, verdict=verdict)
        return self.updated(attempts=(*self.attempts, attempt), chosen=len(self.attempts))


def _unread(attempt: Attempt) -> Attempt:
    """Void what a model said of a picture and words that are other ones now; a frame stays a frame."""
    verdict, image = attempt.verdict, attempt.image
    by_people = (TOOK, FOLLOWED, CARRIED_END)
    if verdict is None or image is None or verdict.pictures_only or verdict.reasoning in by_people:
        return attempt
    void = Verdict(success=True, reasoning=WORDS_CHANGED, pictures_only=True)
    return attempt.model_copy(update={"verdict": void})


class Review(EditedBoard[ReviewStep]):
    """An episode under review."""

    record: str
    recording: str | None
    length: int
    phases: tuple[MotionPhase, ...] = ()
    verdict: events.Opinion | None = None
    by: str | None = None
    """The person who gave the verdict."""
    unseen: bool = False
    """Nobody looked: it was given to many episodes at once, or before this one was on the screen."""
    looked: frozenset[str] | None = None
    """The steps that were on the screen before the verdict; None: not known, of an old one."""
    issues: tuple[events.Issue, ...] = ()
    """Wrong with the whole episode."""
    corrected: bool = False
    """A person has changed more than their own opinion of it."""
    taken: Literal["copy", "carry"] | None = None
    """All steps are another episode's, and nobody has changed what they are since."""
    refused: str | None = None
    """The reason why the steps of labelled episodes were not carried over."""

    @property
    def accepted(self) -> bool:
        """A person who looked has accepted it."""
        return self.verdict == "accept" and not self.unseen

    def accepts(self, step: ReviewStep) -> bool:
        """Return whether a person has accepted this step, or the episode with it, after they saw it."""
        if step.issues or self.verdict == "reject":
            return False
        return step.accepted or (self.accepted and (self.looked is None or step.id in self.looked))

    @property
    def labelled(self) -> bool:
        """A person made its steps, or accepted them, and has nothing against them."""
        own = self.corrected and self.taken is None
        made = self.accepted or (self.verdict is None and (own or all(s.accepted for s in self.steps)))
        if not made or not self.steps or self.issues:
            return False
        named = (s for s in self.steps if s.segment and not s.issues and s.step.name != events.UNNAMED)
        good = [s for s in named if s.edited or not self.accepted or self.accepts(s)]
        return len(good) == len(self.steps)

    @staticmethod
    def of(base: events.BeginLog) -> "Review":
        """The record as nobody has changed it."""
        board = base.board
        return Review(
            record=base.record,
            recording=base.recording,
            length=base.length,
            task=board.task,
            steps=tuple(ReviewStep.of(i, step) for i, step in enumerate(board.steps)),
            failure=board.failure,
            phases=board.phases,
        )

    def with_instruction(self, text: str) -> "Review":
        """The same steps under another instruction; those that repeat it, and that nobody worded, follow."""

        def reworded(step: ReviewStep) -> ReviewStep:
            names = ("name", "instruction", "prompt", "auxiliary_text")
            old = self.task.instruction
            return step.worded(**{name: text for name in names if getattr(step.step, name) == old})

        steps = tuple(step if "words" in step.edited else reworded(step) for step in self.steps)
        return self.updated(task=self.task.model_copy(update={"instruction": text}), steps=steps)

    def on_record(self, base: events.BeginLog) -> "Review":
        """Carry a person's corrections over to the record as it is now.

        Their steps stay. Where another record has the very same ones, as after `annotate` with their plan,
        its goal images take the place of those that nobody set. A verdict, or an issue, stays with what it
        was said of.
        """
        if self.record == base.record:
            return self
        fresh = Review.of(base)
        if not same_frames(base.recording, self.recording) or base.length != self.length:
            return fresh
        review = self.with_instruction(fresh.task.instruction)
        if [_outline(step) for step in review.steps] == [_outline(step) for step in fresh.steps]:
            pairs = zip(review.steps, fresh.steps, strict=True)
            steps = tuple(old if "goal" in old.edited else _renewed(old, new) for old, new in pairs)
            said = [(s.goal, s.step.instruction) for s in self.steps]
            same = [(s.goal, s.step.instruction) for s in steps] == said
            opinion = ("verdict", "by", "unseen", "looked") if same else ()
            kept = ("issues", "corrected", "taken", "refused", *opinion)
            return fresh.updated(steps=steps, **{name: getattr(review, name) for name in kept})
        if not review.corrected:
            return fresh
        return review.updated(record=fresh.record, recording=fresh.recording, task=fresh.task)

    @property
    def camera(self) -> str | None:
        """The camera whose frames become goal images; None where no frame of a recording is shown."""
        attempts = (attempt.image for step in self.steps for attempt in step.attempts)
        recorded = (recorded_frame(image.frame) for image in (self.task.image, *attempts) if image)
        return next((frame[0] for frame in recorded if frame), None)

    def segment(self, start: int, end: int) -> Segment:
        """Frames of the episode; raises InputError where they are none, or lie outside."""
        if not 0 <= start < end <= self.length:
            raise InputError(f"frames {start} to {end} of {self.length}: a step holds at least one")
        return Segment(start=start, end=end)

    def free(self, start: int, end: int, besides: str | None = None) -> Segment:
        """Frames that no step has but `besides`; raises InputError as `segment`, or where one has them."""
        for step in self.steps:
            held = None if step.id == besides else step.segment
            if held is not None and held.start < end and start < held.end:
                raise InputError(f"frames {start} to {end} overlap step {step.id}")
        return self.segment(start, end)

    def timed(self, step: ReviewStep, segment: Segment, reasoning: str = FOLLOWED) -> ReviewStep:
        """Set a step's frames. A goal that followed them is the middle one of `segment.goal`, or the last."""
        frame = sum(segment.goal) // 2 if segment.goal else segment.end - 1
        ended = step.segment is None or step.segment.end != segment.end
        step = step.without(*ASPECTS, "failure").set("time", segment=segment, alignment=None)
        camera = self.camera if step.step.prompt is not None else None
        if step.goal is not None:  # a picture that was drawn stays
            recorded = recorded_frame(step.goal)
            camera = recorded[0] if recorded else None
        if ended and camera and "goal" not in step.edited:
            verdict = Verdict(success=True, reasoning=reasoning, pictures_only=True)
            return step.with_frame(camera, frame, verdict)
        return step

    def sorted(self) -> "Review":
        """Order the steps by their frames; one without stays behind the one that it was behind."""
        keys: list[int] = []
        for step in self.steps:
            keys.append(step.segment.start if step.segment else keys[-1] if keys else -1)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return self.updated(steps=tuple(self.steps[place] for place in order))


def after(review: Review | None, entry: events.LogEntry) -> Review:
    """The episode after a line of its log.

    Raises:
        InputError: the change does not fit the episode.
        ValueError: the first line names no record.
    """
    change = entry.change
    if isinstance(change, events.BeginLog):
        return Review.of(change) if review is None else review.on_record(change)
    if review is None:
        raise ValueError("the first line names no record")
    match change:
        case UndoChange() | RedoChange():
            return review
        case events.GiveVerdict(looked=looked):
            shown = None if looked is None else frozenset(s.id for s in review.steps if s.shown_in(looked))
            return review.updated(verdict=change.verdict, by=entry.by, unseen=change.blind, looked=shown)
        case events.AcceptStep(step=step, looked=looked):
            place = review.place(step)
            accepted = looked.enough and review.steps[place].shown_in(looked)
            return review.replaced(place, review.steps[place].updated(accepted=accepted))
        case events.CarrySteps(refused=str(refused)):
            return review.updated(refused=refused)
        case events.FlagIssue(step=step):
            if step is None:
                return _flagged(review, change)
            place = review.place(step)
            return review.replaced(place, _flagged(review.steps[place], change))
    changed = _changed(review, change, f"r{entry.revision}")
    same = set(map(id, review.steps))
    steps = (s if id(s) in same or not s.accepted else s.updated(accepted=False) for s in changed.steps)
    taken = change.kind if isinstance(change, events.CopySteps | events.CarrySteps) else None
    if change.kind in ("choose", "frame", "blank"):  # they leave the steps what they are
        taken = review.taken
    opinion = {"verdict": None, "by": None, "unseen": False, "looked": None}
    said = {"corrected": True, "failure": None, "taken": taken, "refused": None}
    return changed.updated(steps=tuple(steps), **said, **opinion)


def _changed(review: Review, change: events.StepEdit | events.CarrySteps, name: str) -> Review:
    """Change the steps; one that is added has the id `name`, or begins with it."""
    if isinstance(change, events.CopySteps | events.CarrySteps):
        steps = (_taken(review, change, at, f"{name}s{at}") for at in range(len(change.steps)))
        return review.updated(steps=tuple(steps))
    if isinstance(change, events.InsertStep):
        segment, text = review.free(change.start, change.end), change.name
        words = Step(name=text, instruction=text, prompt=text)
        step = ReviewStep(id=name, step=words, segment=None, edited=frozenset({"words"}))
        return review.updated(steps=(*review.steps, review.timed(step, segment))).sorted()
    place = review.place(change.step)
    step = review.steps[place]
    match change:
        case events.MoveBoundary():
            return _moved(review, place, change)
        case events.PlaceStep(start=start, end=end):
            timed = review.timed(step, review.free(start, end, besides=step.id))
            return review.replaced(place, timed).sorted()
        case events.SplitStep(frame=frame):
            return _split(review, place, frame, name)
        case events.MergeSteps():
            return _merged(review, place)
        case events.DeleteStep():
            return review.replaced(place)
        case events.RenameStep():
            words = change.model_dump(exclude={"kind", "step"}, exclude_none=True)
            if change.name != step.step.name:
                words = one_wording(step.step, words)
            step = step.reworded(**words).without("reasoning").set("words")
        case events.SetOutcome(outcome=outcome):
            step = step.worded(outcome=outcome).set("outcome")
            step = step.detailed(failure=None) if outcome == "done" else step
        case events.DescribeStep():
            step = _described(step, change)
        case events.ChooseAttempt(attempt=attempt):
            if attempt >= len(step.attempts) or step.attempts[attempt].image is None:
                raise InputError(f"step {step.id} has no attempt {attempt} with a picture")
            step = step.set("goal", chosen=attempt)
        case events.TakeFrame(camera=camera, frame=frame):
            if frame >= review.length:
                raise InputError(f"frame {frame} is none of the episode's {review.length}")
            taken = step.taken | {len(step.attempts)}
            step = step.with_frame(camera, frame, Verdict(success=True, reasoning=TOOK))
            step = step.set("goal", taken=taken)
        case events.BlankGoal():
            step = step.set("goal", chosen=None)
        case _:
            assert_never(change)
    return review.replaced(place, step)


def _taken(review: Review, change: events.CopySteps | events.CarrySteps, at: int, name: str) -> ReviewStep:
    """Step `at` that a change brings; a person answers for words that they copied."""
    taken = change.steps[at]
    review.segment(taken.segment.start, taken.segment.end)  # raises where it does not fit
    step = ReviewStep(id=name, step=taken.step, segment=None)
    step = review.timed(step, taken.segment, CARRIED_END)
    return step.updated(edited=frozenset() if change.kind == "carry" else frozenset({"words"}))


def _described(step: ReviewStep, change: events.DescribeStep) -> ReviewStep:
    failure = change.detail == "failure"
    if failure and step.step.outcome != "failed":
        raise InputError("the step is done: say that it failed before you say why")
    detail: Detail | None = None
    if change.text is not None:
        who = {"text": change.text, "by": PERSON, "checked": PERSON}
        detail = FailureDetail(**who, restorable=change.restorable) if failure else Detail(**who)
    return step.detailed(**{change.detail: detail})


def _moved(review: Review, place: int, change: events.MoveBoundary) -> Review:
    step, frame, start = review.steps[place], change.frame, change.edge == "start"
    own = step.placed
    near = _neighbour(review, place, -1 if start else 1)
    if near is not None:
        other = review.steps[near].placed
        if other.end == own.start if start else other.start == own.end:  # the steps adjoin
            both = (other.start, frame) if start else (frame, other.end)
            review = review.replaced(near, review.timed(review.steps[near], review.segment(*both)))
        elif frame < other.end if start else frame > other.start:
            raise InputError(f"frame {frame} is of step {review.steps[near].id}")
    segment = review.segment(frame, own.end) if start else review.segment(own.start, frame)
    return review.replaced(place, review.timed(step, segment))


def _split(review: Review, place: int, frame: int, name: str) -> Review:
    step, segment = review.steps[place], review.steps[place].placed
    second = step.without(*ASPECTS, "failure")
    second = second.set("time", id=name, segment=review.segment(frame, segment.end))
    bare = step.updated(attempts=(), chosen=None, edited=step.edited - {"goal"}, taken=frozenset())
    first = review.timed(bare, review.segment(segment.start, frame))
    return review.replaced(place, first, second)


def _merged(review: Review, place: int) -> Review:
    step = review.steps[place]
    after = _neighbour(review, place, 1)
    if after is None:
        raise InputError(f"there is no step after step {step.id} to merge it with")
    last = review.steps[after]
    last = last.reworded(instruction=step.step.instruction)
    goal = {name: getattr(last, name) for name in ("attempts", "chosen", "taken")}
    both = Segment(start=step.placed.start, end=last.placed.end)
    joined = step.without(*ASPECTS, "failure").updated(edited=step.edited - {"goal"} | last.edited)
    # What lies between them was found nowhere, so it stays.
    return review.replaced(after).replaced(place, joined.set("time", segment=both, **goal))


def _neighbour(review: Review, place: int, way: int) -> int | None:
    """The next step, or the last one, that has frames."""
    places = range(place + 1, len(review.steps)) if way > 0 else reversed(range(place))
    return next((other for other in places if review.steps[other].segment is not None), None)


def _flagged[T: (Review, ReviewStep)](flagged: T, flag: events.FlagIssue) -> T:
    others = tuple(issue for issue in flagged.issues if issue != flag.issue)
    return flagged.updated(issues=(*others, flag.issue) if flag.on else others)


def _renewed(old: ReviewStep, new: ReviewStep) -> ReviewStep:
    issues = tuple(issue for issue in old.issues if issue != "wrong_picture" or old.goal == new.goal)
    same = (old.goal, old.step.instruction) == (new.goal, new.step.instruction)
    return new.updated(id=old.id, edited=old.edited, issues=issues, accepted=old.accepted and same)


def _outline(step: ReviewStep) -> tuple[Segment | None, str, str]:
    return step.segment, step.step.name, step.step.outcome
