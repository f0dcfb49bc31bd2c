"""What people said of pictures, as rows of the highest trust."""

from goalreel.datasets.corpora.trajectories import Said, SaidVerdict
from goalreel.datasets.corrections.board import opinion
from goalreel.datasets.corrections.state import Review


def said(review: Review) -> Said:
    """Verdicts by (step, attempt) of the corrected storyboard, without words: people gave none.

    The goal images of an accepted episode and those that a person chose are right; one flagged as a wrong
    picture is not. What is kept out for another reason, as a wrong time, is no verdict on a picture.
    """
    found: dict[tuple[int, int], SaidVerdict] = {}
    for place, step in enumerate(review.steps):
        why = opinion(review, step)
        if why is not None and why != "kept_out" and step.chosen is not None:
            found[place, step.chosen] = SaidVerdict(success=why != "wrong_picture", correction=why)
    return found
