"""Where storyboards are stored, and how each is read: when it is needed, as all pictures fit no memory.

A folder with storyboard.json     what `goalreel plan` and `goalreel eval` write
A dataset with meta/goalreel      what `goalreel annotate` writes, and `bag2lerobot` of what a node streamed
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalreel.annotator.show import episode_view, recording_of
from goalreel.datasets.corpora.human_verdicts import said
from goalreel.datasets.corpora.trajectories import Said
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.files import file_digest
from goalreel.storyboard_io import load_storyboard
from goalreel.types import Storyboard

_FILE = "storyboard.json"


@dataclass(frozen=True)
class StoredBoard:
    """One storyboard on disk."""

    task_id: str
    """Of its rows: the folder's name, DATASET/episode_000003, or `tabletop-SEED` for a recording of it."""
    digest: str
    """SHA-256 of its record."""
    load: Callable[[], Storyboard]
    """Raises UserError where it is damaged."""
    said: Said = field(default_factory=dict)
    """What a person said of its attempts."""


def find_boards(folders: Sequence[Path]) -> list[StoredBoard]:
    """All storyboards in the folders and below them, each once, in the order of the folders and their names.

    Raises:
        InputError: a folder that holds none.
        DatasetError: a dataset whose recording cannot be read.
    """
    found: dict[Path, list[StoredBoard]] = {}
    for folder in folders:
        places = sorted({path.resolve() for path in _places(folder)})
        if not places:
            raise InputError(
                f"{folder}: holds no storyboard: give what `goalreel plan` or `goalreel annotate` wrote"
            )
        for place in places:
            if place not in found:
                found[place] = [_of_folder(place)] if (place / _FILE).is_file() else _of_dataset(place)
    return [board for boards in found.values() for board in boards]


def _places(folder: Path) -> Iterator[Path]:
    yield from (path.parent for path in folder.rglob(_FILE) if path.is_file())
    yield from (path.parent.parent for path in folder.rglob(str(FOLDER)) if path.is_dir())


def _of_folder(folder: Path) -> StoredBoard:
    return StoredBoard(folder.name, file_digest(folder / _FILE), lambda: load_storyboard(folder))


def _of_dataset(dataset: Path) -> list[StoredBoard]:
    records = Records(dataset / FOLDER, source="")
    recording = recording_of(dataset, records, None, sorted(records.done()))
    names = _seeds(recording.root)

    def board(episode: int) -> StoredBoard:
        return StoredBoard(
            names.get(episode, f"{dataset.name}/episode_{episode:06d}"),
            records.digest(episode),
            lambda: _read(recording, records, episode),
            said(records.review(episode)) if records.is_corrected(episode) else {},
        )

    return [board(episode) for episode in sorted(records.recorded())]


def _read(recording: Source, records: Records, episode: int) -> Storyboard:
    return episode_view(recording.episode(episode), records).storyboard


def _seeds(root: Path) -> dict[int, str]:
    """Episode -> `tabletop-SEED`, where a recording is of the simulated tabletop."""
    from goalreel.tabletop.sim.scoring import task_id_of
    from goalreel.tabletop.sim.truth import FILE, read_truth

    if not (root / FILE).is_file():
        return {}
    return {i: task_id_of(episode.seed) for i, episode in enumerate(read_truth(root).episodes)}
