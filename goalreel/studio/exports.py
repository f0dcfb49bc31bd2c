"""A storyboard as files for others: a zip, a page, a contact sheet, a GIF, a film, JSON, training rows.

DIR/corpus/boards/ID/    a storyboard as it was added, and what people said of its pictures
DIR/corpus/rows/         the corpora that `goalreel corpus from-storyboards` makes of them, all made anew
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from goalreel.annotator.corpus.boards import CRITIC, StoredBoard, scorer_of
from goalreel.annotator.corpus.make import CorpusReport, RecipeConfig, make_from_storyboards
from goalreel.annotator.plan import write_plan
from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.film import write_films
from goalreel.annotator.report.sheet import contact_sheet
from goalreel.annotator.report.write import write_report
from goalreel.critics.examiner import Examination
from goalreel.datasets.corpora.trajectories import HumanVerdict, HumanVerdicts
from goalreel.errors import DatasetError, InputError
from goalreel.files import TMP, file_digest, file_lock, find, read_file, write_bytes
from goalreel.storyboard_io import load_storyboard, save_storyboard
from goalreel.types import Role, Storyboard

type ExportName = Literal[
    "storyboard.zip", "sheet.png", "storyboard.gif", "storyboard.mp4", "storyboard.json", "storyboard.html"
]
EXPORT_TYPES: Mapping[str, str] = {
    "storyboard.zip": "application/zip",
    "sheet.png": "image/png",
    "storyboard.gif": "image/gif",
    "storyboard.mp4": "video/mp4",
    "storyboard.json": "application/json",
    "storyboard.html": "text/html",
}
_VERDICTS: TypeAdapter[list[tuple[int, int, HumanVerdict]]] = TypeAdapter(list[tuple[int, int, HumanVerdict]])


def export_bytes(
    board: Storyboard, name: ExportName, models: Mapping[Role, str], examination: Examination | None
) -> bytes:
    """Write a storyboard in a form; `models` (role -> name) are shown on the page in the zip.

    Pages say of each step what its Critic's `examination` makes of it.

    Raises:
        InputError: there is no picture for a GIF or a film.
    """
    title = board.task.instruction
    view = EpisodeView(0, "Storyboard", title, board, examination=examination)
    if name == "storyboard.json":
        return board.model_dump_json().encode()
    if name == "sheet.png":
        return contact_sheet(view).png()
    names = {str(role): model for role, model in models.items()}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "storyboard"
        if name == "storyboard.html":
            return write_report([view], out, title=title, summary={}, about=names).read_bytes()
        if name != "storyboard.zip":
            films = write_films(view, out, ["GIF" if name == "storyboard.gif" else "MP4"])
            if not films:
                raise InputError("this storyboard has no picture yet")
            return next(iter(films.values())).read_bytes()
        write_plan(board, out, names, examination)
        return Path(shutil.make_archive(f"{out}-zip", "zip", folder, "storyboard")).read_bytes()


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
        stored = [_stored(path) for path in find(place.parent)]
        with _replacing(folder / "rows") as new:
            return make_from_storyboards(stored, RecipeConfig(scorer_of(CRITIC)), new)


def _stored(place: Path) -> StoredBoard:
    record = place / "storyboard.json"
    return StoredBoard(place.name, file_digest(record), lambda: load_storyboard(place), _read_verdicts(place))


def _read_verdicts(place: Path) -> Mapping[tuple[int, int], HumanVerdict]:
    path = place / "said.json"
    try:
        verdicts = _VERDICTS.validate_json(read_file(path))
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
