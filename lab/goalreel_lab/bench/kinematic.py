"""Measure the kinematic planner on a tabletop recording, which carries its ground truth.

The planner gets the instruction, state, action, the dataset's task texts and the first camera not on the
wrist; the truth (`meta/tabletop.json` and the columns `subgoal`, `phase`, `predicates`) is opened only here.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel

from goalreel.annotator.statistics import Measurement, boundary_counts, share, with_interval
from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.planner import Granularity, KinematicPlanner
from goalreel.tabletop.truth import TrueEpisode, TrueSegment, read_truth
from goalreel.types import Failure, Plan, Segment, Task
from goalreel_lab.statistics import even_split, label_hits, segment_iou

_GRASPED = -2
"""The column of `predicates` (`sim/record.py`) that says that both fingers touch the block."""

type MakePlanner = Callable[[Mapping[str, Episode], Granularity], KinematicPlanner]
type Counts = Mapping[str, tuple[float, float]]
"""Measure -> numerator and denominator that one episode adds to it."""


class SegmentationReport(BaseModel, frozen=True):
    """Report of `goalreel eval segmentation`.

    Every failed plan counts as one segment without a name.
    """

    episodes: int
    subtasks: int
    failures: int
    splits: tuple[str, ...]
    tolerance_s: float
    boundary_f1: Measurement
    segment_iou: Measurement
    label_accuracy: Measurement
    """Label accuracy over all sub-tasks."""
    label_accuracy_explicit: Measurement
    """Label accuracy over those whose object the instruction names (`named_by_instruction`)."""
    label_accuracy_underspecified: Measurement
    """Label accuracy over those it does not name ("sort the blocks by colour"): only pictures can tell."""
    explicit: int
    underspecified: int
    event_boundary_f1: Measurement
    """With `granularity="event"`, against where both fingers begin and cease to touch the block."""
    phase_boundary_f1: Measurement
    phase_accuracy: Measurement
    """Share of frames whose phase is right, with `granularity="phase"`."""
    even_boundary_f1: Measurement
    """The baseline: the true number of segments, all of equal length."""
    even_segment_iou: Measurement


def evaluate(root: Path, tolerance_s: float = 0.5, layout: Layout | None = None) -> SegmentationReport:
    """Plan every episode of the recording at `root` at all granularities and compare.

    Raises:
        FileNotFoundError: no tabletop recording there.
        DatasetError: it cannot be read.
    """
    truth = read_truth(root)
    source = Source.open(root)
    planner = partial(KinematicPlanner, layout=layout, camera=source.camera(None))
    scores = [
        _score(source.episode(index), true, truth.phases, tolerance_s, planner)
        for index, true in zip(source.indices, truth.episodes, strict=True)
    ]
    splits = tuple(sorted({e.split for e in truth.episodes}))
    return _report(scores, splits, tolerance_s)


def _score(
    episode: Episode, true: TrueEpisode, phases: Sequence[str], tolerance_s: float, planner: MakePlanner
) -> Counts:
    n, fps = len(episode), episode.fps
    plan = _plan(episode, "subtask", planner)
    pred, labels = _spans(plan, n)
    spans = [Segment(start=s.start, end=s.end) for s in true.segments]
    hits = label_hits(pred, labels, spans, [s.text for s in true.segments])
    name_flags = [named_by_instruction(true, s) for s in true.segments]
    explicit = sum(hit for hit, is_named in zip(hits, name_flags, strict=True) if is_named)
    even = even_split(n, len(spans))
    frames = _read_frames(episode)
    events, _ = _spans(_plan(episode, "event", planner), n)
    phase_pred, phase_names = _spans(_plan(episode, "phase", planner), n)
    frame_labels = [
        name.split()[0]
        for name, s in zip(phase_names, phase_pred, strict=True)
        for _ in range(s.start, s.end)
    ]
    at = _true_phases(frames, phases)
    right = sum(a == phases[b] for a, b in zip(frame_labels, at[:, 1], strict=True))
    return {
        "failures": (isinstance(plan, Failure), 1),
        "boundary_f1": boundary_counts(pred, spans, tolerance_s, fps).pair,
        "segment_iou": (segment_iou(pred, spans) * len(spans), len(spans)),
        "label_accuracy": (sum(hits), len(hits)),
        "label_accuracy_explicit": (explicit, sum(name_flags)),
        "label_accuracy_underspecified": (sum(hits) - explicit, len(name_flags) - sum(name_flags)),
        "event_boundary_f1": boundary_counts(events, _true_events(frames), tolerance_s, fps).pair,
        "phase_boundary_f1": boundary_counts(phase_pred, _runs(at), tolerance_s, fps).pair,
        "phase_accuracy": (right, n),
        "even_boundary_f1": boundary_counts(even, spans, tolerance_s, fps).pair,
        "even_segment_iou": (segment_iou(even, spans) * len(spans), len(spans)),
    }


def named_by_instruction(episode: TrueEpisode, segment: TrueSegment) -> bool:
    """Tell whether the words alone say which object this sub-goal moves.

    They do not in "sort the blocks by colour", "clear all the bowls" and "clear the red bowl".
    """
    text, mission = episode.instruction.lower(), episode.missions[segment.mission]
    if mission == "sort":
        return "of their own colour" in text and segment.object in text
    if segment.kind == "out_of":
        return any(f"{segment.object} {way} the {segment.target}" in text for way in ("out of", "from"))
    return True


def _plan(episode: Episode, granularity: Granularity, planner: MakePlanner) -> Plan | Failure:
    return planner({episode.id: episode}, granularity).plan(
        [Task(id=episode.id, instruction=episode.instruction)]
    )[0]


def _spans(plan: Plan | Failure, frames: int) -> tuple[list[Segment], list[str]]:
    if isinstance(plan, Failure) or plan.segments is None:
        return [Segment(start=0, end=frames)], ["(none)"]
    return list(plan.segments), [step.name for step in plan.steps]


def _read_frames(episode: Episode) -> dict[str, NDArray[np.float64]]:
    """Read the columns of truth, and the action, of every frame: (n,) or (n, dims)."""
    columns = ["episode_index", "frame_index", "subgoal", "phase", "predicates", "action"]
    table = pq.read_table(episode.data_path, columns=columns)
    table = table.filter(pc.field("episode_index") == episode.index).sort_by("frame_index")
    return {name: np.array(table[name].to_pylist(), np.float64).squeeze() for name in columns[2:]}


def _true_phases(frames: Mapping[str, NDArray[np.float64]], phases: Sequence[str]) -> NDArray[np.int64]:
    """Give sub-goal and phase (n, 2) of every frame.

    The expert calls its way down to the block a part of the grasp. To the planner that is reaching, until the
    hand is told to close.
    """
    phase = frames["phase"].astype(np.int64)
    open_hand = frames["action"][:, -1] > 0
    phase[(phase == phases.index("grasp")) & open_hand] = phases.index("reach")
    return np.stack([frames["subgoal"].astype(np.int64), phase], axis=1)


def _true_events(frames: Mapping[str, NDArray[np.float64]]) -> list[Segment]:
    """Cut where both fingers begin and cease to touch the block, the last time excepted: a retreat."""
    touched = frames["predicates"][:, _GRASPED]
    cuts = (np.flatnonzero(np.diff(touched)) + 1).tolist()
    if len(cuts) and not touched[-1]:
        cuts.pop()
    return [Segment(start=a, end=b) for a, b in itertools.pairwise([0, *cuts, len(touched)])]


def _runs(frames: NDArray[np.int64]) -> list[Segment]:
    """Cut into spans of frames with equal rows."""
    edges = [0, *(np.flatnonzero((np.diff(frames, axis=0) != 0).any(axis=1)) + 1).tolist(), len(frames)]
    return [Segment(start=a, end=b) for a, b in itertools.pairwise(edges)]


def _report(scores: Sequence[Counts], splits: tuple[str, ...], tolerance_s: float) -> SegmentationReport:
    def total(measure: str, place: int) -> int:
        return int(sum(counts[measure][place] for counts in scores))

    fields = SegmentationReport.model_fields.items()
    measures = [name for name, field in fields if field.annotation is Measurement]
    return SegmentationReport(
        episodes=len(scores),
        subtasks=total("label_accuracy", 1),
        failures=total("failures", 0),
        splits=splits,
        tolerance_s=tolerance_s,
        explicit=total("label_accuracy_explicit", 1),
        underspecified=total("label_accuracy_underspecified", 1),
        **{name: with_interval([counts[name] for counts in scores], share) for name in measures},
    )
