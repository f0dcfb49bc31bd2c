"""Rows for the Critic: scored attempts, and answers to learn about them (InterleaveThinker, section 3.2).

GRPO asks the Critic about a critique, and its reward begins with these scores. The better prompt for a
rejected picture is that of the next attempt, if its picture scored better, else that of the step's best
attempt. All attempts start from the same source, so the better picture came from the better prompt. A prompt
that equals the rejected one teaches nothing, since only its seed was luckier.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.verdict import verdict_reply
from goalreel.critics.chat import question
from goalreel.datasets.corpora.rows import Lesson, dataclass_kind
from goalreel.datasets.corpora.trajectories import JudgementFault, StepSample, candidate
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.types import Candidate, Storyboard, Verdict

BETTER = 0.5
"""A better picture scores higher by this: less is a judge's noise. Ours, as the paper names none."""


_NAMES = ("task_id", "step", "attempt", "success", "semantics", "quality", "trust", "correction")


@dataclass(frozen=True)
class CritiqueRow:
    """One attempt at one step as the Critic is asked about it, and its scores."""

    task_id: str
    """`tabletop-SEED`, or `tabletop-SEED-LOOK-CAMERA`, where the simulator can make the scene again."""
    step: int
    attempt: int
    source: Image
    """White where the step began without a picture: then `drawn` is true."""
    candidate: Image
    drawn: bool
    """The candidate was drawn from words alone."""
    instruction: str
    first_prompt: str
    """The plan's own prompt, the paper's p_i."""
    prompt: str
    """The prompt that made the candidate, the paper's r_i^t; empty where it is the plan's own."""
    success: bool
    """The truth about the candidate, by the scorer or by a person: the paper's J."""
    semantics: float
    quality: float
    """Scores of the candidate, 0-10."""
    trust: int = 0
    """0: scored by a model or the simulator. 1: said by a person."""
    correction: str = ""
    """The person's correction: accepted, chosen or wrong_picture."""

    @property
    def drawn_by(self) -> str:
        """The prompt that made the candidate."""
        return self.prompt or self.first_prompt


@dataclass(frozen=True)
class JudgementRow(CritiqueRow):
    """A critique with the answer to learn."""

    reasoning: str = ""
    refined_prompt: str | None = None


def candidate_of(row: CritiqueRow) -> Candidate:
    """Make the candidate that the Critic is asked about; it always has two pictures."""
    return Candidate(
        task_id=row.task_id,
        step=row.step,
        source=row.source,
        image=row.candidate,
        instruction=row.instruction,
        prompt=row.prompt,
        first_prompt=row.first_prompt,
    )


def critique_lesson(row: CritiqueRow, dialect: Dialect = OWN) -> Lesson:
    """Make the Critic's conversation, without a reply to learn: GRPO samples its own."""
    return question(candidate_of(row), dialect=dialect).conversation, ""


def judgement_lesson(row: JudgementRow, dialect: Dialect = OWN) -> Lesson:
    """Make the conversation that GRPO asks too, with the verdict as the reply."""
    verdict = Verdict(success=row.success, reasoning=row.reasoning, refined_prompt=row.refined_prompt)
    return critique_lesson(row, dialect)[0], verdict_reply(verdict, row.prompt if dialect.repeats else None)


CRITIQUES = dataclass_kind(CritiqueRow, "critiques", _NAMES, critique_lesson)
JUDGEMENTS = dataclass_kind(JudgementRow, "judgements", _NAMES, judgement_lesson)


def critique_row(board: Storyboard, task_id: str, sample: StepSample) -> CritiqueRow:
    """Make the row of a scored sample, white where it has no source; raises ValueError without a score."""
    if sample.scores is None or sample.success is None:
        raise ValueError(f"{task_id}, step {sample.step}, attempt {sample.attempt}: not scored")
    case = candidate(board, task_id, sample)
    return CritiqueRow(
        task_id=task_id,
        step=sample.step,
        attempt=sample.attempt,
        source=case.source or Image(np.full_like(case.image.pixels, 255)),
        candidate=case.image,
        drawn=case.source is None,
        instruction=case.instruction,
        first_prompt=case.first_prompt or case.prompt,
        prompt=case.prompt,
        success=sample.success,
        semantics=sample.scores.semantics,
        quality=sample.scores.quality,
        trust=sample.trust,
        correction=(sample.said and sample.said.correction) or "",
    )


def judgement_row(board: Storyboard, task_id: str, sample: StepSample, verdict: Verdict) -> JudgementRow:
    """Make the row of a scored sample with the verdict to learn about it."""
    critique = critique_row(board, task_id, sample)
    return JudgementRow(**vars(critique), reasoning=verdict.reasoning, refined_prompt=verdict.refined_prompt)


def judgement(sample: StepSample, attempts: Sequence[StepSample]) -> Verdict | JudgementFault:
    """Find the verdict to learn about a scored sample, or why there is none; `attempts` are all of its step.

    The words are those of the record's verdict where it was right, else the scorer's. A person's verdict
    comes first, and is one whatever it lacks.
    """
    if sample.success is None:
        return "in_doubt"
    prompt = None if sample.success else _better_prompt(sample, attempts)
    reasoning = _reasoning(sample)
    if sample.said is None:
        if not sample.success and prompt is None:
            return "no_better_prompt"
        if not reasoning:
            return "no_reasoning"
    return Verdict(success=sample.success, reasoning=reasoning, refined_prompt=prompt)


def _better_prompt(sample: StepSample, attempts: Sequence[StepSample]) -> str | None:
    if sample.said is not None and sample.said.refined_prompt is not None:
        return sample.said.refined_prompt
    overall = {a.attempt: a.scores.overall if a.scores else -1.0 for a in attempts}
    best = max(attempts, key=lambda a: overall[a.attempt])
    for other in (*(a for a in attempts if a.attempt == sample.attempt + 1), best):
        better = overall[other.attempt] >= overall[sample.attempt] + BETTER
        if better and other.prompt.strip() != sample.prompt.strip():
            return other.prompt
    return None


def _reasoning(sample: StepSample) -> str:
    if sample.said is not None and sample.said.reasoning.strip():
        return sample.said.reasoning
    verdict = sample.verdict
    if verdict is not None and verdict.success == sample.success and not verdict.pictures_only:
        return critic_words(verdict).strip()
    if sample.said is not None or sample.scores is None:
        return ""
    reasons = (sample.scores.semantics_reason.strip(), sample.scores.quality_reason.strip())
    return " ".join(reason for reason in reasons if reason)
