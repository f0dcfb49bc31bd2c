"""What a picture is worth, in numbers: the seam between corpora, rewards and whatever scores for them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from goalreel.types import Candidate


@dataclass(frozen=True)
class PictureScores:
    """How well a picture does what was ordered, and how good it looks; 0-10, the lower of two marks each."""

    semantics: float
    quality: float
    semantics_reason: str = ""
    """What the scorer said about it."""
    quality_reason: str = ""

    @property
    def overall(self) -> float:
        """Geometric mean of both, 0-10."""
        return math.sqrt(self.semantics * self.quality)


class Scorer(Protocol):
    """Scores pictures, batch first: answer i belongs to candidate i."""

    def score(self, candidates: Sequence[Candidate]) -> Sequence[PictureScores | None]:
        """Score each candidate's picture by its `prompt`; None where it cannot be told.

        Raises:
            goalreel.errors.BackendError: the scorer cannot be called at all.
        """
        ...
