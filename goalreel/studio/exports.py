"""A storyboard as files for others: a folder in a zip, a page, a contact sheet, a GIF, JSON."""

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from goalreel.annotator.plan import write_plan
from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.sheet import contact_sheet
from goalreel.annotator.report.write import write_report
from goalreel.errors import InputError
from goalreel.types import Role, Storyboard

type ExportName = Literal[
    "storyboard.zip", "sheet.png", "storyboard.gif", "storyboard.json", "storyboard.html"
]
EXPORT_TYPES: Mapping[str, str] = {
    "storyboard.zip": "application/zip",
    "sheet.png": "image/png",
    "storyboard.gif": "image/gif",
    "storyboard.json": "application/json",
    "storyboard.html": "text/html",
}


def export_bytes(board: Storyboard, name: ExportName, models: Mapping[Role, str]) -> bytes:
    """Write a storyboard in a form; `models` (role -> name) are shown on the page in the zip.

    Raises:
        InputError: there is no picture for a GIF.
    """
    match name:
        case "storyboard.json":
            return board.model_dump_json().encode()
        case "sheet.png":
            return contact_sheet(EpisodeView(0, "Storyboard", board.task.instruction, board)).png()
    names = {str(role): name for role, name in models.items()}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        if name == "storyboard.html":
            title = board.task.instruction
            view = EpisodeView(0, "Storyboard", title, board)
            return write_report([view], out, title=title, summary={}, models=names, sheets=False).read_bytes()
        write_plan(board, out, names)
        if name == "storyboard.gif":
            if not (out / "preview.gif").is_file():
                raise InputError("this storyboard has no picture yet")
            return (out / "preview.gif").read_bytes()
        return _zipped(out)


def _zipped(folder: Path) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"storyboard/{path.relative_to(folder)}")
    return data.getvalue()
