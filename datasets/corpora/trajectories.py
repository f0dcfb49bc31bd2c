"""Cut storyboards into samples, one for each attempt, and score them (InterleaveThinker, section 3.2).

An `Outline` is a storyboard without its pictures. The filters need no more, and all outlines fit in memory.
People's corrections are given as verdicts by (step, attempt). Such a sample has trust 1: no filter drops it,
and its verdict overrules the scorer's.

A step is a row for an editor where its picture was accepted, or is a frame, and its words are not in doubt:
the editor would learn to draw something else than it is told.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from goalreel.datasets.corpora.rows import dataclass_kind
from goalreel.image import Image
from goalreel.planners.chat import question
from goalreel.types import ACCEPTED, Candidate, Failure, Frozen, PictureScores, Status, Storyboard, Verdict

GOOD = 6.0
"""Least semantics and quality of a picture that succeeds. The paper gives no threshold."""

type SuccessOf = Callable[[PictureScores], bool | None]
"""Tells whether a picture with these scores has succeeded; None where they leave it in doubt."""
type TrendFault = Literal["low_quality", "negative_trend", "degradation"]
type JudgementFault = Literal["in_doubt", "no_better_prompt", "no_reasoning"]
type EditFault = Literal["words_only", "failed", "doubtful_words", "not_accepted", "no_source"]
type Reason = (
    Literal["damaged", "no_plan", "not_tried", "no_picture", "background_moved", "unscored", "balance"]
    | Literal["one_step", "first_step_not_accepted", "marks_without_pictures", "incomplete"]
    | Literal["scorer_disagrees", "nothing_rejected"]
    | TrendFault
    | JudgementFault
    | EditFault
)
"""The reasons why something is no training row; `docs/reference/corpus-format.md` explains each."""


class HumanVerdict(Verdict):
    """A person's verdict on a picture."""

    correction: Literal["accepted", "chosen", "wrong_picture"] | None = None
    """Their act: accept the episode, choose this very picture, or flag it."""


type HumanVerdicts = Mapping[tuple[int, int], HumanVerdict]
"""Verdicts of a person on attempts, by (step, attempt)."""


class StepSample(Frozen):
    """One attempt with a picture, without that picture."""

    step: int
    attempt: int
    prompt: str
    verdict: Verdict | None
    """The record's own."""
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
    """The steps' statuses, in order."""
    chosen: tuple[int | None, ...] = ()
    """Each step's chosen attempt."""
    samples: tuple[StepSample, ...] = ()
    dropped: Mapping[Reason, int] = {}
    """Reason -> what became no sample: steps, failed edits, or the whole storyboard."""
    edits: tuple[int, ...] = ()
    """The steps that are rows for an editor."""
    edit_faults: Mapping[Reason, int] = {}
    """Reason -> other steps."""
    askable: bool = True
    """A planner can be asked about the task: its pictures fit the instruction's marks."""

    @property
    def accepted(self) -> int:
        """The number of steps from the first on that were accepted, or are words alone."""
        undone = (i for i, status in enumerate(self.statuses) if status not in (*ACCEPTED, "text"))
        return next(undone, len(self.statuses))


def outline(board: Storyboard, task_id: str, human_verdicts: HumanVerdicts | None = None) -> Outline:
    """Cut a storyboard into samples; what cannot be one is counted under its reason."""
    if board.failure is not None:
        return Outline(task_id=task_id, dropped={"no_plan": 1})
    if any(step.step.doubts for step in board.steps):
        return Outline(task_id=task_id, dropped={"doubtful_words": 1})
    dropped, samples = Counter[Reason](), list[StepSample]()
    for number, step in enumerate(board.steps):
        if step.status in ("text", "skipped"):
            dropped["words_only" if step.status == "text" else "not_tried"] += 1
            continue
        for i, attempt in enumerate(step.attempts):
            said, registration = (human_verdicts or {}).get((number, i)), attempt.registration
            if attempt.image is None:
                dropped["no_picture"] += 1
            elif said is None and registration is not None and registration.outcome == "rejected":
                dropped["background_moved"] += 1  # before a critic saw it
            else:
                prompt, verdict = attempt.prompt, attempt.verdict
                samples.append(StepSample(step=number, attempt=i, prompt=prompt, verdict=verdict, said=said))
    return Outline(
        task_id=task_id,
        statuses=tuple(step.status for step in board.steps),
        chosen=tuple(step.chosen for step in board.steps),
        samples=tuple(samples),
        dropped=dict(dropped),
        askable=not isinstance(question(board.task), Failure),
    )


def source_of(board: Storyboard, step: int) -> Image | None:
    """Find the picture that a step was edited from, as the loop hands them on; None where it was drawn."""
    earlier_goals = (s.goal_image for s in reversed(board.steps[:step]))
    return next((image for image in earlier_goals if image is not None), board.task.image)


def candidate(board: Storyboard, task_id: str, sample: StepSample) -> Candidate:
    """Make the candidate for a scorer; `source` is None where the picture was drawn from words."""
    step = board.steps[sample.step]
    if (image := step.attempts[sample.attempt].image) is None:
        raise ValueError(f"step {sample.step}, attempt {sample.attempt} has no picture")
    return Candidate(
        task_id=task_id,
        step=sample.step,
        source=source_of(board, sample.step),
        image=image,
        instruction=step.step.instruction,
        prompt=sample.prompt,
        first_prompt=step.step.prompt,
    )


def succeeds(scores: PictureScores) -> bool:
    """Tell whether a picture with these scores has succeeded."""
    return min(scores.semantics, scores.quality) >= GOOD


def scored(sample: StepSample, scores: PictureScores | None, success_of: SuccessOf = succeeds) -> StepSample:
    """Give a sample a scorer's scores; a person's verdict takes precedence."""
    if (said := sample.said) is not None:
        plain = 10.0 if said.success else 0.0
        semantics = plain if said.semantics is None else said.semantics
        scores = PictureScores(semantics, plain if said.quality is None else said.quality)
        return sample.model_copy(update={"scores": scores, "success": said.success})
    if scores is None:
        return sample
    return sample.model_copy(update={"scores": scores, "success": success_of(scores)})


def by_record(outline: Outline) -> Outline:
    """Score samples as their own Critic did; picture checks, which read no words, leave them as they are."""
    return outline.model_copy(update={"samples": tuple(map(_recorded, outline.samples))})


def _recorded(sample: StepSample) -> StepSample:
    verdict = sample.verdict
    if sample.said is not None or verdict is None or verdict.pictures_only:
        return scored(sample, None)
    if verdict.semantics is None or verdict.quality is None:
        return sample
    return scored(sample, PictureScores(verdict.semantics, verdict.quality), lambda _: verdict.success)


@dataclass(frozen=True)
class StoredEdit:
    """One step: `source` becomes `target` by `prompt`."""

    task_id: str
    step: int
    source: Image
    target: Image
    prompt: str
    instruction: str
    status: str
    """`observed`: frames of a recording. `accepted`: a goal image that was accepted."""
    trust: int
    """1 where a person accepted or chose the picture, else 0."""


_NAMES = ("task_id", "step", "source", "target", "prompt", "instruction", "status", "trust")
STORED_EDITS = dataclass_kind(StoredEdit, "edits", _NAMES)


def edit_fault(board: Storyboard, number: int, human_verdicts: HumanVerdicts) -> EditFault | None:
    """Say why a step is no row for an editor; None where it is one."""
    step = board.steps[number]
    human_verdict = None if step.chosen is None else human_verdicts.get((number, step.chosen))
    if step.step.prompt is None:
        return "words_only"
    if step.step.outcome == "failed":
        return "failed"
    if step.step.doubts:
        return "doubtful_words"
    accepted = step.status in ACCEPTED if human_verdict is None else human_verdict.success
    if step.goal_image is None or not accepted:
        return "not_accepted"
    return "no_source" if source_of(board, number) is None else None


def with_edits(outline: Outline, board: Storyboard, human_verdicts: HumanVerdicts) -> Outline:
    """Add to an outline which steps are rows for an editor, and why the others are none."""
    faults = [edit_fault(board, number, human_verdicts) for number in range(len(board.steps))]
    edits = tuple(number for number, fault in enumerate(faults) if fault is None)
    counts = dict(Counter(fault for fault in faults if fault is not None))
    return outline.model_copy(update={"edits": edits, "edit_faults": counts})


def edit_row(board: Storyboard, task_id: str, number: int, human_verdicts: HumanVerdicts) -> StoredEdit:
    """Make the row of a step for which `edit_fault` is None; raises ValueError for others."""
    step, source = board.steps[number], source_of(board, number)
    if step.step.prompt is None or step.goal_image is None or source is None:
        raise ValueError(f"{task_id}, step {number}: no picture before or after it, or no prompt")
    return StoredEdit(
        task_id=task_id,
        step=number,
        source=source,
        target=step.goal_image,
        prompt=step.step.prompt,
        instruction=step.step.instruction,
        status=step.status,
        trust=int((number, step.chosen) in human_verdicts),
    )
