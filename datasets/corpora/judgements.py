"""Answers for the Critic to learn: a scored attempt with the verdict that it should have got.

The better prompt for a rejected picture is that of the next attempt, if its picture scored better, else that
of the step's best attempt. All attempts start from the same source, so the better picture came from the
better prompt. A prompt that equals the rejected one teaches nothing, since only its seed was luckier.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.reply_format import verdict_reply
from goalreel.datasets.corpora.critiques import CRITIQUES, CritiqueRow, critique_lesson
from goalreel.datasets.corpora.kind import Lesson, RowKind
from goalreel.datasets.corpora.trajectories import StepSample
from goalreel.datasets.corrections.board import critic_words
from goalreel.types import Verdict

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


def _encode(row: JudgementRow) -> dict[str, Any]:
    reply = {"reasoning": row.verdict.reasoning, "refined_prompt": row.verdict.refined_prompt}
    return CRITIQUES.encode(row.critique) | reply


def _decode(values: Mapping[str, Any]) -> JudgementRow:
    verdict = {name: values[name] for name in ("success", "reasoning", "refined_prompt")}
    return JudgementRow(CRITIQUES.decode(values), Verdict(**verdict))


JUDGEMENTS = RowKind(
    name="judgements",
    columns={**CRITIQUES.columns, "reasoning": "string", "refined_prompt": "string"},
    encode=_encode,
    decode=_decode,
    json_columns=CRITIQUES.json_columns,
    lesson=judgement_lesson,
)
