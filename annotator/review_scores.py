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
from pydantic import BaseModel

from goalreel.annotator.statistics import (
    Measurement,
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


class ReviewReport(BaseModel, frozen=True):
    """Opinions of people about the episodes that they looked at, and accepted or rejected."""

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
    """Compare the records of an annotated dataset with what people made of them; `fps` is the dataset's."""
    records = Records(local_folder(dataset) / FOLDER, source="")
    reviews = [(records.review(e), records.original(e)) for e in Reviews(records).episodes()]
    judged = [(r, b) for r, b in reviews if r.verdict in ("accept", "reject") and not r.unseen]
    if not judged:
        raise DatasetError(
            f"{dataset}: nobody has accepted or rejected an episode that they looked at: run goalreel review"
        )
    pictures = np.array([_pictures(*both) for both in judged], np.float64)
    right, wrong = pictures[:, [0, 1]], pictures[:, [3, 2]]  # the Critic said yes, or no; then the other
    same = np.stack([pictures[:, 0] + pictures[:, 3], pictures.sum(axis=1)], axis=1)
    sided = np.stack([right[:, 0], right.sum(axis=1), wrong[:, 0], wrong.sum(axis=1)], axis=1)
    touched = [_is_touched(review) for review, _ in judged]
    trusted = [t for t, (_, board) in zip(touched, judged, strict=True) if board.complete]
    steps = [({step.id for step in r.steps}, {str(i) for i in range(len(b.steps))}) for r, b in judged]
    return ReviewReport(
        episodes=len(judged),
        accepted=sum(review.accepted for review, _ in judged),
        untouched=with_interval([(not t, 1) for t in touched], share),
        pictures=int(pictures.sum()),
        agreement=with_interval(same, share),
        balanced_agreement=with_interval(sided, balanced_accuracy),
        # column 0 over columns 1 and 2 together
        accepted_wrong=with_interval(
            pictures[:, [2, 0, 2]],
            lambda sums: share(np.stack([sums[..., 0], sums[..., 1] + sums[..., 2]], axis=-1)),
        ),
        faulty=with_interval([(t, 1) for t in trusted], share),
        faulty_at_most=_at_most(sum(trusted), len(trusted)),
        boundary_f1=with_interval([_boundaries(*both, fps) for both in judged], share),
        names_kept=with_interval([_names(*both) for both in judged], share),
        steps_added=sum(len(now - before) for now, before in steps),
        steps_removed=sum(len(before - now) for now, before in steps),
    )


def _is_touched(review: Review) -> bool:
    """True if a person changed, flagged or rejected an episode."""
    flagged = review.issues or any(step.issues for step in review.steps)
    return review.corrected or review.verdict == "reject" or bool(flagged)


def _pictures(review: Review, board: Storyboard) -> tuple[int, int, int, int]:
    """Count how often person and Critic say yes and yes, yes and no, no and yes, no and no."""
    counts = Counter(_opinions(review, board))
    return counts[True, True], counts[True, False], counts[False, True], counts[False, False]


def _opinions(review: Review, board: Storyboard) -> Iterator[tuple[bool, bool]]:
    """Yield (the person calls it right, the Critic accepted it) for each goal image that both judged."""
    opinions = {step.id: step for step in review.steps}
    for number, step in enumerate(board.steps):
        opinion = opinions.get(str(number))
        if opinion is None or step.goal_image is None:
            continue
        same = opinion.goal == step.goal_image.frame
        if "wrong_picture" in opinion.issues or ("goal" in opinion.edited and not same):
            yield False, step.accepted
        elif same and review.accepts(opinion):
            yield True, step.accepted


def _boundaries(review: Review, board: Storyboard, fps: float) -> tuple[int, int]:
    recorded, reviewed = ([s.segment for s in steps if s.segment] for steps in (board.steps, review.steps))
    return boundary_counts(recorded, reviewed, TOLERANCE_S, fps).pair


def _names(review: Review, board: Storyboard) -> tuple[int, int]:
    names = {step.id: step.step.name for step in review.steps}
    kept = sum(names.get(str(i)) == step.step.name for i, step in enumerate(board.steps))
    return kept, len(board.steps)


def _at_most(hits: float, count: int) -> float | None:
    """Upper end of Wilson's interval of a share."""
    if not count:
        return None
    p = hits / count
    middle, spread = p + Z**2 / (2 * count), Z * np.sqrt(p * (1 - p) / count + Z**2 / (4 * count**2))
    return float(min(1.0, (middle + spread) / (1 + Z**2 / count)))
