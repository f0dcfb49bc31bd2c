"""Score the cuts of real robots' recordings against labels made by eye (tests/data/real).

Labels are cut where contact changes: the hand closes on a thing, lets it go, loses it, touches it or leaves
it. A label that could not be determined has no frame, and no cut is expected there.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from goalreel.annotator.statistics import Measurement, boundary_counts, share, with_interval
from goalreel.datasets.source import Source
from goalreel.planners.kinematic.planner import Granularity, KinematicPlanner
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.types import Failure, Plan, Segment, Step, Task
from goalreel_lab.statistics import best_matches

type Cuts = Mapping[int, Sequence[Segment]]
"""Segments of episodes by their index, in order."""


class LabelledSegment(BaseModel):
    """A sub-task that was really done: frames [start, end)."""

    start: int
    end: int
    kind: Literal["reach", "move", "try", "retreat"]
    """`try`: the hand was on the thing, and nothing was achieved."""
    name: str


class ContactEvent(BaseModel):
    """A change of contact at a frame."""

    kind: Literal["held", "released", "slipped", "touched", "left"]
    frame: int


class LabelledEpisode(BaseModel):
    """The true course of one episode, cut at every change of contact."""

    episode: int
    frames: int
    instruction_done: bool | None
    """None where it cannot be told."""
    segments: tuple[LabelledSegment, ...]
    events: tuple[ContactEvent, ...]

    def spans(self, retreats_apart: bool) -> list[Segment]:
        """Give the segments; a retreat is one of its own, or belongs to what it follows."""
        starts = [s.start for s in self.segments if retreats_apart or s.kind != "retreat"]
        return [Segment(start=a, end=b) for a, b in itertools.pairwise([*starts, self.frames])]


class LabelledDataset(BaseModel):
    """The labels of one dataset's episodes."""

    fps: float
    episodes: tuple[LabelledEpisode, ...]


class RealLabels(BaseModel):
    """The labels of all datasets, by the name of their folder."""

    datasets: dict[str, LabelledDataset]


class BoundaryScore(BaseModel):
    """Boundaries found within the tolerance, with 95 % intervals over episodes."""

    matched: int
    predicted: int
    true: int
    precision: Measurement
    recall: Measurement
    f1: Measurement


def read_labels(path: Path) -> RealLabels:
    """Read labels made by eye."""
    return RealLabels.model_validate_json(path.read_bytes())


def kinematic_plans(root: Path, granularity: Granularity) -> dict[int, Plan]:
    """Plan every episode of the dataset at `root` by motion and words; a failed one is one unnamed step."""
    source = Source.open(root)
    episodes = [source.episode(index) for index in source.indices]
    robot = infer_robot(episodes, robot_type=source.info.get("robot_type"))
    planner = KinematicPlanner({e.id: e for e in episodes}, granularity, robot.layout)
    plans = planner.plan([Task(id=e.id, instruction=e.instruction) for e in episodes])
    return {
        e.index: _unnamed(len(e)) if isinstance(plan, Failure) else plan
        for e, plan in zip(episodes, plans, strict=True)
    }


def _unnamed(frames: int) -> Plan:
    step = Step(name="(none)", instruction="(none)", prompt="(none)")
    return Plan(steps=(step,), segments=(Segment(start=0, end=frames),))


def cuts_of(plans: Mapping[int, Plan]) -> Cuts:
    """Take the segments of plans read off recordings."""
    return {index: plan.segments or () for index, plan in plans.items()}


def names_right(
    plans: Mapping[int, Plan], labels: LabelledDataset, *, without_doubts: bool = False
) -> Measurement:
    """Measure the share of labelled segments, retreats joined, whose best match says what was done.

    That is a grasp for a reach, a step tried in vain for a try, and for a move anything else; the last move
    of an episode whose instruction was not done must not be told as done. `without_doubts` counts only
    segments whose best match has words that are written.
    """
    rows = []
    for label in labels.episodes:
        plan = plans[label.episode]
        kinds = [s.kind for s in label.segments if s.kind != "retreat"]
        matches = best_matches(plan.segments or (), label.spans(retreats_apart=False))
        step_kinds = [_kind(plan.steps[i]) for i in matches]
        right = [a == b for a, b in zip(step_kinds, kinds, strict=True)]
        right[-1] = right[-1] and (step_kinds[-1] != "move" or label.instruction_done is not False)
        counted = [
            hit
            for hit, i in zip(right, matches, strict=True)
            if not (without_doubts and plan.steps[i].doubts)
        ]
        rows.append((sum(counted), len(counted)))
    return with_interval(rows, share)


def _kind(step: Step) -> str:
    if step.outcome == "failed":
        return "try"
    return "reach" if step.name.startswith(("pick up", "grasp", "close the hand", "reach")) else "move"


def boundary_score(
    cuts: Cuts, labels: LabelledDataset, tolerance_s: float = 0.5, *, retreats_apart: bool = True
) -> BoundaryScore:
    """Compare the cuts of the labelled episodes with their labels."""
    rows = []
    for label in labels.episodes:
        found = cuts[label.episode]
        rows.append(boundary_counts(found, label.spans(retreats_apart), tolerance_s, labels.fps))
    return BoundaryScore(
        matched=sum(r.matched for r in rows),
        predicted=sum(r.predicted for r in rows),
        true=sum(r.true for r in rows),
        precision=with_interval([(r.matched, r.predicted) for r in rows], share),
        recall=with_interval([(r.matched, r.true) for r in rows], share),
        f1=with_interval([r.pair for r in rows], share),
    )
