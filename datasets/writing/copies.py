"""Pass files of IN on to OUT unchanged: large ones are linked, those that a person may edit are copied."""

from collections.abc import Collection, Iterator
from pathlib import Path

from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.datasets.writing.marks import FileMarks
from goalreel.errors import DatasetError
from goalreel.files import copy, digest, files_below, link_or_copy

_LINKED = ("videos", "images")
_IGNORED = {".cache", ".git"}
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
    return digest(*(path.read_bytes() for path in paths if path.is_file()))


def pass_on(root: Path, out: Path, besides: Collection[Path] = ()) -> None:
    """Link or copy what `build` does not write itself; neither does it pass on `besides` (relative).

    Raises:
        DatasetError: the disk is full.
    """
    for path in dataset_files(root):
        relative = path.relative_to(root)
        if relative.is_relative_to(FOLDER):
            copy(path, out / _PREVIOUS / relative.relative_to(FOLDER))
        elif not _rebuilt(relative) and relative not in besides:
            pass_file(path, out / relative, root)


def pass_file(path: Path, target: Path, root: Path) -> None:
    """Link or copy one file of the dataset in `root` to `target`.

    Raises:
        DatasetError: the disk is full.
    """
    (link_or_copy if path.relative_to(root).parts[0] in _LINKED else copy)(path, target)


def drop_gone(source: Source, out: Path, key: str, marks: FileMarks) -> None:
    """Remove files from OUT that IN no longer has, as after a merge.

    Those of the sub-goal camera `key` are left alone.
    """
    cameras = [out / "videos" / camera for camera in source.cameras if camera != key]
    videos = (path for camera in cameras for path in camera.glob("*/*.mp4"))
    for path in [*data_files(out), *episode_files(out), *videos]:
        if not (source.root / path.relative_to(out)).exists():
            path.unlink()
            marks.drop(path)


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
