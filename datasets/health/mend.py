"""Mend what can be mended of a dataset without a person, in a copy.

What would be a guess is left as it is, and `inspect` tells of it: `frame_index` counts, timestamps increase,
lengths agree, and a number is mended where the others leave one value for it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.health.frames import unreadable
from goalreel.datasets.health.mend_meta import (
    count_totals,
    index_tasks,
    measure_cameras,
    name_features,
    number_episodes,
    order_episodes,
    place_videos,
)
from goalreel.datasets.health.mend_rows import number_rows, sort_files
from goalreel.datasets.health.mend_stats import compute_stats
from goalreel.datasets.info_file import read_info
from goalreel.datasets.links import check_links
from goalreel.datasets.stored_files import stored
from goalreel.datasets.writing.copies import check_apart, data_files, dataset_files, pass_file
from goalreel.files import atomic_folder
from goalreel.progress import OnProgress

_STEPS: tuple[Callable[[Path], Iterator[str]], ...] = (
    name_features,
    order_episodes,
    sort_files,
    number_rows,
    number_episodes,
    index_tasks,
    measure_cameras,
    place_videos,
    count_totals,
)


def mend(
    dataset: Path, out: Path, *, progress: OnProgress = lambda stage, done, total: None
) -> tuple[str, ...]:
    """Write a mended copy of `dataset` into the new folder `out`, and say what was mended, a line each.

    Videos are linked, and all else is copied. `out` appears whole, or not at all.

    Raises:
        InputError: `out` is there already.
        DatasetError: meta/info.json or meta/episodes cannot be read, a link leads out of the dataset, `out`
            overlaps it, or the disk is full.
    """
    read_info(dataset)
    EpisodeRows.read(dataset)
    check_apart(dataset, out)
    check_links(dataset)
    files = list(dataset_files(dataset))
    with atomic_folder(out) as part:
        for done, path in enumerate(files, start=1):
            pass_file(path, part / path.relative_to(dataset), dataset)
            progress("copy", done, len(files))
        return tuple(_mend(part))


def _mend(root: Path) -> Iterator[str]:
    yield from _drop_strays(root)
    paths = data_files(root)
    if not paths or any(map(unreadable, paths)):
        return
    for step in _STEPS:
        yield from step(root)
    if (root / "meta" / "tasks.parquet").is_file():
        yield from compute_stats(root)


def _drop_strays(root: Path) -> Iterator[str]:
    """Leave out files below data/ that cannot be read, and in which no episode lies."""
    rows, template = EpisodeRows.read(root), read_info(root)["data_path"]
    needed = {stored(root, template, row, "data") for row in rows}
    for path in data_files(root):
        if path not in needed and unreadable(path):
            path.unlink()
            yield f"{path.relative_to(root)}: left out, since it cannot be read and no episode lies in it"
