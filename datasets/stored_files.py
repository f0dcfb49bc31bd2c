"""The files of a dataset: their places by the templates of meta/info.json, and links that lead out of it.

What is written from a dataset would publish what such links lead to.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from goalreel.errors import DatasetError

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
"""lerobot's own, for an info.json that has none."""

log = logging.getLogger(__name__)


def leads_out(path: str) -> bool:
    """Tell if a relative path leads out of its folder; a link is no matter.

    In a Hugging Face cache every file is a link to a blob elsewhere.
    """
    return Path(path).is_absolute() or ".." in Path(path).parts


def stored(root: Path, template: str | None, row: Mapping[str, Any], prefix: str, **keys: str) -> Path:
    """Path at which the row of meta/episodes says that a file of the episode is.

    Raises:
        DatasetError: outside the dataset, or nowhere.
    """
    if template is None:
        raise DatasetError(f"{root}: meta/info.json has no video_path: write lerobot's, {VIDEO_PATH}")
    relative = template.format(
        chunk_index=row[f"{prefix}/chunk_index"], file_index=row[f"{prefix}/file_index"], **keys
    )
    if leads_out(relative):
        raise DatasetError(f"{root}: meta/info.json points outside the dataset: {template}")
    return root / relative


def check_links(root: Path, *, follow: bool = False) -> None:
    """Refuse links out of the folder `root`; with `follow` a warning names the first instead.

    `root` may be reached by a link itself, and files may be links into the Hub's cache, as it stores them.

    Raises:
        DatasetError: a link leads elsewhere.
    """
    outside = links_out(root)
    if not outside:
        return
    link, target = outside[0][0].relative_to(root), outside[0][1]
    others = f" (and {len(outside) - 1} more)" if len(outside) > 1 else ""
    if not follow:
        raise DatasetError(
            f"{root}: {link} is a link out of the dataset, to {target}{others}: put a copy "
            "in its place, or annotate with --follow-links if all of that may be published"
        )
    log.warning("%s: %s is a link to %s%s: what lies there is copied", root, link, target, others)


def links_out(root: Path) -> list[tuple[Path, Path]]:
    """Each link below `root` that leads out of it, and the place that it leads to, in the order of paths."""
    return list(_outside(root, root.resolve()))


def _outside(folder: Path, inside: Path) -> Iterator[tuple[Path, Path]]:
    """Go into all folders, for a link inside the dataset may lead to one that is never passed on."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and path.exists():
            target = path.resolve()
            if not target.is_relative_to(inside) and not _in_hub_cache(target):
                yield path, target
        elif path.is_dir() and not path.is_symlink():
            yield from _outside(path, inside)


def _in_hub_cache(target: Path) -> bool:
    """Tell if huggingface_hub keeps the file for a snapshot: HUB/datasets--OWNER--NAME/blobs/HASH."""
    repository = target.parent.parent
    return (
        target.is_file()
        and target.parent.name == "blobs"
        and repository.name.startswith("datasets--")
        and (repository / "snapshots").is_dir()
    )
