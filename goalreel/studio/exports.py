"""A storyboard as files for others: a zip, a page, a contact sheet, a GIF, a film, JSON."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from goalreel.annotator.plan import write_plan
from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.film import write_films
from goalreel.annotator.report.sheet import contact_sheet
from goalreel.annotator.report.write import write_report
from goalreel.critics.examiner import Examination
from goalreel.errors import InputError
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
