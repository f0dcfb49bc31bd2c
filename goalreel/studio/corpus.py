"""The corpus of a studio: storyboards that people have corrected, as training rows.

DIR/corpus/boards/ID/    a storyboard as it was added, and what people said of its pictures
DIR/corpus/rows/         the corpora that `goalreel corpus from-storyboards` makes of them, all made anew
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from goalreel.annotator.corpus.boards import CRITIC, StoredBoard, scorer_of
from goalreel.annotator.corpus.make import RecipeOrder, make_from_storyboards
from goalreel.annotator.corpus.report import CorpusReport
from goalreel.datasets.corpora.trajectories import HumanVerdict, HumanVerdicts
from goalreel.errors import DatasetError, InputError
from goalreel.files import TMP, file_digest, file_lock, write_bytes
from goalreel.storyboard_io import load_storyboard, save_storyboard
from goalreel.types import Storyboard

_VERDICTS: TypeAdapter[list[tuple[int, int, HumanVerdict]]] = TypeAdapter(list[tuple[int, int, HumanVerdict]])


def add_to_corpus(
    folder: Path, board_id: str, board: Storyboard, human_verdicts: HumanVerdicts
) -> CorpusReport:
    """Add a storyboard to the corpus in a folder, or replace what was added of it, and make all rows anew.

    What a person said of a picture has the highest trust.

    Raises:
        InputError: the storyboard has no plan.
        DatasetError: a storyboard is being added already, or the disk is full.
    """
    if not board.steps:
        raise InputError("there is no plan to learn from")
    with file_lock(folder / ".lock", f"{folder}: a storyboard is being added: wait until it is there"):
        place = folder / "boards" / board_id
        with _replacing(place) as new:
            save_storyboard(board, new)
            verdicts = [
                (step, attempt, verdict) for (step, attempt), verdict in sorted(human_verdicts.items())
            ]
            write_bytes(new / "said.json", _VERDICTS.dump_json(verdicts, indent=1))
        stored = [_stored(path) for path in sorted(place.parent.iterdir()) if not path.name.startswith(TMP)]
        with _replacing(folder / "rows") as new:
            return make_from_storyboards(stored, RecipeOrder(scorer_of(CRITIC)), new)


def _stored(place: Path) -> StoredBoard:
    record = place / "storyboard.json"
    return StoredBoard(place.name, file_digest(record), lambda: load_storyboard(place), _read_verdicts(place))


def _read_verdicts(place: Path) -> Mapping[tuple[int, int], HumanVerdict]:
    path = place / "said.json"
    try:
        verdicts = _VERDICTS.validate_json(path.read_bytes())
    except (OSError, ValidationError) as e:
        raise DatasetError(f"{path}: is damaged: add this storyboard again") from e
    return {(step, attempt): verdict for step, attempt, verdict in verdicts}


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`, which takes its place on a clean exit."""
    new, old = path.with_name(f"{TMP}new-{path.name}"), path.with_name(f"{TMP}old-{path.name}")
    for stale in (new, old):
        shutil.rmtree(stale, ignore_errors=True)
    new.mkdir(parents=True)
    yield new
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)
