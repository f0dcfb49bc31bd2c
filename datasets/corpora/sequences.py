"""Whole storyboards as one conversation: the plan, then each picture with its verdict.

`easy` has the accepted attempts alone; `reflection` has the rejected ones too, with the Critic's words. A
model that learns them plans and judges. The paper's code makes such rows; whether they were used, it does not
say.
"""

from collections.abc import Iterator
from typing import Literal

from goalreel.chat.conversation import Message
from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.interleave import plain
from goalreel.chat.reply_format import verdict_reply
from goalreel.datasets.corpora.continuations import plan_row
from goalreel.datasets.corpora.conversations import TalkRow, talks
from goalreel.datasets.corpora.trajectories import Outline
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.types import ACCEPTED, Storyboard, Verdict

EASY, REFLECTION = talks("easy"), talks("reflection")

type SequenceFault = Literal[
    "no_plan",
    "incomplete",
    "words_only",
    "marks_without_pictures",
    "unscored",
    "scorer_disagrees",
    "nothing_rejected",
]


def easy_fault(outline: Outline) -> SequenceFault | None:
    """Why a storyboard is no sequence; None where every step was accepted, and the scorer agrees."""
    if not outline.statuses:
        return "no_plan"
    if not all(status in (*ACCEPTED, "text") for status in outline.statuses):
        return "incomplete"
    if not set(ACCEPTED) & set(outline.statuses):
        return "words_only"
    if not outline.askable:
        return "marks_without_pictures"
    chosen_samples = [s for s in outline.samples if outline.chosen[s.step] == s.attempt]
    if any(s.scores is None for s in chosen_samples):
        return "unscored"
    return None if all(s.success for s in chosen_samples) else "scorer_disagrees"


def reflection_fault(outline: Outline) -> SequenceFault | None:
    """Why a storyboard is no sequence with rejected attempts."""
    if fault := easy_fault(outline):
        return fault
    if any(s.verdict is not None and not s.verdict.success for s in outline.samples):
        return None
    return "nothing_rejected"


def sequence_row(board: Storyboard, task_id: str, *, rejected: bool, dialect: Dialect = OWN) -> TalkRow:
    """A storyboard as a conversation, with or without its `rejected` attempts.

    Raises:
        ValueError: it has no plan, or no accepted picture.
    """
    first = plan_row(board, task_id, dialect)
    conversation, reply = first.lesson
    turns = [*conversation, Message("assistant", (reply,))]
    for text, picture, verdict in _attempts(board, rejected):
        turns += [Message("user", (text, picture)), Message("assistant", (verdict_reply(verdict),))]
    *conversation, last = turns
    return TalkRow(task_id, first.done, (tuple(conversation), str(last.parts[0])))


def _attempts(board: Storyboard, rejected: bool) -> Iterator[tuple[str, Image, Verdict]]:
    for number, step in enumerate(board.steps, len(board.task.done) + 1):
        for i, attempt in enumerate(step.attempts):
            if attempt.image is None or attempt.verdict is None or not (rejected or i == step.chosen):
                continue
            text = f"Step {number}: {plain(step.step.instruction)}\nOrder: {plain(attempt.prompt)}\nPicture: "
            verdict = attempt.verdict.model_copy(update={"reasoning": critic_words(attempt.verdict)})
            yield text, attempt.image, verdict
