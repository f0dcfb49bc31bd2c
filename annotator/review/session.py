"""A review of one dataset: the answers to the page, without HTTP.

The log of corrections (`goalreel.datasets.corrections`) holds all state that outlives the process.
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from goalreel import claims, wording
from goalreel.annotator import robot, show
from goalreel.annotator.options import Options
from goalreel.annotator.report.cards import claim_lines, jpeg, late
from goalreel.annotator.review.curves import candidates, curves
from goalreel.annotator.review.queue import ListQuery, QueueRow, ReviewQueue, unmoved
from goalreel.claims import Details
from goalreel.critics.examination import read_examination, word
from goalreel.datasets.corrections.board import has_followed
from goalreel.datasets.corrections.events import (
    AcceptStep,
    CopySteps,
    Correction,
    GiveVerdict,
    Looked,
    TakenStep,
)
from goalreel.datasets.corrections.reviews import Reviewed, Reviews
from goalreel.datasets.corrections.state import ReviewStep
from goalreel.datasets.episode import Episode
from goalreel.datasets.info_file import stored
from goalreel.errors import DatasetError, InputError, UserError
from goalreel.image import recorded_frame
from goalreel.planners.kinematic.clauses import read
from goalreel.progress import OnProgress
from goalreel.types import Segment, Storyboard, StoryboardStep

type Json = dict[str, Any]
CACHE_SIZE, KEPT = 16, 4096
"""Episodes whose numbers are cached, and JPEGs, of some 5 to 50 kB each."""
HISTORY = 200
"""Changes in an answer, the newest."""


class ReviewSession:
    """Reads a dataset that `goalreel annotate` wrote for the page, and makes the page's changes."""

    def __init__(
        self,
        dataset: Path,
        *,
        source: Path | None = None,
        reviewer: str = "reviewer",
        progress: OnProgress = lambda stage, done, total: None,
    ) -> None:
        """Read the records of the dataset, once.

        `source` is the dataset that it is made from, needed as long as `dataset` itself is not written.

        Raises:
            DatasetError: goalreel did not annotate the dataset, or it is damaged.
        """
        records, done, self.source = show.open_annotated(dataset, source)
        self.settings = records.settings()
        self._name, self._reviewer = dataset.resolve().name, reviewer
        views = self.source.views(self.source.camera(self.settings.get("camera")))
        self.cameras = tuple(key for key in views if key != Options.of(self.settings).subgoal_key)
        self.layout = robot.stored_layout(self.source, self.settings)
        self.episode: Callable[[int], Episode] = lru_cache(CACHE_SIZE)(self.source.episode)
        """Opens a recorded episode; it raises DatasetError where that cannot be read."""
        self.jpeg = lru_cache(KEPT)(self._jpeg)
        self._curves = lru_cache(CACHE_SIZE)(lambda index: curves(self.episode(index), self.layout))
        self._events = lru_cache(CACHE_SIZE)(lambda index: candidates(self.episode(index), self.layout))
        lengths = dict(zip(self.source.indices, self.source.rows.column("length"), strict=True))
        selected = {i: lengths[i] for i in show.select(dataset, done) if i in lengths}
        self.reviews, self.examination = Reviews(records), read_examination(records.examination)
        self.queue = ReviewQueue(self.reviews, selected, progress, self._unmoved, self.examination)

    def _unmoved(self, index: int, board: Storyboard) -> int:
        """Count the boundaries over 0.5 s from what the motion shows; 0 for the kinematic planner's own."""
        if self.settings.get("planner") == "kinematic":
            return 0
        try:
            proposed = candidates(self.source.episode(index), self.layout)
        except UserError:  # an episode that cannot be read is reviewed all the same
            return 0
        return unmoved(board, proposed, round(0.5 * self.source.fps))

    def dataset(self) -> Json:
        """Describe what all episodes share."""
        return {
            "name": self._name,
            "cameras": self.cameras,
            "episodes": len(self.queue),
            "reviewer": self._reviewer,
            "examination": self.examination.line if self.examination else None,
        }

    def rows(self, query: ListQuery) -> Json:
        """List a page of the episodes."""
        selected = self.queue.select(query)
        rows = [self._row(row) for row in selected[query.offset : query.offset + query.limit]]
        return {"total": len(selected), "rows": rows} | self.queue.progress()

    def look(self, index: int) -> Reviewed:
        """Read an episode as it is now.

        Raises:
            DatasetError: the episode or its log cannot be read.
        """
        return self.reviews.look(index, self.queue[index].frames)

    def change(self, index: int, revision: int, by: str, event: Correction) -> Reviewed:
        """Make a change; as `Reviews.change`. A verdict that says of no screen is one without looking."""
        if isinstance(event, GiveVerdict) and event.looked is None and not event.unseen:
            event = event.model_copy(update={"looked": Looked()})
        if isinstance(event, AcceptStep):
            review = self.look(index).review
            if not (event.looked.enough and review.steps[review.place(event.step)].shown_in(event.looked)):
                raise InputError("its goal image was hardly on the screen: look at it, then accept it")
        if isinstance(event, CopySteps):
            event = event.model_copy(update={"steps": self._steps_of(event.episode, index)})
        return self.reviews.change(index, self.queue[index].frames, revision, by, event)

    def _steps_of(self, episode: int, index: int) -> tuple[TakenStep, ...]:
        """The steps of an episode, stretched to the length of episode `index`.

        Raises:
            InputError: it is none with steps.
        """
        if episode not in self.queue or episode == index:
            raise InputError(f"episode {episode} is none to copy from: choose another annotated one")
        share = self.queue[index].frames / self.queue[episode].frames
        taken: list[TakenStep] = []
        for step in self.look(episode).review.steps:
            start, end = (round(share * edge) for edge in (step.placed.start, step.placed.end))
            if start < end:
                words = step.step.model_copy(update={"by": claims.CARRIED, "doubts": (), "details": None})
                taken.append(TakenStep(step=words, segment=Segment(start=start, end=end)))
        if not taken:
            raise InputError(f"episode {episode} has no steps to copy")
        return tuple(taken)

    def video(self, index: int, camera: str) -> Path | None:
        """Find the video file of an episode, which may hold others too; None for a camera stored as pictures.

        Raises:
            DatasetError: meta/episodes has no path of the video.
        """
        if self.source.features[camera]["dtype"] != "video":
            return None
        root, row = self.source.root, self.source.rows.of(index)
        try:
            return stored(root, self.source.info["video_path"], row, f"videos/{camera}", video_key=camera)
        except KeyError as e:
            raise DatasetError(f"{root}: no video of {camera} in episode {index}") from e

    def mark(self, index: int, camera: str) -> str:
        """Tell the file with a camera's frames from others, and from itself after a change."""
        path = self.video(index, camera) or self.source.data_path(index)
        status = path.stat()
        return f"{path} {status.st_mtime_ns} {status.st_size}"

    def _jpeg(self, mark: str, index: int, camera: str, frame: int, width: int) -> bytes:
        """The exact frame of a recording, by our own decoder: a browser seeks to about the right place."""
        return jpeg(self.episode(index).frames(camera, [frame])[0], width)

    def view(self, index: int, reviewed: Reviewed, query: ListQuery) -> Json:
        """Describe an episode, and its neighbours in the list from which it was chosen."""
        review = reviewed.review
        board = self.reviews.corrected(review)
        self.queue.update(index, reviewed, board)
        row = self.queue[index]
        previous, following = self.queue.neighbours(index, query)
        steps = zip(review.steps, board.steps, strict=True)
        said = [clause.name for clause in read(review.task.instruction) if clause.understood]
        looked = review.looked
        return {
            "episode": index,
            "revision": reviewed.revision,
            "instruction": review.task.instruction,
            "failure": f"{review.failure.stage}: {review.failure.message}" if review.failure else None,
            "fps": self.source.fps,
            "length": row.frames,
            "doubt": row.doubt.value,
            "reasons": row.doubt.reasons,
            "changes": len(reviewed.replay.changes),
            "history": reviewed.history(HISTORY),
            "cameras": [self._camera(index, key) for key in self.cameras],
            "curves": self._curves(index),
            "events": self._events(index),
            "verdict": review.verdict,
            "by": review.by,
            "unseen": review.unseen,
            "not_shown": [] if looked is None else [s.id for s in review.steps if s.id not in looked],
            "names": list(dict.fromkeys([*self.queue.names(), *said])),
            "copy_from": self.queue.last_labelled(index),
            "issues": review.issues,
            "steps": [self._step(index, step, corrected, review.accepts(step)) for step, corrected in steps],
            **self.queue.turns(query.by or self._reviewer),
            "previous": previous,
            "next": following,
        }

    def _row(self, row: QueueRow) -> Json:
        return {
            "episode": row.episode,
            "instruction": row.instruction,
            "seconds": round(row.frames / self.source.fps, 3),
            "steps": len(row.names),
            "word": row.word,
            "verdict": row.verdict,
            "by": row.by,
            "unseen": row.unseen,
            "words": row.words,
            "doubt": row.doubt.value,
            "reasons": row.doubt.reasons,
        }

    def _camera(self, index: int, key: str) -> Json:
        """Describe a camera; the episode begins `from_s` seconds into its video."""
        video, start = None, 0.0
        if self.video(index, key) is not None:
            video = f"/video/{index}/{quote(key, safe='')}"
            start = float(self.source.rows.of(index)[f"videos/{key}/from_timestamp"])
        return {"key": key, "video": video, "from_s": start}

    def _step(self, episode: int, step: ReviewStep, corrected: StoryboardStep, accepted: bool) -> Json:
        """Describe a step with its attempts; `corrected` is what it is to the dataset.

        A person has `accepted` it. `end` is the first frame after the step. Frames that it ended with once,
        and nobody chose, are left out.
        """
        words, segment = step.step, step.segment
        return {
            "id": step.id,
            **words.model_dump(include={"name", "instruction", "prompt", "outcome"}),
            "start": segment.start if segment else None,
            "end": segment.end if segment else None,
            "unaligned": step.alignment.reason if step.alignment else None,
            "doubts": corrected.step.doubts,
            "claims": corrected.claims,
            "claim_lines": claim_lines(corrected.claims),
            "details": words.details or Details(),
            "issues": step.issues,
            "chosen": step.chosen,
            "accepted": step.accepted,
            "edited": sorted(step.edited),
            "word": word(corrected, self.examination),
            "late": late(corrected, self.source.fps),
            "attempts": [
                _attempt(episode, step, number, accepted)
                for number, attempt in enumerate(step.attempts)
                if number == step.chosen or not has_followed(attempt)
            ],
        }


def _attempt(episode: int, step: ReviewStep, number: int, accepted: bool) -> Json:
    attempt = step.attempts[number]
    verdict, outcome = attempt.verdict, str(attempt.outcome)
    if number in step.taken or (number == step.chosen and "goal" in step.edited):
        outcome = "person"
    elif accepted and number == step.chosen:
        outcome = "person_accepted"
    elif has_followed(attempt):
        outcome = "observed"
    reference, picture = attempt.image.frame if attempt.image else None, None
    if recorded := recorded_frame(reference):
        camera, frame = recorded
        picture = f"/frames/{episode}/{quote(camera, safe='')}/{frame}.jpg?width=480"
    elif reference:
        picture = "/pictures/" + reference.removeprefix("images/")
    return {
        "number": number,
        "picture": picture,
        "prompt": attempt.prompt,
        "outcome": outcome,
        "text": wording.attempt_text(attempt),
        "probability": verdict.probability if verdict else None,
        "semantics": verdict.semantics if verdict else None,
        "quality": verdict.quality if verdict else None,
    }
