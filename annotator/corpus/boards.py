"""Find stored storyboards, read each when it is needed, and score every sample of them once.

A folder with storyboard.json     what `goalreel plan` and `goalreel eval` write
...with execution_record.json     a raw trajectory of InterleaveThinker's, its pictures beside it
A dataset with meta/goalreel      what `goalreel annotate` writes, and `bag2lerobot` of what a node streamed
OUT/answers/                      a scorer's answers about storyboards in progress: none is requested again
OUT/scored/                       the scored outline of each finished storyboard
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import batched
from pathlib import Path

from pydantic import ValidationError

from goalreel.annotator.show import episode_view, open_annotated
from goalreel.datasets.corpora.published import TRAJECTORY, read_trajectory
from goalreel.datasets.corpora.trajectories import (
    HumanVerdict,
    HumanVerdicts,
    Outline,
    SuccessOf,
    by_record,
    candidate,
    outline,
    scored,
    succeeds,
    with_edits,
)
from goalreel.datasets.corrections.board import opinion
from goalreel.datasets.corrections.state import Review
from goalreel.datasets.records import FOLDER
from goalreel.errors import BackendError, InputError, UserError
from goalreel.files import digest, file_digest, find, read_file, write_bytes
from goalreel.models import names, scorers
from goalreel.models.journal import Journal
from goalreel.progress import OnCount
from goalreel.storyboard_io import load_storyboard
from goalreel.types import Candidate, Failure, PictureScores, Scorer, Storyboard

log = logging.getLogger(__name__)

_FILE = "storyboard.json"
BOARDS, BATCH = 16, 16
"""Storyboards in memory at a time; pictures in one call, which a kill loses."""
CRITIC = "critic"


@dataclass(frozen=True)
class StoredBoard:
    """One storyboard on disk."""

    task_id: str
    """The id in its rows: the folder's name, DATASET/episode_000003, or the recording's own."""
    digest: str
    """SHA-256 of its record."""
    load: Callable[[], Storyboard]
    """Raises UserError if the storyboard is damaged."""
    human_verdicts: HumanVerdicts = field(default_factory=dict)
    """Verdicts of a person on its attempts."""


type RecordingTaskIds = Callable[[Path], Mapping[int, str]]
"""Gives, for the folder of a recording, task ids by the number of the episode; episodes may be missing."""


def find_boards(
    folders: Sequence[Path], recording_task_ids: RecordingTaskIds = lambda root: {}
) -> list[StoredBoard]:
    """Find all storyboards in the folders and below, each once, in the order of the folders and their names.

    `recording_task_ids` names the episodes of a recording that is known by other names than its folder's.
    """
    boards_of: dict[Path, list[StoredBoard]] = {}
    for folder in folders:
        saved = {path.parent.resolve() for path in find(folder, f"**/{_FILE}") if path.is_file()}
        raw = {path.parent.resolve() for path in find(folder, f"**/{TRAJECTORY}") if path.is_file()} - saved
        annotated = {path.parent.parent.resolve() for path in find(folder, f"**/{FOLDER}") if path.is_dir()}
        if not saved | raw | annotated:
            raise InputError(
                f"{folder}: holds no storyboard: give what `goalreel plan` or `goalreel annotate` wrote"
            )
        for place in sorted((saved | raw | annotated) - boards_of.keys()):
            if place in saved | raw:
                load, name = (load_storyboard, _FILE) if place in saved else (read_trajectory, TRAJECTORY)
                boards_of[place] = [StoredBoard(place.name, file_digest(place / name), partial(load, place))]
            else:
                boards_of[place] = list(_of_dataset(place, recording_task_ids))
    return [board for boards in boards_of.values() for board in boards]


def _of_dataset(dataset: Path, recording_task_ids: RecordingTaskIds) -> Iterator[StoredBoard]:
    records, _, recording = open_annotated(dataset)
    task_ids = recording_task_ids(recording.root)

    def load(episode: int) -> Storyboard:
        return episode_view(recording.episode(episode), records).storyboard

    for episode in sorted(records.recorded()):
        yield StoredBoard(
            task_ids.get(episode, f"{dataset.name}/episode_{episode:06d}"),
            records.digest(episode),
            partial(load, episode),
            human_verdicts(records.review(episode)) if records.is_corrected(episode) else {},
        )


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


@dataclass(frozen=True)
class NamedScorer:
    """A scorer with its name in the report; without a `scorer`, the Critic of the record counts."""

    name: str
    scorer: Scorer | None
    success_of: SuccessOf = succeeds


def scorer_of(name: str) -> NamedScorer:
    """Make the scorer `critic`, or one that `models.scorers` knows."""
    if name == CRITIC:
        return NamedScorer(name, None)
    if (kind := scorers.find_scorer(name)) is not None:
        return NamedScorer(name, kind.build(), kind.success_of)
    return NamedScorer(names.ModelName.parse(name).public(), scorers.build_scorer(name))


def score_boards(
    boards: Sequence[StoredBoard], by: NamedScorer, out: Path, progress: OnCount = lambda done, total: None
) -> list[Outline]:
    """Score every storyboard, and give their outlines; without samples for one that cannot be read."""
    folder, journal = out / "scored", Journal(out / "answers")
    scored = {i: read for i, board in enumerate(boards) if (read := _read(folder, board)) is not None}
    progress(len(scored), len(boards))
    for numbers in batched((i for i in range(len(boards)) if i not in scored), BOARDS):
        for i, each in zip(numbers, _score([boards[i] for i in numbers], by, journal), strict=True):
            write_bytes(_path(folder, boards[i]), each.model_dump_json().encode())
            journal.forget(each.task_id)
            scored[i] = each
        progress(len(scored), len(boards))
    journal.remove()  # a run killed before it could forget leaves answers that nobody asks for again
    return [scored[i] for i in range(len(boards))]


def _score(boards: Sequence[StoredBoard], by: NamedScorer, journal: Journal) -> list[Outline]:
    loaded = [_load(board) for board in boards]
    outlines = [
        Outline(task_id=stored.task_id, dropped={"damaged": 1})
        if board is None
        else with_edits(outline(board, stored.task_id, stored.human_verdicts), board, stored.human_verdicts)
        for stored, board in zip(boards, loaded, strict=True)
    ]
    if by.scorer is None:
        return [by_record(each) for each in outlines]
    requests = [
        (number, sample, candidate(board, each.task_id, sample))
        for number, (board, each) in enumerate(zip(loaded, outlines, strict=True))
        if board is not None
        for sample in each.samples
        if sample.said is None
    ]
    answers = _ask(by.name, by.scorer, [c for _, _, c in requests], journal)
    scores = {(n, s.step, s.attempt): answer for (n, s, _), answer in zip(requests, answers, strict=True)}
    samples = (
        tuple(scored(s, scores.get((n, s.step, s.attempt)), by.success_of) for s in each.samples)
        for n, each in enumerate(outlines)
    )
    return [each.model_copy(update={"samples": s}) for each, s in zip(outlines, samples, strict=True)]


def _ask(
    name: str, scorer: Scorer, candidates: Sequence[Candidate], journal: Journal
) -> list[PictureScores | None]:
    def fresh(some: Sequence[Candidate]) -> list[PictureScores | Failure]:
        return [answer or Failure(stage="judge", message="no scores") for answer in scorer.score(some)]

    answers: list[PictureScores | Failure] = []
    try:
        for some in batched(candidates, BATCH):
            scores = journal.ask(name, PictureScores, fresh, some)
            if any(isinstance(answer, Failure) for answer in scores):
                # A judge that died meanwhile looks like one that said nothing: asked anew, it shows.
                scores = journal.ask(name, PictureScores, fresh, some)
            answers += scores
    except BackendError as e:
        message = str(e) or type(e).__name__
        raise UserError(f"{message}: finished scores are kept; run the same command again to resume") from e
    return [None if isinstance(answer, Failure) else answer for answer in answers]


def _load(stored: StoredBoard) -> Storyboard | None:
    try:
        return stored.load()
    except UserError as e:
        log.warning("left out: %s", e)
        return None


def _path(folder: Path, stored: StoredBoard) -> Path:
    return folder / f"{digest(stored.task_id, stored.digest)}.json"


def _read(folder: Path, stored: StoredBoard) -> Outline | None:
    path = _path(folder, stored)
    try:
        return Outline.model_validate_json(read_file(path))
    except FileNotFoundError:
        return None
    except ValidationError as e:
        log.warning("%s: damaged, scoring again (%s)", path, type(e).__name__)
        return None
