"""One attempt at one step, with its scores: the recipe's step-wise sample (InterleaveThinker, section 3.2).

GRPO asks the Critic about it, and its reward begins with these scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goalreel.chat.dialects import OWN, Dialect
from goalreel.critics.chat import question
from goalreel.datasets.corpora.kind import PICTURE, Lesson, RowKind
from goalreel.image import Image
from goalreel.types import Candidate


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
