"""Links of a dataset that lead out of it: what is written from the dataset would publish what lies there."""

import logging
from collections.abc import Iterator
from pathlib import Path

from goalreel.errors import DatasetError

log = logging.getLogger(__name__)


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
    """Each link below `folder` that leads out of `inside`, with its end.

    Folders that are never passed on count too: a link inside the dataset may lead to them.
    """
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and path.exists():
            target = path.resolve()
            if not target.is_relative_to(inside) and not _in_hub_cache(target):
                yield path, target
        elif path.is_dir() and not path.is_symlink():
            yield from _outside(path, inside)


def _in_hub_cache(target: Path) -> bool:
    """Whether huggingface_hub keeps the file for a snapshot: HUB/datasets--OWNER--NAME/blobs/HASH."""
    repository = target.parent.parent
    return (
        target.is_file()
        and target.parent.name == "blobs"
        and repository.name.startswith("datasets--")
        and (repository / "snapshots").is_dir()
    )
