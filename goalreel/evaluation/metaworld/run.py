"""Record the tasks of a split where that is not done yet, annotate them as a lab would, and score."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from goalreel.annotator.api import annotate
from goalreel.annotator.show import open_annotated
from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.evaluation.claims import written_names
from goalreel.evaluation.metaworld.claims import NamedStep
from goalreel.evaluation.metaworld.score import (
    Annotation,
    EpisodeScore,
    MetaWorldReport,
    make_report,
    score_episode,
)
from goalreel.evaluation.metaworld.tasks import TaskSplit, tasks
from goalreel.evaluation.metaworld.truth import RecordingTruth, TaskTruth, read_truth
from goalreel.planners.kinematic.layout import Unsegmentable
from goalreel.planners.kinematic.motion import read_motion
from goalreel.planners.kinematic.robot import find_layout
from goalreel.progress import OnProgress


def cache_folder() -> Path:
    """Where recordings are kept, unless told otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "goalreel" / "metaworld"


def measure(
    chosen: Sequence[str],
    split: TaskSplit,
    data: Path,
    seeds: int = 4,
    size: int = 128,
    progress: OnProgress = lambda stage, done, total: None,
) -> MetaWorldReport:
    """Score `annotate` with its default preset on tasks of a split.

    Args:
        chosen: the tasks.
        split: which split they are of.
        data: the folder of the recordings, one for each task; a task that is there is not recorded again.
        seeds: recordings a task.
        size: width and height of the pictures.
        progress: is called with "record" or "annotate", and how many tasks of how many are done.

    Raises:
        InputError, DatasetError: a task cannot be recorded or annotated.
    """
    folders = {task: data / f"{task}-{seeds}x{size}" for task in chosen}
    for done, (task, folder) in enumerate(folders.items(), 1):
        if not folder.exists():
            from goalreel.evaluation.metaworld.record import record_task  # brings lerobot and the simulator

            record_task(folder, task, seeds, size)
        progress("record", done, len(folders))
    scores: list[EpisodeScore] = []
    for done, folder in enumerate(folders.values(), 1):
        scores += score_task(folder)
        progress("annotate", done, len(folders))
    return make_report(split, len(folders), scores)


def score_task(recorded: Path) -> list[EpisodeScore]:
    """Annotate the recording of a task into a folder that is removed afterwards, and score each episode."""
    truth = read_truth(recorded)
    with tempfile.TemporaryDirectory(prefix="goalreel-metaworld-") as folder:
        out = Path(folder) / "annotated"
        summary = annotate(recorded, out)
        if len(summary.failures) == len(truth.episodes):
            annotations = [Annotation((), (), failure=line) for line in summary.failures.values()]
        else:
            annotations = _read_annotations(out, truth)
    return [
        score_episode(annotation, tasks()[episode.task], episode, truth.fps)
        for annotation, episode in zip(annotations, truth.episodes, strict=True)
    ]


def _read_annotations(out: Path, truth: TaskTruth) -> list[Annotation]:
    records, done, _ = open_annotated(out)
    source = Source.open(out)
    found = []
    for index, episode in enumerate(truth.episodes):
        if index not in done:
            found.append(Annotation((), (), failure="not annotated"))
            continue
        board = records.outline(index)
        starts = [step.segment.start for step in board.steps if step.segment is not None]
        found.append(
            Annotation(
                cuts=tuple(start for start in starts if start > 0),
                names=_names(source.episode(index)),
                inverted=_inverted(source.episode(index), episode),
                failure=board.failure.message if board.failure else "",
            )
        )
    return found


def _names(annotated: Episode) -> tuple[NamedStep, ...]:
    """Read the sub-task rows that say something else than the instruction."""
    return tuple(NamedStep(text, segment.start, segment.end) for text, segment in written_names(annotated))


def _inverted(recording: Episode, episode: RecordingTruth) -> bool:
    """Whether the planner takes the open hand for the closed one."""
    try:
        closed = read_motion(recording, find_layout(recording)).closed
    except (Unsegmentable, DatasetError):
        return False
    if closed is None or np.ptp(episode.opening) == 0 or np.ptp(closed) == 0:
        return False
    return bool(np.corrcoef(closed, episode.opening)[0, 1] > 0)
