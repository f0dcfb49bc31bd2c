"""The two published forms of the Critic's reward. They are different objectives, not two notations of one.

`paper` (arXiv 2606.13679, section 3.3): accuracy is -|verdict - J|, and step is the change of the overall
score, 0-10. One point more is worth 0.4, a right verdict 0.1, the form 0.5.
`repository` (its `interleave_thinker_reward.py`): accuracy is 0 or 1, step is 0.6 semantics + 0.2 quality,
each change brought to 0-1. One point of semantics is worth 0.015, a right verdict 0.1. It is the default,
since the published weights presumably came from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from goalreel.scoring import PictureScores

type FormName = Literal["repository", "paper"]

_SEMANTICS = 0.75
"""Of the step: 0.6 of 0.8; the rest is quality's."""


@dataclass(frozen=True)
class RewardForm:
    """What a verdict and a step earn. `unchanged`: nothing was edited, or nothing came of it."""

    right: float
    wrong: float
    unchanged: float
    worst: float
    """The lowest step there is: no change to a score, however bad, earns less."""
    step: Callable[[PictureScores, PictureScores], float]
    """(scores of the candidate, scores of the new picture) -> what the change earns."""


def _normalised(old: PictureScores, new: PictureScores) -> float:
    semantics, quality = new.semantics - old.semantics, new.quality - old.quality
    return _SEMANTICS * (semantics / 10 + 1) / 2 + (1 - _SEMANTICS) * (quality / 10 + 1) / 2


def _raw(old: PictureScores, new: PictureScores) -> float:
    return new.overall - old.overall


FORMS: Mapping[FormName, RewardForm] = {
    "repository": RewardForm(right=1.0, wrong=0.0, unchanged=0.5, worst=0.0, step=_normalised),
    "paper": RewardForm(right=0.0, wrong=-1.0, unchanged=0.0, worst=-10.0, step=_raw),
}
