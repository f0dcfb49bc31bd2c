"""Pass files of IN on to OUT unchanged: large ones are linked, those that a person may edit are copied."""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.datasets.writing.marks import MARKS, FileMarks, content_digest
from goalreel.errors import DatasetError
from goalreel.files import copy, digest, file_digest, files_below, link_or_copy

THREADS = 4
"""Files passed on at once: whoever waits for the disk leaves the processor to others."""
_LINKED = ("videos", "images")
_IGNORED = {".cache", ".git"}
_OF_LEROBOT = ("data", "meta", *_LINKED)
_PREVIOUS = FOLDER / "previous"
"""Where the records of an earlier pass go: they still tell of the episodes that this pass leaves alone."""


def check_apart(root: Path, out: Path) -> None:
    """Refuse to write into the dataset that is read.

    Raises:
        DatasetError: one folder is the other or lies inside it.
    """
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

    Raises:
        DatasetError: the disk is full.
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
        return content if relative.parts[0] in _OF_LEROBOT else None

    names = [path.relative_to(root) for path in dataset_files(root)]
    names = [n for n in names if not (n.is_relative_to(MARKS) or _rebuilt(n) or n in besides)]
    with ThreadPoolExecutor(THREADS, "goalreel-copy") as pool:
        contents = list(pool.map(pass_one, names))
    FileMarks(out).put_copies({n.as_posix(): c for n, c in zip(names, contents, strict=True) if c})


def pass_file(path: Path, target: Path, root: Path) -> None:
    """Link or copy one file of the dataset in `root` to `target`.

    Raises:
        DatasetError: the disk is full.
    """
    (link_or_copy if path.relative_to(root).parts[0] in _LINKED else copy)(path, target)


def drop_gone(source: Source, out: Path, key: str, marks: FileMarks) -> None:
    """Remove files from OUT that IN no longer has, as after a merge."""
    for path in surplus_files(source, out, key):
        path.unlink()
        marks.drop(path)


def surplus_files(source: Source, out: Path, key: str) -> list[Path]:
    """The files of OUT that IN does not have, apart from those of the sub-goal camera `key`."""
    cameras = [out / "videos" / camera for camera in source.cameras if camera != key]
    videos = (path for camera in cameras for path in camera.glob("*/*.mp4"))
    files = [*data_files(out), *episode_files(out), *videos]
    return [path for path in files if not (source.root / path.relative_to(out)).exists()]


def data_files(root: Path) -> list[Path]:
    """The data parquet files in lerobot's order."""
    return sorted((root / "data").glob("*/*.parquet"))


def episode_files(root: Path) -> list[Path]:
    """The episode metadata parquet files in lerobot's order."""
    return sorted((root / "meta" / "episodes").glob("*/*.parquet"))


def dataset_files(root: Path) -> Iterator[Path]:
    """Every file of a dataset, in order, but those of this machine alone."""
    for path in files_below(root):
        if path.relative_to(root).parts[0] not in _IGNORED:
            yield path


def _rebuilt(relative: Path) -> bool:
    posix = relative.as_posix()
    parquet = relative.suffix == ".parquet" and posix.startswith(("data/", "meta/episodes/"))
    return parquet or posix in ("meta/info.json", "meta/stats.json")
