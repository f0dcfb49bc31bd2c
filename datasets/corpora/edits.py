"""Rows for an editor: the picture before a step, the prompt, and the picture after it.

In a recording, both are frames that a camera saw. Else a Critic or a person accepted the goal image. A step
whose words may be untrue gives no row: the editor would learn to draw something else than it is told.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from goalreel.datasets.corpora.rows import dataclass_kind
from goalreel.datasets.corpora.trajectories import HumanVerdicts, Outline, source_of
from goalreel.image import Image
from goalreel.types import ACCEPTED, Storyboard

type EditFault = Literal["words_only", "failed", "doubtful_words", "not_accepted", "no_source"]


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
    """`observed`: frames of a recording. `verified`: a goal image that was accepted."""
    trust: int
    """1 where a person accepted or chose the picture, else 0."""


STORED_EDITS = dataclass_kind(
    StoredEdit,
    "edits",
    ("task_id", "step", "source", "target", "prompt", "instruction", "status", "trust"),
)


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
    """Make the row of a step for which `edit_fault` is None.

    Raises:
        ValueError: the step lacks a picture or a prompt.
    """
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
