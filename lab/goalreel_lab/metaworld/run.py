"""Record the tasks of a split where they are missing, annotate them as a user would, and score the result."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.annotator.robot import read_robot
from goalreel.annotator.show import open_annotated
from goalreel.datasets.source import Source
from goalreel.progress import OnProgress
from goalreel.types import Storyboard
from goalreel_lab.metaworld.score import (
    Annotation,
    EpisodeScore,
    MetaWorldReport,
    NamedStep,
    make_report,
    score_episode,
)
from goalreel_lab.metaworld.tasks import TaskSplit, tasks
from goalreel_lab.metaworld.truth import read_truth
from goalreel_lab.written_names import written_names


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
            from goalreel_lab.metaworld.sim import record_task

            record_task(folder, task, range(seeds), size)
        progress("record", done, len(folders))
    scores: list[EpisodeScore] = []
    for done, folder in enumerate(folders.values(), 1):
        scores += score_task(folder)
        progress("annotate", done, len(folders))
    return make_report(split, len(folders), scores)


def score_task(recorded: Path) -> list[EpisodeScore]:
    """Annotate the recording of a task into a folder that is removed afterwards, and score each episode.

    Where the run would stop and ask which end of the gripper is closed, it is told, as a lab would do.
    """
    truth = read_truth(recorded)
    robot = read_robot(Source.open(recorded))
    needs_answer = bool(robot.unknown)
    inverted = not needs_answer and robot.layout.closed not in (None, truth.closed)
    options = Options(layout=f"closed={truth.closed}", camera="corner") if needs_answer else None
    with tempfile.TemporaryDirectory(prefix="goalreel-metaworld-") as folder:
        out = Path(folder) / "annotated"
        summary = annotate(recorded, out, options=options)
        annotations = [
            Annotation((), (), failed=True) if index in summary.failures else read_annotation(out, index)
            for index in range(len(truth.episodes))
        ]
    return [
        replace(
            score_episode(annotation, tasks()[episode.task], episode, truth.fps),
            asked=needs_answer,
            inverted=inverted,
        )
        for annotation, episode in zip(annotations, truth.episodes, strict=True)
    ]


def read_annotation(out: Path, index: int) -> Annotation:
    """Read what a run wrote of an episode."""
    records, _, _ = open_annotated(out)
    board = records.outline(index)
    starts = [step.segment.start for step in board.steps if step.segment is not None]
    names = written_names(Source.open(out).episode(index))
    return Annotation(
        cuts=tuple(start for start in starts if start > 0),
        names=tuple(NamedStep(text, segment.start, segment.end) for text, segment in names),
        failed=board.failure is not None,
        observed=tuple(_observed(board)),
        doubted=tuple(
            (doubt, NamedStep(step.step.name, step.segment.start, step.segment.end))
            for step in board.steps
            for doubt in step.step.doubts
            if step.segment is not None
        ),
        doubts=tuple(dict.fromkeys(doubt for step in board.steps for doubt in step.step.doubts)),
    )


def _observed(board: Storyboard) -> Iterator[NamedStep]:
    for step in board.steps:
        image = step.goal_image
        if step.status == "observed" and step.segment is not None and image is not None and image.frame:
            frame = int(image.frame.rpartition("#")[2])
            yield NamedStep(step.step.name, step.segment.start, frame + 1)
