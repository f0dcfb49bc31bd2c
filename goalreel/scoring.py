"""Scores of pictures: the seam between corpora and rewards on one side and their scorers on the other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from goalreel.types import Candidate


@dataclass(frozen=True)
class PictureScores:
    """Scores for following the prompt and for looking good; each 0-10, the lower of two marks."""

    semantics: float
    quality: float
    semantics_reason: str = ""
    """The scorer's words about it."""
    quality_reason: str = ""

    @property
    def overall(self) -> float:
        """Geometric mean of both, 0-10."""
        return math.sqrt(self.semantics * self.quality)


class Scorer(Protocol):
    """Scores pictures, batch first: answer i belongs to candidate i."""

    def score(self, candidates: Sequence[Candidate]) -> Sequence[PictureScores | None]:
        """Score each candidate's picture by its `prompt`; None where the scorer gives no score.

        Raises:
            goalreel.errors.BackendError: the scorer cannot be called at all.
        """
        ...
