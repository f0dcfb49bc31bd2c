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
from pydantic import BaseModel, ConfigDict

from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.evaluation.segmentation import (
    boundary_counts,
    even_split,
    label_hits,
    segment_iou,
)
from goalreel.evaluation.statistics import Measurement, share, with_interval
from goalreel.planners.kinematic import Granularity, KinematicPlanner, Layout
from goalreel.tabletop.sim.truth import TrueEpisode, TrueSegment, read_truth
from goalreel.types import Failure, Plan, Segment, Task

_GRASPED = -2
"""The column of `predicates` (tabletop/record.py) that says that both fingers touch the block."""

type MakePlanner = Callable[[Mapping[str, Episode], Granularity], KinematicPlanner]


class SegmentationReport(BaseModel):
    """What `goalreel eval segmentation` prints.

    Every failed plan counts as one segment without a name.
    """

    model_config = ConfigDict(frozen=True)

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
    camera, instructions = source.camera(None), tuple(source.tasks.values())
    planner = partial(KinematicPlanner, layout=layout, camera=camera, words=instructions)
    scores = [
        _score(source.episode(index), true, truth.phases, tolerance_s, planner)
        for index, true in zip(source.indices, truth.episodes, strict=True)
    ]
    splits = tuple(sorted({e.split for e in truth.episodes}))
    return _report(scores, splits, tolerance_s)


class _Score(BaseModel):
    """What one episode adds to every measure, as pairs of numerator and denominator."""

    failed: bool
    boundaries: tuple[float, float]
    overlap: tuple[float, float]
    explicit: tuple[float, float]
    underspecified: tuple[float, float]
    event_boundaries: tuple[float, float]
    phase_boundaries: tuple[float, float]
    phase_frames: tuple[float, float]
    even_boundaries: tuple[float, float]
    even_overlap: tuple[float, float]


def _score(
    episode: Episode, true: TrueEpisode, phases: Sequence[str], tolerance_s: float, planner: MakePlanner
) -> _Score:
    n = len(episode)
    plan = _plan(episode, "subtask", planner)
    pred, labels = _spans(plan, n)
    spans = [Segment(start=s.start, end=s.end) for s in true.segments]
    hits = label_hits(pred, labels, spans, [s.text for s in true.segments])
    explicit = [named_by_instruction(true, s) for s in true.segments]
    even = even_split(n, len(spans))
    phase_pred, phase_names = _spans(_plan(episode, "phase", planner), n)
    frames = _read_frames(episode)
    event_pred, _ = _spans(_plan(episode, "event", planner), n)
    frame_labels = [
        name.split()[0]
        for name, s in zip(phase_names, phase_pred, strict=True)
        for _ in range(s.start, s.end)
    ]
    at = _true_phases(frames, phases)
    right = sum(a == phases[b] for a, b in zip(frame_labels, at[:, 1], strict=True))
    return _Score(
        failed=isinstance(plan, Failure),
        boundaries=boundary_counts(pred, spans, tolerance_s, episode.fps).pair,
        overlap=(segment_iou(pred, spans) * len(spans), len(spans)),
        explicit=(sum(h for h, e in zip(hits, explicit, strict=True) if e), sum(explicit)),
        underspecified=(
            sum(h for h, e in zip(hits, explicit, strict=True) if not e),
            len(explicit) - sum(explicit),
        ),
        event_boundaries=boundary_counts(event_pred, _true_events(frames), tolerance_s, episode.fps).pair,
        phase_boundaries=boundary_counts(phase_pred, _runs(at), tolerance_s, episode.fps).pair,
        phase_frames=(right, n),
        even_boundaries=boundary_counts(even, spans, tolerance_s, episode.fps).pair,
        even_overlap=(segment_iou(even, spans) * len(spans), len(spans)),
    )


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
    """Sub-goal and phase (n, 2) of every frame. The expert calls its way down to the block a part of the
    grasp; to the planner that is reaching, until the hand is told to close."""
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


def _report(scores: Sequence[_Score], splits: tuple[str, ...], tolerance_s: float) -> SegmentationReport:
    labels = [(s.explicit[0] + s.underspecified[0], s.explicit[1] + s.underspecified[1]) for s in scores]
    explicit, under = [s.explicit for s in scores], [s.underspecified for s in scores]
    return SegmentationReport(
        episodes=len(scores),
        subtasks=int(sum(count for _, count in labels)),
        failures=sum(s.failed for s in scores),
        splits=splits,
        tolerance_s=tolerance_s,
        boundary_f1=with_interval([s.boundaries for s in scores], share),
        segment_iou=with_interval([s.overlap for s in scores], share),
        label_accuracy=with_interval(labels, share),
        label_accuracy_explicit=with_interval(explicit, share),
        label_accuracy_underspecified=with_interval(under, share),
        explicit=int(sum(count for _, count in explicit)),
        underspecified=int(sum(count for _, count in under)),
        event_boundary_f1=with_interval([s.event_boundaries for s in scores], share),
        phase_boundary_f1=with_interval([s.phase_boundaries for s in scores], share),
        phase_accuracy=with_interval([s.phase_frames for s in scores], share),
        even_boundary_f1=with_interval([s.even_boundaries for s in scores], share),
        even_segment_iou=with_interval([s.even_overlap for s in scores], share),
    )
