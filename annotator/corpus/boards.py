"""Find stored storyboards and read each when it is needed, as all pictures do not fit in memory.

A folder with storyboard.json     what `goalreel plan` and `goalreel eval` write
A dataset with meta/goalreel      what `goalreel annotate` writes, and `bag2lerobot` of what a node streamed
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalreel.annotator.show import episode_view, open_annotated
from goalreel.datasets.corpora.human_verdicts import human_verdicts
from goalreel.datasets.corpora.trajectories import HumanVerdicts
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
    """Of its rows: the folder's name, DATASET/episode_000003, or what the recording's task is called."""
    digest: str
    """SHA-256 of its record."""
    load: Callable[[], Storyboard]
    """Raises UserError if the storyboard is damaged."""
    human_verdicts: HumanVerdicts = field(default_factory=dict)
    """What a person said of its attempts."""


type RecordingTaskIds = Callable[[Path], Mapping[int, str]]
"""Gives, for the folder of a recording, task ids by the number of the episode; episodes may be missing."""


def find_boards(
    folders: Sequence[Path], recording_task_ids: RecordingTaskIds = lambda root: {}
) -> list[StoredBoard]:
    """Find all storyboards in the folders and below, each once, in the order of the folders and their names.

    `recording_task_ids` names the episodes of a recording that is known by other names than its folder's.

    Raises:
        InputError: a folder that holds none.
        DatasetError: a dataset whose recording cannot be read.
    """
    boards_of: dict[Path, list[StoredBoard]] = {}
    for folder in folders:
        places = sorted({path.resolve() for path in _places(folder)})
        if not places:
            raise InputError(
                f"{folder}: holds no storyboard: give what `goalreel plan` or `goalreel annotate` wrote"
            )
        for place in places:
            if place not in boards_of:
                boards_of[place] = (
                    [_of_folder(place)]
                    if (place / _FILE).is_file()
                    else _of_dataset(place, recording_task_ids)
                )
    return [board for boards in boards_of.values() for board in boards]


def _places(folder: Path) -> Iterator[Path]:
    yield from (path.parent for path in folder.rglob(_FILE) if path.is_file())
    yield from (path.parent.parent for path in folder.rglob(str(FOLDER)) if path.is_dir())


def _of_folder(folder: Path) -> StoredBoard:
    return StoredBoard(folder.name, file_digest(folder / _FILE), lambda: load_storyboard(folder))


def _of_dataset(dataset: Path, recording_task_ids: RecordingTaskIds) -> list[StoredBoard]:
    records, _, recording = open_annotated(dataset)
    task_ids = recording_task_ids(recording.root)

    def board(episode: int) -> StoredBoard:
        return StoredBoard(
            task_ids.get(episode, f"{dataset.name}/episode_{episode:06d}"),
            records.digest(episode),
            lambda: _read(recording, records, episode),
            human_verdicts(records.review(episode)) if records.is_corrected(episode) else {},
        )

    return [board(episode) for episode in sorted(records.recorded())]


def _read(recording: Source, records: Records, episode: int) -> Storyboard:
    return episode_view(recording.episode(episode), records).storyboard
