"""What people corrected, when their episodes are annotated again: their steps are the plan."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalreel.datasets.corrections.board import plan
from goalreel.datasets.corrections.log import corrections_path, log_episode
from goalreel.datasets.corrections.replay import reviewed
from goalreel.datasets.record_files import RecordFiles
from goalreel.datasets.records import FOLDER, Records
from goalreel.errors import DatasetError
from goalreel.files import copy, write_bytes
from goalreel.types import Failure, Plan, Planner, Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pinned:
    """A planner that is not asked where a person has made the plan."""

    planner: Planner
    plans: Mapping[str, Plan]
    """Task -> the person's plan."""

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        """Answer i plans task i."""
        open_tasks = [task for task in tasks if task.id not in self.plans]
        answers = iter(self.planner.plan(open_tasks) if open_tasks else ())
        return [self.plans[task.id] if task.id in self.plans else next(answers) for task in tasks]


def pinned_plans(records: Records, episodes: Iterable[int]) -> dict[int, Plan]:
    """Episode -> the plan that a person made of it, for those whose recording is still the one they saw.

    Raises:
        DatasetError: a log is damaged.
    """
    found: dict[int, Plan] = {}
    for episode in episodes:
        if not records.is_corrected(episode):
            continue
        review = reviewed(records.corrections(episode).entries(records.stand_in))
        if records.recordings and review.recording != records.recordings.get(episode):
            log.warning("episode %d: its recording has changed, so its corrections are left aside", episode)
        elif (theirs := plan(review)) is not None:
            found[episode] = theirs
    return found


def take_corrections(records: Records, reviewed_out: Path) -> int:
    """Copy the corrections of another annotated dataset, pictures first; returns the episodes they are of.

    An episode that has corrections of its own keeps them.

    Raises:
        DatasetError: there are none, they are of another dataset, or the disk is full.
    """
    theirs = RecordFiles(reviewed_out / FOLDER)
    logs = sorted((theirs.folder / "corrections").glob("chunk-*/*.jsonl"))
    episodes = [e for e in map(log_episode, logs) if e is not None and theirs.is_corrected(e)]
    if not episodes:
        raise DatasetError(f"{reviewed_out}: holds no corrections: name what goalreel review was given")
    for episode in episodes:
        if records.is_corrected(episode):
            continue
        said = theirs.corrections(episode).path.read_bytes()  # first: who reviews them may add a picture
        for picture in sorted(theirs.pictures(episode)):
            copy(theirs.folder / picture, records.folder / picture)
        write_bytes(corrections_path(records.folder, episode), said)
    return len(episodes)
