"""What people changed in OUT since it was written: it is never mixed with what comes from IN."""

from collections.abc import Iterator
from pathlib import Path

from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import surplus_files
from goalreel.datasets.writing.marks import FileMarks, content_digest
from goalreel.errors import DatasetError

_NAMES = 3


def check_edits(source: Source, out: Path, key: str, *, overwrite: bool) -> None:
    """Refuse to write over files of `out` that somebody changed or added since goalreel wrote it.

    With `overwrite` their marks go, so that they are made anew. A file that is gone is no change: it is made
    again. Files beside `data/`, `meta/` and `videos/` are the owner's own. `key` is the sub-goal camera.

    Raises:
        DatasetError: there are such files, and not `overwrite`.
    """
    marks = FileMarks(out)
    edited = list(dict.fromkeys(_edited(source, out, key, marks)))
    if edited and not overwrite:
        names = [path.relative_to(out).as_posix() for path in edited]
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        raise DatasetError(
            f"{out}: changed by hand since goalreel wrote it: {', '.join(names[:_NAMES])}{more}: make the "
            f"change in {source.root} instead, or give --overwrite to write these files anew"
        )
    for path in edited:
        marks.drop(path)


def _edited(source: Source, out: Path, key: str, marks: FileMarks) -> Iterator[Path]:
    marked = dict(marks.marked())
    yield from (
        path for path, content in marked.items() if path.is_file() and content_digest(path) != content
    )
    copies = marks.copies()
    if copies is None:
        return
    for relative, content in copies.items():
        path, original = out / relative, source.root / relative
        if path.is_file() and content_digest(path) not in (content, _digest(original)):
            yield path
    for path in surplus_files(source, out, key):
        if path not in marked and path.relative_to(out).as_posix() not in copies:
            yield path


def _digest(path: Path) -> str | None:
    return content_digest(path) if path.is_file() else None
