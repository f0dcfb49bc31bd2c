"""Cut storyboards into samples, one for each attempt (InterleaveThinker, section 3.2).

An `Outline` is a storyboard without its pictures. The filters need no more, and all outlines fit in memory.
People's corrections are given as verdicts by (step, attempt). Such a sample has trust 1: no filter drops it,
and its verdict overrules the scorer's.

Verdicts of people on pictures, as rows of the highest trust.

Scores 0-10 for each sample, and from them whether the step succeeded (the paper's J).

The paper gives no threshold; GOOD is goalreel's own.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

from goalreel.datasets.corrections.board import opinion
from goalreel.datasets.corrections.state import Review
from goalreel.image import Image
from goalreel.planners.chat import question
from goalreel.scoring import PictureScores
from goalreel.types import (
    ACCEPTED,
    Attempt,
    Candidate,
    Failure,
    Frozen,
    Plan,
    Status,
    Storyboard,
    StoryboardStep,
    Verdict,
)

type Reason = Literal[
    "damaged",
    "no_plan",
    "doubtful_words",
    "words_only",
    "not_tried",
    "no_picture",
    "unscored",
    "in_doubt",
    "low_quality",
    "negative_trend",
    "degradation",
    "no_better_prompt",
    "no_reasoning",
    "balance",
    "one_step",
    "first_step_not_accepted",
    "marks_without_pictures",
    "incomplete",
    "scorer_disagrees",
    "nothing_rejected",
    "background_moved",
    "failed",
    "not_accepted",
    "no_source",
]
"""Why something is no training row; `docs/reference/corpus-format.md` explains each."""
type CorrectionKind = Literal["accepted", "chosen", "wrong_picture"]


class HumanVerdict(Verdict):
    """A person's verdict on a picture."""

    correction: CorrectionKind | None = None
    """What they did: accept the episode, choose this very picture, or flag it."""


type HumanVerdicts = Mapping[tuple[int, int], HumanVerdict]
"""What a person said of attempts, by (step, attempt)."""


class StepSample(Frozen):
    """One attempt with a picture, without that picture."""

    step: int
    attempt: int
    prompt: str
    verdict: Verdict | None
    """The record's own."""
    by: str | None = None
    """Which of several editors drew it."""
    said: HumanVerdict | None = None
    """A person's."""
    scores: PictureScores | None = None
    success: bool | None = None
    """The paper's J; None where the sample has no scores, or they leave it in doubt."""

    @property
    def trust(self) -> int:
        """1 where a person has judged it, else 0."""
        return int(self.said is not None)


class Outline(Frozen):
    """A storyboard as the filters see it."""

    task_id: str
    statuses: tuple[Status, ...] = ()
    """Of each step, in order."""
    chosen: tuple[int | None, ...] = ()
    """Each step's chosen attempt."""
    samples: tuple[StepSample, ...] = ()
    dropped: Mapping[Reason, int] = {}
    """What became no sample: steps, failed edits, or the whole storyboard."""
    edits: tuple[int, ...] = ()
    """The steps that are rows for an editor."""
    edit_faults: Mapping[Reason, int] = {}
    """Why other steps are none."""
    askable: bool = True
    """A planner can be asked about the task: its pictures fit the instruction's marks."""

    @property
    def accepted(self) -> int:
        """How many steps from the first on were accepted, or are words alone."""
        undone = (i for i, status in enumerate(self.statuses) if status not in (*ACCEPTED, "text"))
        return next(undone, len(self.statuses))


def outline(board: Storyboard, task_id: str, human_verdicts: HumanVerdicts | None = None) -> Outline:
    """Cut a storyboard into samples; what cannot be one is counted under its reason."""
    if board.failure is not None:
        return Outline(task_id=task_id, dropped={"no_plan": 1})
    if any(step.step.doubts for step in board.steps):
        return Outline(task_id=task_id, dropped={"doubtful_words": 1})
    dropped: Counter[Reason] = Counter()
    samples: list[StepSample] = []
    for number, step in enumerate(board.steps):
        step_samples, reasons = _samples(number, step, human_verdicts or {})
        samples += step_samples
        dropped.update(reasons)
    return Outline(
        task_id=task_id,
        statuses=tuple(step.status for step in board.steps),
        chosen=tuple(step.chosen for step in board.steps),
        samples=tuple(samples),
        dropped=dict(dropped),
        askable=not isinstance(question(board.task), Failure),
    )


def _samples(
    number: int, step: StoryboardStep, human_verdicts: HumanVerdicts
) -> tuple[list[StepSample], list[Reason]]:
    if step.status == "text":
        return [], ["words_only"]
    if step.status == "skipped":
        return [], ["not_tried"]
    pictured = [(i, attempt) for i, attempt in enumerate(step.attempts) if attempt.image is not None]
    judged = [(i, a) for i, a in pictured if (number, i) in human_verdicts or not _moved(a)]
    samples = [
        StepSample(
            step=number,
            attempt=i,
            prompt=a.prompt,
            verdict=a.verdict,
            by=a.by,
            said=human_verdicts.get((number, i)),
        )
        for i, a in judged
    ]
    reasons: list[Reason] = ["no_picture"] * (len(step.attempts) - len(pictured))
    reasons.extend("background_moved" for _ in range(len(pictured) - len(judged)))
    return samples, reasons


def _moved(attempt: Attempt) -> bool:
    """Whether the picture was rejected for its background, before a critic saw it."""
    return attempt.registration is not None and attempt.registration.outcome == "rejected"


def plan_of(board: Storyboard) -> Plan:
    """The plan that a storyboard was made by."""
    return Plan(steps=tuple(step.step for step in board.steps))


def source_of(board: Storyboard, step: int) -> Image | None:
    """The picture that a step was edited from, as the loop hands them on; None where it was drawn."""
    earlier_goals = (s.goal_image for s in reversed(board.steps[:step]))
    return next((image for image in earlier_goals if image is not None), board.task.image)


def candidate(board: Storyboard, task_id: str, sample: StepSample) -> Candidate:
    """What a scorer is asked about a sample; `source` is None where the picture was drawn from words."""
    step = board.steps[sample.step]
    return Candidate(
        task_id=task_id,
        step=sample.step,
        source=source_of(board, sample.step),
        image=picture(board, sample),
        instruction=step.step.instruction,
        prompt=sample.prompt,
        first_prompt=step.step.prompt,
    )


def picture(board: Storyboard, sample: StepSample) -> Image:
    """The picture of a sample.

    Raises:
        ValueError: the storyboard is another one.
    """
    image = board.steps[sample.step].attempts[sample.attempt].image
    if image is None:
        raise ValueError(f"step {sample.step}, attempt {sample.attempt} has no picture")
    return image


def human_verdicts(review: Review) -> HumanVerdicts:
    """Read verdicts by (step, attempt) from a review; they have no reasoning, for people give none.

    The goal images of an accepted episode and those that a person chose are right; one flagged as a wrong
    picture is not. What is kept out for another reason, as a wrong time, is no verdict on a picture.
    """
    verdicts: dict[tuple[int, int], HumanVerdict] = {}
    for place, step in enumerate(review.steps):
        why = opinion(review, step)
        if why is not None and why != "kept_out" and step.chosen is not None:
            verdicts[place, step.chosen] = HumanVerdict(success=why != "wrong_picture", correction=why)
    return verdicts


GOOD = 6.0
"""A picture that succeeds has at least this in semantics and in quality."""
type SuccessOf = Callable[[PictureScores], bool | None]
"""Whether a picture with these scores has succeeded; None where they leave it in doubt."""
_WORST, _BEST = 0.0, 10.0


def succeeds(scores: PictureScores) -> bool:
    """Whether a picture with these scores has succeeded."""
    return min(scores.semantics, scores.quality) >= GOOD


def scored(sample: StepSample, scores: PictureScores | None, success_of: SuccessOf = succeeds) -> StepSample:
    """Give a sample a scorer's scores; a person's verdict takes precedence."""
    if sample.said is not None:
        return _by(sample, sample.said, _human_scores(sample.said))
    if scores is None:
        return sample
    return sample.model_copy(update={"scores": scores, "success": success_of(scores)})


def by_record(outline: Outline) -> Outline:
    """Every sample with the scores and the verdict that its own Critic gave; as it was where it gave none.

    Picture checks are no Critic: they compared nothing with the words.
    """
    return outline.model_copy(update={"samples": tuple(_recorded(sample) for sample in outline.samples)})


def _recorded(sample: StepSample) -> StepSample:
    if sample.said is not None:
        return scored(sample, None)
    verdict = sample.verdict
    if verdict is None or verdict.pictures_only or verdict.semantics is None or verdict.quality is None:
        return sample
    return _by(sample, verdict, PictureScores(verdict.semantics, verdict.quality))


def _by(sample: StepSample, verdict: Verdict, scores: PictureScores) -> StepSample:
    return sample.model_copy(update={"scores": scores, "success": verdict.success})


def _human_scores(verdict: Verdict) -> PictureScores:
    """The scores of a person's verdict: the best or the worst where it has none."""
    plain = _BEST if verdict.success else _WORST
    return PictureScores(
        plain if verdict.semantics is None else verdict.semantics,
        plain if verdict.quality is None else verdict.quality,
    )
