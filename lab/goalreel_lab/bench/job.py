"""The bench's job: recordings annotated and compared with their truth, and how far *accepted* is true."""

from collections.abc import Callable, Sequence
from pathlib import Path

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.annotator.show import episode_view
from goalreel.annotator.statistics import Measurement, boundary_counts, share, with_interval
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import UserError
from goalreel.models.model_set import ModelSet
from goalreel.models.registry import RecordingContext
from goalreel.progress import OnProgress
from goalreel.tabletop.readback import shown
from goalreel.tabletop.record import quiet, record
from goalreel.tabletop.scene import SubGoal
from goalreel.tabletop.truth import TrueEpisode, TrueSegment, read_truth
from goalreel.types import Segment, Storyboard, StoryboardStep
from goalreel_lab.bench.plan import read_step
from goalreel_lab.bench.scenes import SIZE, Walk, look, look_rendered, outcome
from goalreel_lab.statistics import best_matches, label_hits, share_with_interval
from goalreel_lab.variety import PLAIN


def measure_accepted(walks: Sequence[Walk], boards: Sequence[Storyboard]) -> dict[str, Measurement]:
    """Measure how far to trust the word *accepted* of made pictures.

    - `accepted`: the share of the steps that have it.
    - `accepted_untrue`: of these, the share whose picture, read back, does not show what the step says, or
      shows that something else moved.
    - `boards_untrue`: of the storyboards all of whose steps are accepted, the share whose last picture does
      not show all that was asked for.
    """
    statuses: list[tuple[int, bool]] = []
    wrong: list[tuple[int, bool]] = []
    ends: list[tuple[int, bool]] = []
    for walk, board in zip(walks, boards, strict=True):
        scene, layout = walk.episode.scene, walk.moments[0].layout
        for step in board.steps:
            goal, accepted = read_step(step.step, walk.names), step.status == "accepted"
            drawn = None if goal is None else look_rendered(step.goal_image, scene, layout, goal.object)
            right = goal is not None and outcome(drawn, layout, goal).right
            statuses.append((walk.seed, accepted))
            if accepted:
                wrong.append((walk.seed, not right))
            layout = layout if drawn is None else drawn
        if board.steps and all(step.status == "accepted" for step in board.steps):
            ends.append((walk.seed, not all(shown(layout, goal) for goal in walk.goals)))
    return {
        "accepted": share_with_interval(statuses),
        "accepted_untrue": share_with_interval(wrong),
        "boards_untrue": share_with_interval(ends),
    }


TOLERANCE = 0.5
"""Seconds that a boundary may be off."""


def annotated(
    seeds: Sequence[int], models: Callable[[RecordingContext], ModelSet], out: Path, progress: OnProgress
) -> list[Storyboard | None]:
    """Record the episodes of `seeds` and annotate them; both are kept in `out`. None: left unannotated.

    `models` gives the models for the recordings, which some of them read.

    Raises:
        DatasetError: `out` holds the annotations of other models, or is in use.
        UserError: a model answers nobody any more.
    """
    recording, result = out / "recording", out / "annotated"
    if not recording.is_dir():
        quiet()
        record(
            recording,
            seeds,
            cameras=[PLAIN.camera],
            size=SIZE,
            progress=lambda done, total: progress("record", done, total),
        )
    options = Options(granularity="subtask", replace_rows=True)
    source = Source.open(recording)
    summary = annotate(source, result, models(options.recorded(source)), options, progress=progress)
    if summary.stopped:
        raise UserError(summary.stopped)
    records = Records(result / FOLDER, source="")
    done = records.done()
    return [
        episode_view(source.episode(i), records).storyboard if i in done else None for i in source.indices
    ]


def score_job(
    walks: Sequence[Walk], truth: Sequence[TrueEpisode], boards: Sequence[Storyboard | None], fps: float
) -> dict[str, Measurement]:
    """Measure `boundary_f1`, `labels` and `goal_images`.

    `labels` is the share of true sub-tasks whose best match says the same. `goal_images` is the share whose
    best match shows them reached and everything else untouched.
    """
    boundaries, labels, images = [], [], []
    for walk, true, board in zip(walks, truth, boards, strict=True):
        spans = [Segment(start=s.start, end=s.end) for s in true.segments]
        covering = _covering(board, spans[-1].end)
        pred = [segment for segment, _ in covering]
        boundaries.append(boundary_counts(pred, spans, TOLERANCE, fps).pair)
        step_labels = ["(none)" if step is None else _label(step, walk) for _, step in covering]
        hits = label_hits(pred, step_labels, spans, [s.text for s in true.segments])
        labels += [(walk.seed, hit) for hit in hits]
        for number, match in enumerate(best_matches(pred, spans)):
            step = covering[match][1]
            layout, goal = walk.moments[number].layout, _goal(true.segments[number])
            final_layout = look(step.goal_image if step else None, walk.episode.scene, layout, goal.object)
            right = outcome(final_layout, layout, goal).right
            images.append((walk.seed, right))
    return {
        "boundary_f1": with_interval(boundaries, share),
        "labels": share_with_interval(labels),
        "goal_images": share_with_interval(images),
    }


def _covering(board: Storyboard | None, frames: int) -> list[tuple[Segment, StoryboardStep | None]]:
    """List steps with their segments, and None for frames that no step has: an end is a boundary, too."""
    covering: list[tuple[Segment, StoryboardStep | None]] = []
    at = 0
    for step in board.steps if board else ():
        if step.segment is None:
            continue
        if step.segment.start > at:
            covering.append((Segment(start=at, end=step.segment.start), None))
        covering.append((step.segment, step))
        at = step.segment.end
    return covering if at == frames else [*covering, (Segment(start=at, end=frames), None)]


def _goal(segment: TrueSegment) -> SubGoal:
    return SubGoal(segment.kind, segment.object, segment.target)


def _label(step: StoryboardStep, walk: Walk) -> str:
    """Say the sub-task's canonical sentence where the step's words can be made out, else its name."""
    goal = read_step(step.step, walk.names)
    return step.step.name if goal is None else goal.text


def measure_job(
    walks: Sequence[Walk], models: Callable[[RecordingContext], ModelSet], out: Path, progress: OnProgress
) -> dict[str, Measurement]:
    """Record, annotate, compare."""
    boards = annotated([w.seed for w in walks], models, out, progress)
    recording = out / "recording"
    return score_job(walks, read_truth(recording).episodes, boards, Source.open(recording).fps)
