"""The files of OUT: those passed on from IN, and marks of what each was made from.

Large files are linked, those that a person may edit are copied. Marks in OUT/meta/goalreel/files tell what
each file was made from and what it held, so that it is made once, and that changes by hand are seen. They
travel with OUT and hold no time of a file: copies have other times.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.files import copy, digest, file_digest, files_below, find, read_json, write_bytes

MARKS = FOLDER / "files"
_COPIES = "copies.json"
_WHOLE = (".parquet", ".json", ".jsonl")
_LARGE = 1 << 20

_LINKED = ("videos", "images")
_PREVIOUS = FOLDER / "previous"
"""Folder of the records of an earlier pass: they still tell of the episodes that this pass leaves alone."""


def content_digest(path: Path) -> str:
    """SHA-256 of a file; of a large video, of its size and both ends.

    Terabytes of videos are not read for this. A video that was encoded anew has another size and index.
    """
    size = path.stat().st_size
    if size <= _LARGE or path.suffix in _WHOLE:
        return file_digest(path)
    with path.open("rb") as file:
        first = file.read(_LARGE // 2)
        file.seek(-_LARGE // 2, os.SEEK_END)
        return digest(str(size), first, file.read())


@dataclass(frozen=True)
class FileMarks:
    """Marks of the files of one OUT, one small JSON file each."""

    out: Path

    def fresh(self, file: Path, made_from: str) -> dict[str, Any] | None:
        """The note left with `file` if it is there and was made from just this, else None."""
        if not file.is_file():
            return None
        try:
            mark = read_json(self.path(file))
            return mark["note"] if mark["made_from"] == made_from else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def drop(self, file: Path) -> None:
        """Remove the mark of `file` before it is written anew: a mark never outlives what it marked."""
        self.path(file).unlink(missing_ok=True)

    def put(self, file: Path, made_from: str, note: dict[str, Any]) -> None:
        """Mark `file` as complete, with what it was made from and a note to give back."""
        text = json.dumps({"made_from": made_from, "content": content_digest(file), "note": note})
        # The disk is not waited for: a mark that a power cut damages only costs its file anew.
        write_bytes(self.path(file), text.encode() + b"\n", durable=False)

    def once(self, file: Path, made_from: str, write: Callable[[], None]) -> None:
        """Let `write` make `file` unless it is there and was made from just this."""
        if self.fresh(file, made_from) is None:
            self.drop(file)
            write()
            self.put(file, made_from, {})

    def path(self, file: Path) -> Path:
        """Path of the mark of a file of OUT."""
        relative = file.relative_to(self.out)
        return self.out / MARKS / relative.with_name(relative.name + ".json")

    def marked(self) -> Iterator[tuple[Path, str]]:
        """Each file of OUT with a whole mark, which may be gone, and the digest of what it held."""
        for path in find(self.out / MARKS, "*/**/*.json"):
            file = self.out / path.relative_to(self.out / MARKS).with_suffix("")
            try:
                yield file, read_json(path)["content"]
            except (OSError, ValueError, KeyError, TypeError):
                continue

    def copies(self) -> dict[str, str] | None:
        """File passed on from IN, relative to OUT -> digest; None where nothing tells, as before a build."""
        try:
            return dict(read_json(self.out / MARKS / _COPIES))
        except (OSError, ValueError, TypeError):
            return None

    def put_copies(self, digests: Mapping[str, str]) -> None:
        """Note which files were passed on from IN, and what they hold."""
        text = json.dumps(dict(digests), indent=1, sort_keys=True)
        write_bytes(self.out / MARKS / _COPIES, text.encode() + b"\n", durable=False)


def check_apart(root: Path, out: Path) -> None:
    """Refuse to write into the dataset that is read: raise DatasetError where the folders overlap."""
    source, target = root.resolve(), out.resolve()
    if source.is_relative_to(target) or target.is_relative_to(source):
        raise DatasetError(
            f"{out}: overlaps the dataset {root}, which is never changed: choose another --out"
        )


def meta_digest(root: Path) -> str:
    """Digest of the metadata that OUT's is made from, statistics included."""
    paths = [*episode_files(root), root / "meta" / "info.json", root / "meta" / "stats.json"]
    return digest(*(file_digest(path) for path in paths if path.is_file()))


def pass_on(root: Path, out: Path, besides: Collection[Path] = ()) -> None:
    """Link or copy what `build` does not write itself; neither does it pass on `besides` (relative).

    A file of OUT that holds the same stays, as in a copy of OUT that shares no files with IN.
    """

    def pass_one(relative: Path) -> str | None:
        """Give the digest of a file that lerobot reads."""
        path, target = root / relative, out / relative
        if relative.is_relative_to(FOLDER):
            copy(path, out / _PREVIOUS / relative.relative_to(FOLDER))
            return None
        content = content_digest(path)
        if not (target.is_file() and content_digest(target) == content):
            pass_file(path, target, root)
        return content if relative.parts[0] in ("data", "meta", *_LINKED) else None

    names = [path.relative_to(root) for path in dataset_files(root)]
    names = [n for n in names if not (n.is_relative_to(MARKS) or _rebuilt(n) or n in besides)]
    with ThreadPoolExecutor(4, "goalreel-copy") as pool:  # who waits for the disk needs no processor
        contents = list(pool.map(pass_one, names))
    FileMarks(out).put_copies({n.as_posix(): c for n, c in zip(names, contents, strict=True) if c})


def pass_file(path: Path, target: Path, root: Path) -> None:
    """Link or copy one file of the dataset in `root` to `target`."""
    copy(path, target, link=path.relative_to(root).parts[0] in _LINKED)


def surplus_files(source: Source, out: Path, key: str) -> list[Path]:
    """The files of OUT that IN does not have, apart from those of the sub-goal camera `key`."""
    cameras = [out / "videos" / camera for camera in source.cameras if camera != key]
    videos = (path for camera in cameras for path in find(camera, "*/*.mp4"))
    files = [*data_files(out), *episode_files(out), *videos]
    return [path for path in files if not (source.root / path.relative_to(out)).exists()]


def data_files(root: Path) -> list[Path]:
    """The data parquet files in lerobot's order."""
    return find(root / "data", "*/*.parquet")


def episode_files(root: Path) -> list[Path]:
    """The episode metadata parquet files in lerobot's order."""
    return find(root / "meta" / "episodes", "*/*.parquet")


def dataset_files(root: Path) -> Iterator[Path]:
    """Every file of a dataset, in order, but those of this machine alone."""
    return (p for p in files_below(root) if p.relative_to(root).parts[0] not in (".cache", ".git"))


def _rebuilt(relative: Path) -> bool:
    posix = relative.as_posix()
    parquet = relative.suffix == ".parquet" and posix.startswith(("data/", "meta/episodes/"))
    return parquet or posix in ("meta/info.json", "meta/stats.json")


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
        names = ", ".join(path.relative_to(out).as_posix() for path in edited[:3])
        more = f" and {len(edited) - 3} more" if edited[3:] else ""
        raise DatasetError(
            f"{out}: changed by hand since goalreel wrote it: {names}{more}: make the change in "
            f"{source.root} instead, or give --overwrite to write these files anew"
        )
    for path in edited:
        marks.drop(path)


def _edited(source: Source, out: Path, key: str, marks: FileMarks) -> Iterator[Path]:
    marked, copies = dict(marks.marked()), marks.copies()
    for path, content in marked.items():
        if path.is_file() and content_digest(path) != content:
            yield path
    if copies is None:
        return
    for relative, content in copies.items():
        path, original = out / relative, source.root / relative
        known = [content, content_digest(original)] if original.is_file() else [content]
        if path.is_file() and content_digest(path) not in known:
            yield path
    for path in surplus_files(source, out, key):
        if path not in marked and path.relative_to(out).as_posix() not in copies:
            yield path
