"""A person who corrects episodes of an annotated dataset, through its log."""

from pathlib import Path

from goalreel.datasets.corrections.events import Correction
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.corrections.state import Review
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source


def says(out: Path, episode: int, *changes: Correction, source: Path | None = None) -> Review:
    """Make changes to an episode; frames are those of `source` where `out` is not written yet."""
    reviews, length = Reviews(Records(out / FOLDER, "")), len(Source.open(source or out).episode(episode))
    for change in changes:
        reviews.change(episode, length, reviews.look(episode, length).revision, "ann", change)
    return reviews.look(episode, length).review
