"""Verdicts of people on pictures, as rows of the highest trust."""

from goalreel.datasets.corpora.trajectories import HumanVerdict, HumanVerdicts
from goalreel.datasets.corrections.board import opinion
from goalreel.datasets.corrections.state import Review


def human_verdicts(review: Review) -> HumanVerdicts:
    """Read verdicts by (step, attempt) from a review; they have no reasoning, for people give none.

    The goal images of an accepted episode and those that a person chose are right; one flagged as a wrong
    picture is not. What is kept out for another reason, as a wrong time, is no verdict on a picture.
    """
    verdicts: dict[tuple[int, int], HumanVerdict] = {}
    for place, step in enumerate(review.steps):
        why = opinion(review, step)
        if why is not None and why != "kept_out" and step.chosen is not None:
            verdicts[place, step.chosen] = HumanVerdict(success=why != "wrong_picture", correction=why)
    return verdicts
