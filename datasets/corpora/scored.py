"""Scores 0-10 for each sample, and from them whether the step succeeded (the paper's J).

The paper gives no threshold; GOOD is goalreel's own.
"""

from collections.abc import Callable

from goalreel.datasets.corpora.trajectories import Outline, StepSample
from goalreel.scoring import PictureScores
from goalreel.types import Verdict

GOOD = 6.0
"""A picture that succeeds has at least this in semantics and in quality."""
type SuccessOf = Callable[[PictureScores], bool | None]
"""Whether a picture with these scores has succeeded; None where they leave it in doubt."""
_WORST, _BEST = 0.0, 10.0


def succeeds(scores: PictureScores) -> bool:
    """Whether a picture with these scores has succeeded."""
    return min(scores.semantics, scores.quality) >= GOOD


def scored(sample: StepSample, scores: PictureScores | None, success_of: SuccessOf = succeeds) -> StepSample:
    """Give a sample a scorer's scores; a person's verdict takes precedence."""
    if sample.said is not None:
        return _by(sample, sample.said, _human_scores(sample.said))
    if scores is None:
        return sample
    return sample.model_copy(update={"scores": scores, "success": success_of(scores)})


def by_record(outline: Outline) -> Outline:
    """Every sample with the scores and the verdict that its own Critic gave; as it was where it gave none.

    Picture checks are no Critic: they compared nothing with the words.
    """
    return outline.model_copy(update={"samples": tuple(_recorded(sample) for sample in outline.samples)})


def _recorded(sample: StepSample) -> StepSample:
    if sample.said is not None:
        return scored(sample, None)
    verdict = sample.verdict
    if verdict is None or verdict.pictures_only or verdict.semantics is None or verdict.quality is None:
        return sample
    return _by(sample, verdict, PictureScores(verdict.semantics, verdict.quality))


def _by(sample: StepSample, verdict: Verdict, scores: PictureScores) -> StepSample:
    return sample.model_copy(update={"scores": scores, "success": verdict.success})


def _human_scores(verdict: Verdict) -> PictureScores:
    """The scores of a person's verdict: the best or the worst where it has none."""
    plain = _BEST if verdict.success else _WORST
    return PictureScores(
        plain if verdict.semantics is None else verdict.semantics,
        plain if verdict.quality is None else verdict.quality,
    )
