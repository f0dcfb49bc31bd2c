"""Score every sample of stored storyboards, once: after a kill, no answer is requested again.

OUT/answers/     a scorer's answers about storyboards in progress
OUT/scored/      the scored outline of each finished storyboard
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched
from pathlib import Path

from pydantic import ValidationError

from goalreel.annotator.corpus.boards import StoredBoard
from goalreel.datasets.corpora.edits import with_edits
from goalreel.datasets.corpora.scored import SuccessOf, by_record, scored, succeeds
from goalreel.datasets.corpora.trajectories import Outline, StepSample, candidate, outline
from goalreel.errors import BackendError, UserError
from goalreel.files import digest, write_bytes
from goalreel.models.journal import Journal
from goalreel.models.names import ModelName
from goalreel.models.scorers import build_scorer, find_scorer
from goalreel.progress import OnCount
from goalreel.scoring import PictureScores, Scorer
from goalreel.types import Candidate, Failure, Storyboard

log = logging.getLogger(__name__)

BOARDS, BATCH = 16, 16
"""Storyboards in memory at a time; pictures in one call, which a kill loses."""
CRITIC = "critic"


@dataclass(frozen=True)
class NamedScorer:
    """A scorer with its name in the report; without a `scorer`, the Critic of the record counts."""

    name: str
    scorer: Scorer | None
    success_of: SuccessOf = succeeds


def scorer_of(name: str) -> NamedScorer:
    """Make the scorer `critic`, or one that `models.scorers` knows.

    Raises:
        UserError, OSError, ModuleNotFoundError: it cannot be built.
    """
    if name == CRITIC:
        return NamedScorer(name, None)
    if (kind := find_scorer(name)) is not None:
        return NamedScorer(name, kind.build(), kind.success_of)
    return NamedScorer(ModelName.parse(name).public(), build_scorer(name))


def score_boards(
    boards: Sequence[StoredBoard], by: NamedScorer, out: Path, progress: OnCount = lambda done, total: None
) -> list[Outline]:
    """The scored outline of every storyboard; without samples for one that cannot be read.

    Raises:
        UserError: the scorer cannot be called; its answers are saved, and a second run resumes.
    """
    folder, journal = out / "scored", Journal(out / "answers")
    scored = {i: read for i, board in enumerate(boards) if (read := _read(folder, board)) is not None}
    progress(len(scored), len(boards))
    for numbers in batched((i for i in range(len(boards)) if i not in scored), BOARDS):
        outlines = _score([boards[i] for i in numbers], by, journal)
        for i, each in zip(numbers, outlines, strict=True):
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

    def score(number: int, sample: StepSample) -> StepSample:
        return scored(sample, scores.get((number, sample.step, sample.attempt)), by.success_of)

    return [
        each.model_copy(update={"samples": tuple(score(number, sample) for sample in each.samples)})
        for number, each in enumerate(outlines)
    ]


def _ask(
    name: str, scorer: Scorer, candidates: Sequence[Candidate], journal: Journal
) -> list[PictureScores | None]:
    def fresh(some: Sequence[Candidate]) -> list[PictureScores | Failure]:
        none = Failure(stage="judge", message="no scores")
        return [none if answer is None else answer for answer in scorer.score(some)]

    answers: list[PictureScores | None] = []
    try:
        for some in batched(candidates, BATCH):
            scores = journal.ask(name, PictureScores, fresh, some)
            if any(isinstance(answer, Failure) for answer in scores):
                # A judge that died meanwhile looks like one that said nothing: asked anew, it shows.
                scores = journal.ask(name, PictureScores, fresh, some)
            answers += [None if isinstance(answer, Failure) else answer for answer in scores]
    except BackendError as e:
        message = str(e) or type(e).__name__
        raise UserError(f"{message}: finished scores are kept; run the same command again to resume") from e
    return answers


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
        return Outline.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as e:
        log.warning("%s: damaged, scoring again (%s)", path, type(e).__name__)
        return None
