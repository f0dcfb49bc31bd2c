"""Record the tasks of a split where they are missing, annotate them as a user would, and score the result."""

import csv
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from goalreel.annotator.annotate import annotate
from goalreel.annotator.job import Summary
from goalreel.annotator.options import Options
from goalreel.annotator.robot import read_robot
from goalreel.annotator.show import open_annotated
from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.planners.examples.carry import choose
from goalreel.progress import OnProgress
from goalreel.types import Storyboard
from goalreel_lab.metaworld.score import (
    Annotation,
    EpisodeScore,
    MetaWorldReport,
    NamedStep,
    judge,
    make_report,
    score_episode,
)
from goalreel_lab.metaworld.tasks import TaskSplit, tasks
from goalreel_lab.metaworld.truth import RecordingTruth, TaskTruth, contact_cuts, contacts, read_truth


def measure(
    chosen: Sequence[str],
    split: TaskSplit,
    data: Path,
    seeds: int = 4,
    size: int = 128,
    examples: int = 0,
    progress: OnProgress = lambda stage, done, total: None,
) -> MetaWorldReport:
    """Score `annotate` with its default preset on tasks of a split.

    With `examples`, all recordings of a task have one wording, and the arm retreats at the end. So many of
    them are labelled by the truth: those that `goalreel check` names. The others are scored.

    Args:
        chosen: the tasks.
        split: which split they are of.
        data: the folder of the recordings, one for each task; a task that is there is not recorded again.
        seeds: recordings a task.
        size: width and height of the pictures.
        examples: labelled recordings a task.
        progress: is called with "record" or "annotate", and how many tasks of how many are done.

    Raises:
        InputError, DatasetError: a task cannot be recorded or annotated.
    """
    numbers = range(2, 2 + 4 * seeds, 4) if examples else range(seeds)  # one of four wordings
    folders = {task: data / f"{task}{'-retreat' * bool(examples)}-{seeds}x{size}" for task in chosen}
    for done, (task, folder) in enumerate(folders.items(), 1):
        if not folder.exists():
            from goalreel_lab.metaworld.sim import record_task

            record_task(folder, task, numbers, size)
        progress("record", done, len(folders))
    scores: list[EpisodeScore] = []
    for done, folder in enumerate(folders.values(), 1):
        scores += score_carried(folder, examples) if examples else score_task(folder)
        progress("annotate", done, len(folders))
    return make_report(split, len(folders), scores)


def score_task(recorded: Path) -> list[EpisodeScore]:
    """Annotate the recording of a task into a folder that is removed afterwards, and score each episode.

    Where the run would stop and ask which end of the gripper is closed, it is told, as a lab would do.
    """
    truth, source = read_truth(recorded), Source.open(recorded)
    robot = read_robot(source)
    needs_answer = bool(robot.unknown)
    inverted = not needs_answer and robot.layout.closed not in (None, truth.closed)
    options = Options(layout=f"closed={truth.closed}", camera="corner") if needs_answer else None
    with tempfile.TemporaryDirectory(prefix="goalreel-metaworld-") as folder:
        out = Path(folder) / "annotated"
        scores = _scores(truth, out, annotate(source, out, options=options), source.indices)
    return [replace(score, asked=needs_answer, inverted=inverted) for score in scores]


def score_carried(recorded: Path, count: int) -> list[EpisodeScore]:
    """Label `count` episodes by the truth, carry their steps over to the others, and score these.

    Where the labelled episodes do not find each other's boundaries, the run is told to go on: `asked`.
    """
    truth, source = read_truth(recorded), Source.open(recorded)
    labelled = choose([source.episode(i) for i in source.indices], count)
    others = sorted(set(source.indices) - set(labelled))
    with tempfile.TemporaryDirectory(prefix="goalreel-metaworld-") as folder:
        table, out = Path(folder) / "labels.csv", Path(folder) / "annotated"
        with table.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("episode", "name", "start_frame", "end_frame"))
            for index in labelled:
                rows.writerows((index, *step) for step in true_steps(truth.episodes[index], truth.fps))
        summary = annotate(source, out, episodes=others, examples=table, examples_anyway=True)
        asked = not all(measured.enough for measured in summary.measured)
        return [replace(score, asked=asked) for score in _scores(truth, out, summary, others)]


def _scores(truth: TaskTruth, out: Path, summary: Summary, episodes: Sequence[int]) -> list[EpisodeScore]:
    failed = Annotation((), (), failed=True)
    found = [failed if i in summary.failures else read_annotation(out, i) for i in episodes]
    true = [truth.episodes[i] for i in episodes]
    return [score_episode(a, tasks()[t.task], t, truth.fps) for a, t in zip(found, true, strict=True)]


def true_steps(episode: RecordingTruth, fps: float) -> Iterator[tuple[str, int, int]]:
    """Name the steps between an episode's contacts, as a person would who sees what is true of them."""
    touches, spec = contacts(episode, fps), tasks()[episode.task]
    nouns = {body: noun for noun, body in reversed(spec.objects.items())}
    edges = [0, *contact_cuts(touches, len(episode)), len(episode)]
    for start, end in itertools.pairwise(edges):
        touch = next((t for t in touches if t.start < end and t.end > start), None)
        following = touch or next((t for t in touches if t.start >= end), None)
        noun = nouns[following.object] if following else next(iter(nouns.values()))
        names = [f"{'touch' if touch else 'reach for'} the {noun}"]
        if end == len(episode):
            names = [spec.say[0], *names, f"{names[0]}, then retreat from the {noun}"]
        said = (NamedStep(name, start, end) for name in names)
        true = (step.name for step in said if not judge(step, spec, episode, fps).contradiction)
        yield next(true, names[-1]), start, end


def read_annotation(out: Path, index: int) -> Annotation:
    """Read what a run wrote of an episode."""
    records, _, _ = open_annotated(out)
    board = records.outline(index)
    starts = [step.segment.start for step in board.steps if step.segment is not None]
    return Annotation(
        cuts=tuple(start for start in starts if start > 0),
        names=tuple(_written_names(Source.open(out).episode(index))),
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


def _written_names(episode: Episode) -> Iterator[NamedStep]:
    """Read the sub-task names that are written for an annotated episode, each with its frames.

    A row holds until the next one. The bare instruction is no name: it is written where there is none.
    """
    labels = episode.subtasks("rows")
    starts = np.searchsorted(episode.timestamps, [time - 1e-4 for time, _ in labels]).tolist()
    ends = [*starts, len(episode)][1:]
    for (_, text), start, end in zip(labels, starts, ends, strict=True):
        if text and text != episode.instruction and end > start:
            yield NamedStep(text, start, end)


def _observed(board: Storyboard) -> Iterator[NamedStep]:
    for step in board.steps:
        image = step.goal_image
        if step.status == "observed" and step.segment is not None and image is not None and image.frame:
            frame = int(image.frame.rpartition("#")[2])
            yield NamedStep(step.step.name, step.segment.start, frame + 1)
