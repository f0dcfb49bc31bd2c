"""One dataset under review: what the page asks for, without HTTP.

The truth is the log of corrections (`goalreel.datasets.corrections`); nothing here outlives the process.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from goalreel.annotator.options import Options
from goalreel.annotator.review.curves import curves
from goalreel.annotator.review.priority import unmoved
from goalreel.annotator.review.queue import Listed, QueueRow, ReviewQueue
from goalreel.annotator.review.schemas import (
    CameraAnswer,
    DatasetAnswer,
    EpisodeAnswer,
    ListAnswer,
    PageEvent,
    RowAnswer,
)
from goalreel.annotator.review.views import history, told_step
from goalreel.annotator.show import recording_of
from goalreel.datasets.corrections.log import ConflictError
from goalreel.datasets.corrections.reviews import Reviewed, Reviews
from goalreel.datasets.episode import Episode, stored
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, UserError
from goalreel.planners.kinematic import Layout
from goalreel.planners.kinematic.layout import Unsegmentable
from goalreel.planners.watch.planner import proposed
from goalreel.progress import OnProgress
from goalreel.types import Attempt, Storyboard

SLACK_S = 0.5
"""So near a proposal of the kinematics a boundary is borne out by the motion."""
KEPT_OPEN = 16
"""Episodes whose numbers are kept."""


class ReviewDesk:
    """Everything the page shows of a dataset that `goalreel annotate` wrote, and the changes it makes."""

    def __init__(
        self, dataset: Path, source: Source, reviews: Reviews, queue: ReviewQueue, reviewer: str
    ) -> None:
        self.source, self.reviews, self.queue = source, reviews, queue
        settings = reviews.records.settings()
        self.options = Options.of(settings)
        camera = source.camera(settings.get("camera"))
        self.cameras = tuple(key for key in source.views(camera) if key != self.options.subgoal_key)
        self._name, self._reviewer = dataset.resolve().name, reviewer
        self._layout = Layout.parse(self.options.layout) if self.options.layout else None
        self._episode = lru_cache(KEPT_OPEN)(source.episode)
        self._curves = lru_cache(KEPT_OPEN)(lambda index: curves(self.episode(index), self._layout))

    @classmethod
    def open(
        cls,
        dataset: Path,
        *,
        source: Path | None = None,
        reviewer: str = "reviewer",
        progress: OnProgress = lambda stage, done, total: None,
    ) -> "ReviewDesk":
        """Read what is recorded of the dataset, once.

        `source`: what it is made from, while it is not written itself.

        Raises:
            DatasetError: it was not annotated by goalreel, or is damaged.
        """
        records = Records(dataset / FOLDER, source="")
        done = sorted(records.done())
        recorded = recording_of(dataset, records, source, done)
        lengths = dict(zip(recorded.indices, recorded.rows.column("length"), strict=True))
        if not done:
            raise DatasetError(f"{dataset}: no annotated episode: run goalreel annotate first")
        reviews = Reviews(records)
        queue = ReviewQueue.read(
            reviews,
            {i: lengths[i] for i in done if i in lengths},
            progress,
            _against_motion(recorded, records),
        )
        return cls(dataset, recorded, reviews, queue, reviewer)

    def episode(self, index: int) -> Episode:
        """The recorded episode.

        Raises:
            DatasetError: it cannot be read.
        """
        return self._episode(index)

    def dataset(self, can_render: bool) -> DatasetAnswer:
        """What all episodes have in common."""
        return DatasetAnswer(
            name=self._name,
            fps=self.source.fps,
            cameras=list(self.cameras),
            episodes=len(self.queue),
            can_render=can_render,
            names=self.queue.names(),
            reviewer=self._reviewer,
        )

    def rows(self, listed: Listed, offset: int, limit: int) -> ListAnswer:
        """A page of the list."""
        found = self.queue.select(listed)
        reviewed, an_hour = self.queue.progress()
        rows = [self._row(row) for row in found[offset : offset + limit]]
        return ListAnswer(total=len(found), reviewed=reviewed, an_hour=an_hour, rows=rows)

    def look(self, index: int, listed: Listed) -> EpisodeAnswer:
        """An episode as it is now, and its neighbours in the list that it was chosen from.

        Raises:
            DatasetError: it or its log cannot be read.
        """
        return self._answer(index, self.reviews.look(index, self._length(index)), listed)

    def change(self, index: int, revision: int, by: str, event: PageEvent, listed: Listed) -> EpisodeAnswer:
        """Make a change; when this returns it is on the disk. The rest is as in `look`.

        Raises:
            ConflictError: somebody was first.
            InputError: it does not fit the episode.
            DatasetError: the log is damaged, or the disk is full.
        """
        found = self.reviews.change(index, self._length(index), revision, by, event)
        return self._answer(index, found, listed)

    def check(self, index: int, revision: int) -> None:
        """See that an episode is at a revision.

        Raises:
            ConflictError: it is at another one.
        """
        found = self.reviews.look(index, self._length(index))
        if found.revision != revision:
            raise ConflictError(found.revision, found.entries[-1].by if found.entries else "nobody")

    def add(
        self, index: int, by: str, step: str, attempts: Sequence[Attempt], listed: Listed
    ) -> EpisodeAnswer:
        """Add attempts that models made to whatever the episode is by now: they took long, and change nothing
        that anybody did meanwhile.

        Raises:
            InputError: the step is gone.
            DatasetError: as `change`.
        """
        length = self._length(index)
        while True:
            revision = self.reviews.look(index, length).revision
            try:
                found = self.reviews.render(index, length, revision, by, step, attempts)
            except ConflictError:
                continue
            return self._answer(index, found, listed)

    def video(self, index: int, camera: str) -> Path | None:
        """The file that shows an episode, and maybe others; None for a camera that is kept as pictures.

        Raises:
            DatasetError: meta/episodes does not say where it is.
        """
        if self.source.features[camera]["dtype"] != "video":
            return None
        row, prefix = self.source.rows.of(index), f"videos/{camera}"
        try:
            return stored(self.source.root, self.source.info["video_path"], row, prefix, video_key=camera)
        except KeyError as e:
            raise DatasetError(f"{self.source.root}: no video of {camera} in episode {index}") from e

    def _length(self, index: int) -> int:
        return self.queue[index].frames

    def _row(self, row: QueueRow) -> RowAnswer:
        return RowAnswer(
            episode=row.episode,
            instruction=row.instruction,
            seconds=round(row.frames / self.source.fps, 3),
            steps=len(row.names),
            status=row.status,
            verdict=row.verdict,
            by=row.by,
            doubt=row.doubt.value,
            reasons=row.doubt.reasons,
        )

    def _answer(self, index: int, found: Reviewed, listed: Listed) -> EpisodeAnswer:
        self.queue.update(index, found)
        review, row = found.review, self.queue[index]
        previous, following = self.queue.beside(index, listed)
        return EpisodeAnswer(
            episode=index,
            revision=found.revision,
            instruction=review.task.instruction,
            failure=f"{review.failure.stage}: {review.failure.message}" if review.failure else None,
            fps=self.source.fps,
            length=row.frames,
            doubt=row.doubt.value,
            reasons=row.doubt.reasons,
            cameras=[self._camera(index, key) for key in self.cameras],
            curves=self._curves(index),
            verdict=review.verdict,
            by=review.by,
            issues=review.issues,
            steps=[told_step(index, step) for step in review.steps],
            can_undo=found.can_undo,
            can_redo=found.can_redo,
            history=list(history(found)),
            previous=previous,
            next=following,
        )

    def _camera(self, index: int, key: str) -> CameraAnswer:
        seconds = self.queue[index].frames / self.source.fps
        if self.video(index, key) is None:
            return CameraAnswer(key=key, video=None, from_s=0.0, to_s=seconds)
        row = self.source.rows.of(index)
        begin = float(row[f"videos/{key}/from_timestamp"])
        return CameraAnswer(
            key=key, video=f"/video/{index}/{quote(key, safe='')}", from_s=begin, to_s=begin + seconds
        )


def _against_motion(source: Source, records: Records) -> Callable[[int, Storyboard], int]:
    """Tell how many boundaries of an episode the motion does not bear out; 0 where it made them itself."""
    settings = records.settings()
    if settings.get("planner") == "kinematic":
        return lambda index, board: 0
    options = Options.of(settings)
    layout = Layout.parse(options.layout) if options.layout else None
    slack = round(SLACK_S * source.fps)

    def count(index: int, board: Storyboard) -> int:
        try:
            found = proposed(source.episode(index), layout)
        except (UserError, Unsegmentable):  # what cannot be read or cut is looked at all the same
            return 0
        return unmoved(board, [proposal.frame for proposal in found], slack)

    return count
