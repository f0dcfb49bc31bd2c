"""One attempt at one step, with its scores: the recipe's step-wise sample (InterleaveThinker, section 3.2).

GRPO asks the Critic about it, and its reward begins with these scores.

Answers for the Critic to learn: a scored attempt with the verdict that it should have got.

The better prompt for a rejected picture is that of the next attempt, if its picture scored better, else that
of the step's best attempt. All attempts start from the same source, so the better picture came from the
better prompt. A prompt that equals the rejected one teaches nothing, since only its seed was luckier.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.reply_format import verdict_reply
from goalreel.critics.chat import question
from goalreel.datasets.corpora.rows import PICTURE, Lesson, RowKind
from goalreel.datasets.corpora.trajectories import StepSample, candidate
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.types import Candidate, Storyboard, Verdict


@dataclass(frozen=True)
class CritiqueRow:
    """What the Critic is shown, and what a scorer says of it."""

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
    """The plan's own order, the paper's p_i."""
    prompt: str
    """The order that made the candidate, the paper's r_i^t."""
    success: bool
    """What is true of the candidate, by the scorer or by a person: the paper's J."""
    semantics: float
    quality: float
    """Scores of the candidate, 0-10."""
    trust: int = 0
    """0: scored by a model or the simulator. 1: said by a person."""
    correction: str = ""
    """What that person did: accepted, chosen or wrong_picture."""


def candidate_of(row: CritiqueRow) -> Candidate:
    """What the Critic is asked about; always two pictures."""
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
    """The Critic's conversation, without a reply to learn: GRPO samples its own."""
    return question(candidate_of(row), dialect=dialect).conversation, ""


def _encode(row: CritiqueRow) -> dict[str, Any]:
    return dict(vars(row))


def _decode(values: Mapping[str, Any]) -> CritiqueRow:
    columns: dict[str, Any] = {
        "correction": "",
        **values,
    }  # corpora made before people could correct have none
    return CritiqueRow(**{name: columns[name] for name in CRITIQUES.columns})


def critique_row(board: Storyboard, task_id: str, sample: StepSample) -> CritiqueRow:
    """The row of a scored sample; white stands for a source that is not there.

    Raises:
        ValueError: the sample has no scores, or they leave it in doubt.
    """
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


CRITIQUES = RowKind(
    name="critiques",
    columns={
        "task_id": "string",
        "step": "int32",
        "attempt": "int32",
        "source": PICTURE,
        "candidate": PICTURE,
        "drawn": "bool",
        "instruction": "string",
        "first_prompt": "string",
        "prompt": "string",
        "success": "bool",
        "semantics": "float32",
        "quality": "float32",
        "trust": "int32",
        "correction": "string",
    },
    encode=_encode,
    decode=_decode,
    json_columns=("task_id", "step", "attempt", "success", "semantics", "quality", "trust", "correction"),
    lesson=critique_lesson,
)


BETTER = 0.5
"""By so much a better picture scores higher: less is a judge's noise. Ours, as the paper names none."""


@dataclass(frozen=True)
class JudgementRow:
    """What the Critic is shown, and what it is to answer."""

    critique: CritiqueRow
    verdict: Verdict


def judgement(
    sample: StepSample, attempts: Sequence[StepSample]
) -> Verdict | Literal["in_doubt", "no_better_prompt", "no_reasoning"]:
    """The verdict to learn about a scored sample, or why there is none; `attempts` are all of its step.

    The words are those of the record's verdict where it was right, else the scorer's. What a person said
    comes first, and is a verdict whatever it lacks.
    """
    if sample.success is None:
        return "in_doubt"
    prompt = None if sample.success else _order(sample, attempts)
    reasoning = _reasoning(sample)
    if sample.said is None:
        if not sample.success and prompt is None:
            return "no_better_prompt"
        if not reasoning:
            return "no_reasoning"
    return Verdict(success=sample.success, reasoning=reasoning, refined_prompt=prompt)


def _order(sample: StepSample, attempts: Sequence[StepSample]) -> str | None:
    if sample.said is not None and sample.said.refined_prompt is not None:
        return sample.said.refined_prompt
    following = [a for a in attempts if a.attempt == sample.attempt + 1]
    best = sorted(attempts, key=_overall, reverse=True)[:1]
    for other in (*following, *best):
        if other.prompt.strip() != sample.prompt.strip() and _overall(other) >= _overall(sample) + BETTER:
            return other.prompt
    return None


def _overall(sample: StepSample) -> float:
    return -1.0 if sample.scores is None else sample.scores.overall


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


def judgement_lesson(row: JudgementRow, dialect: Dialect = OWN) -> Lesson:
    """The conversation that GRPO asks too, with the verdict as the reply."""
    conversation, _ = critique_lesson(row.critique, dialect)
    return conversation, verdict_reply(row.verdict)


def _encode_judgements(row: JudgementRow) -> dict[str, Any]:
    reply = {"reasoning": row.verdict.reasoning, "refined_prompt": row.verdict.refined_prompt}
    return CRITIQUES.encode(row.critique) | reply


def _decode_judgements(values: Mapping[str, Any]) -> JudgementRow:
    verdict = {name: values[name] for name in ("success", "reasoning", "refined_prompt")}
    return JudgementRow(CRITIQUES.decode(values), Verdict(**verdict))


JUDGEMENTS = RowKind(
    name="judgements",
    columns={**CRITIQUES.columns, "reasoning": "string", "refined_prompt": "string"},
    encode=_encode_judgements,
    decode=_decode_judgements,
    json_columns=CRITIQUES.json_columns,
    lesson=judgement_lesson,
)
