"""Score the cuts of real robots' recordings against labels made by eye (tests/data/real).

Labels are cut where contact changes: the hand closes on a thing, lets it go, loses it, touches it or leaves
it. A label that could not be determined has no frame, and no cut is expected there.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from goalreel.annotator.statistics import Measurement, best_matches, boundary_counts, share, with_interval
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.planners.kinematic import Granularity, KinematicPlanner
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.types import Failure, Plan, Segment, Step, Task

type Cuts = Mapping[int, Sequence[Segment]]
"""Segments of episodes by their index, in order."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LabelledSegment(_Read):
    """A sub-task that was really done: frames [start, end), and the same in seconds."""

    start: int
    end: int
    start_s: float
    end_s: float
    kind: Literal["reach", "move", "try", "retreat"]
    """`try`: the hand was on the thing, and nothing was achieved."""
    name: str


class ContactEvent(_Read):
    """A change of contact at a frame, and the frame that the first look at the episode had found."""

    kind: Literal["held", "released", "slipped", "touched", "left"]
    frame: int
    first_look: int


class Untold(_Read):
    """What cannot be told from the pictures, and why."""

    what: str
    frame: None
    reason: str


class LabelledEpisode(_Read):
    """What was really done in one episode, cut at every change of contact."""

    episode: int
    frames: int
    instruction_done: bool | None
    """None where it cannot be told."""
    segments: tuple[LabelledSegment, ...]
    events: tuple[ContactEvent, ...]
    unsure: tuple[Untold, ...]
    note: str | None

    @model_validator(mode="after")
    def _cut_at_events(self) -> Self:
        ends = [0, *(s.end for s in self.segments)]
        if [s.start for s in self.segments] != ends[:-1] or ends[-1] != self.frames:
            raise ValueError(
                f"episode {self.episode}: its segments do not cover {self.frames} frames in order"
            )
        if any(b <= a for a, b in itertools.pairwise(ends)):
            raise ValueError(f"episode {self.episode}: a segment holds no frame")
        if [e.frame for e in self.events] != ends[1:-1]:
            raise ValueError(f"episode {self.episode}: its boundaries are not where contact changes")
        return self

    def spans(self, retreats_apart: bool) -> list[Segment]:
        """Give the segments; a retreat is one of its own, or belongs to what it follows."""
        starts = [s.start for s in self.segments if retreats_apart or s.kind != "retreat"]
        return [Segment(start=a, end=b) for a, b in itertools.pairwise([*starts, self.frames])]


class LabelledDataset(_Read):
    """The labels of one dataset's episodes."""

    fps: float
    episodes: tuple[LabelledEpisode, ...]

    @model_validator(mode="after")
    def _seconds_agree(self) -> Self:
        for index, s in ((e.episode, s) for e in self.episodes for s in e.segments):
            if abs(s.start_s - s.start / self.fps) > 0.01 or abs(s.end_s - s.end / self.fps) > 0.01:
                raise ValueError(
                    f"episode {index}: {s.start_s} s is not frame {s.start}, or {s.end_s} s not {s.end}"
                )
        return self


class RealLabels(_Read):
    """The labels of all datasets, by the name of their folder."""

    datasets: dict[str, LabelledDataset]


class BoundaryScore(BaseModel):
    """Boundaries found within the tolerance, with 95 % intervals over episodes."""

    model_config = ConfigDict(frozen=True)

    matched: int
    predicted: int
    true: int
    precision: Measurement
    recall: Measurement
    f1: Measurement


def read_labels(path: Path) -> RealLabels:
    """Read labels made by eye.

    Raises:
        DatasetError: no such file, or its labels are not in order, not inside their episodes, or not cut
            where contact changes.
    """
    try:
        return RealLabels.model_validate_json(path.read_bytes())
    except OSError as e:
        raise DatasetError(f"{path}: cannot be read: {e.strerror}") from e
    except ValidationError as e:
        first = e.errors()[0]
        raise DatasetError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from e


def kinematic_plans(root: Path, granularity: Granularity) -> dict[int, Plan]:
    """Plan every episode of the dataset at `root` by motion and words; a failed one is one unnamed step.

    Raises:
        DatasetError: the dataset cannot be read.
    """
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
    """Compare the cuts of the labelled episodes with their labels.

    Raises:
        DatasetError: a labelled episode has no cuts, or its segments do not end where the label does.
    """
    rows = []
    for label in labels.episodes:
        true_cuts = cuts.get(label.episode)
        if not true_cuts or true_cuts[-1].end != label.frames:
            raise DatasetError(
                f"episode {label.episode} has {label.frames} frames in its label and "
                f"{true_cuts[-1].end if true_cuts else 'none'} in the cuts: "
                "these labels belong to another dataset"
            )
        rows.append(boundary_counts(true_cuts, label.spans(retreats_apart), tolerance_s, labels.fps))
    return BoundaryScore(
        matched=sum(r.matched for r in rows),
        predicted=sum(r.predicted for r in rows),
        true=sum(r.true for r in rows),
        precision=with_interval([(r.matched, r.predicted) for r in rows], share),
        recall=with_interval([(r.matched, r.true) for r in rows], share),
        f1=with_interval([r.pair for r in rows], share),
    )
