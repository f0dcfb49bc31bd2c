"""What people have accepted in an annotated dataset, as examples for a model that watches."""

from pathlib import Path

from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.corrections.state import Review
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.planners.watch.exemplars import Exemplar, ExemplarSegment, numbers_of


def accepted(reviewed: Path) -> tuple[Exemplar, ...]:
    """The episodes that people have accepted in the annotated dataset `reviewed`, in order.

    One in which something is still flagged as wrong, or a step has no place in the recording, is none.

    Raises:
        DatasetError: there is no such episode; or the dataset, a record or a log of corrections is damaged.
    """
    source, records = Source.open(reviewed), Records(reviewed / FOLDER, source="")
    reviews = ((index, records.review(index)) for index in Reviews(records).episodes())
    candidates = (_exemplar(source, index, review) for index, review in reviews if review.verdict == "accept")
    exemplars = tuple(exemplar for exemplar in candidates if exemplar is not None)
    if not exemplars:
        raise DatasetError(
            f"{reviewed}: there is no episode that a person has accepted without flagging an issue: "
            "review some episodes first"
        )
    return exemplars


def _exemplar(source: Source, index: int, review: Review) -> Exemplar | None:
    placed = [
        (reviewed_step.step, reviewed_step.segment)
        for reviewed_step in review.steps
        if reviewed_step.segment is not None and not reviewed_step.issues
    ]
    if review.issues or not placed or len(placed) < len(review.steps):
        return None

    def seconds(frame: int) -> float:
        return round(frame / source.fps, 1)

    segments = (
        ExemplarSegment(start_s=seconds(a.start), end_s=seconds(a.end), name=step.name, outcome=step.outcome)
        for step, a in placed
    )
    return Exemplar(
        episode=index,
        numbers=numbers_of(source.episode(index)),
        instruction=review.task.instruction,
        length_s=seconds(review.length),
        segments=tuple(segments),
    )
