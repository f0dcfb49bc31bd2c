"""Measure how far people and models agree on an annotated dataset, from its corrections.

Only episodes that somebody accepted or rejected after they looked count, and of an accepted one the steps
that were on their screen. The Critic is compared on the goal images that its
record chose: a person calls one right by accepting the episode with it, and wrong by flagging it or choosing
another.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from goalreel.annotator.statistics import (
    Measurement,
    Sums,
    balanced_accuracy,
    boundary_counts,
    share,
    with_interval,
)
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.corrections.state import Review
from goalreel.datasets.hub import local_folder
from goalreel.datasets.records import FOLDER, Records
from goalreel.errors import DatasetError
from goalreel.types import Storyboard

Z = 1.645
"""Quantile of a one-sided bound of 95 %."""
TOLERANCE_S = 0.5


class ReviewReport(BaseModel):
    """Opinions of people about the episodes that they looked at, and accepted or rejected."""

    model_config = ConfigDict(frozen=True)

    episodes: int
    """Reviewed: accepted or rejected."""
    accepted: int
    untouched: Measurement
    """Share of the reviewed episodes that were accepted as they came."""
    pictures: int
    """Goal images of which Critic and person both said something."""
    agreement: Measurement
    """Share of them on which both say the same."""
    balanced_agreement: Measurement
    """Mean of the shares that the Critic got right among those a person calls right, and wrong."""
    accepted_wrong: Measurement
    """Share of those that the Critic accepted which people call wrong."""
    faulty: Measurement
    """Share of the reviewed episodes, all of whose goal images the Critic accepted, that people had to
    change or reject."""
    faulty_at_most: float | None
    """Upper bound of that share, with 95 % confidence (Wilson's bound), were the reviewed episodes drawn at
    random: a queue by doubt puts the worst first, so there it is pessimistic."""
    boundary_f1: Measurement
    """The record's boundaries against the person's, within 0.5 s."""
    names_kept: Measurement
    """Share of the record's steps whose name stayed."""
    steps_added: int
    steps_removed: int


def measure_reviews(dataset: Path, fps: float) -> ReviewReport:
    """Compare the records of an annotated dataset with what people made of them; `fps` is the dataset's.

    Raises:
        DatasetError: no episode was accepted or rejected, or a record or a log is damaged.
    """
    records = Records(local_folder(dataset) / FOLDER, source="")
    reviews = [_Judged(records.review(e), records.original(e), fps) for e in Reviews(records).episodes()]
    judged = [one for one in reviews if one.review.verdict in ("accept", "reject") and not one.review.unseen]
    if not judged:
        raise DatasetError(
            f"{dataset}: nobody has accepted or rejected an episode that they looked at: run goalreel review"
        )
    pictures = np.array([review.pictures() for review in judged], np.float64)
    right, wrong = pictures[:, [0, 1]], pictures[:, [3, 2]]  # the Critic said yes, or no; then the other
    both = np.stack([pictures[:, 0] + pictures[:, 3], pictures.sum(axis=1)], axis=1)
    sided = np.stack([right[:, 0], right.sum(axis=1), wrong[:, 0], wrong.sum(axis=1)], axis=1)
    trusted = [(review.touched, 1.0) for review in judged if review.all_accepted]
    return ReviewReport(
        episodes=len(judged),
        accepted=sum(review.review.accepted for review in judged),
        untouched=with_interval([(not review.touched, 1) for review in judged], share),
        pictures=int(pictures.sum()),
        agreement=with_interval(both, share),
        balanced_agreement=with_interval(sided, balanced_accuracy),
        accepted_wrong=with_interval(pictures[:, [2, 0, 2]], _second),
        faulty=with_interval(trusted, share),
        faulty_at_most=_at_most(sum(touched for touched, _ in trusted), len(trusted)),
        boundary_f1=with_interval([review.boundaries() for review in judged], share),
        names_kept=with_interval([review.names() for review in judged], share),
        steps_added=sum(review.added for review in judged),
        steps_removed=sum(review.removed for review in judged),
    )


class _Judged:
    """A reviewed episode beside its record."""

    def __init__(self, review: Review, record: Storyboard, fps: float) -> None:
        self.review, self.record, self.fps = review, record, fps
        self._steps = {step.id: step for step in review.steps}
        ids = {str(number) for number in range(len(record.steps))}
        self.added, self.removed = len(set(self._steps) - ids), len(ids - set(self._steps))
        flagged = review.issues or any(step.issues for step in review.steps)
        self.touched = review.corrected or review.verdict == "reject" or bool(flagged)
        self.all_accepted = record.complete

    def pictures(self) -> tuple[int, int, int, int]:
        """Count how often person and Critic say yes and yes, yes and no, no and yes, no and no."""
        counts = Counter(self._opinions())
        return counts[True, True], counts[True, False], counts[False, True], counts[False, False]

    def _opinions(self) -> Iterator[tuple[bool, bool]]:
        """Yield (the person calls it right, the Critic accepted it) for each goal image that both judged."""
        for number, step in enumerate(self.record.steps):
            opinion = self._steps.get(str(number))
            if opinion is None or step.goal_image is None:
                continue
            same = opinion.goal == step.goal_image.frame
            if "wrong_picture" in opinion.issues or ("goal" in opinion.edited and not same):
                yield False, step.accepted
            elif same and self.review.accepts(opinion):
                yield True, step.accepted

    def boundaries(self) -> tuple[int, int]:
        recorded, reviewed = (
            [step.segment for step in steps if step.segment]
            for steps in (self.record.steps, self.review.steps)
        )
        return boundary_counts(recorded, reviewed, TOLERANCE_S, self.fps).pair

    def names(self) -> tuple[int, int]:
        kept = (
            str(i) in self._steps and self._steps[str(i)].step.name == step.step.name
            for i, step in enumerate(self.record.steps)
        )
        return sum(kept), len(self.record.steps)


def _second(sums: Sums) -> Sums:
    """Column 0 over columns 1 and 2 together."""
    return share(np.stack([sums[..., 0], sums[..., 1] + sums[..., 2]], axis=-1))


def _at_most(hits: float, count: int) -> float | None:
    """Upper end of Wilson's interval of a share."""
    if not count:
        return None
    p = hits / count
    middle, spread = p + Z**2 / (2 * count), Z * np.sqrt(p * (1 - p) / count + Z**2 / (4 * count**2))
    return float(min(1.0, (middle + spread) / (1 + Z**2 / count)))
