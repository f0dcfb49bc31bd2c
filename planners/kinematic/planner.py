"""The Planner that reads a plan off a recorded episode: no model, rules over motion and words."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from goalreel.errors import DatasetError
from goalreel.planners.kinematic.align import ClauseSpan, align, split_pick
from goalreel.planners.kinematic.clauses import read
from goalreel.planners.kinematic.events import at_contacts, events
from goalreel.planners.kinematic.grasps import Try, sort_out
from goalreel.planners.kinematic.layout import Layout, Unsegmentable, find_layout
from goalreel.planners.kinematic.motion import ArmMotion, read_motion
from goalreel.planners.kinematic.naming import SEEN, name_by_look
from goalreel.planners.kinematic.phases import phases
from goalreel.types import Failure, MotionPhase, Plan, Recording, Recordings, Segment, Step, Task

type Granularity = Literal["event", "subtask", "phase"]
"""`event`: cut where the hand closes on a thing and where it lets go. `subtask`: a clause of the instruction;
picking up is apart where it is named. `phase`: reach, grasp, lift, move, place, retreat."""


class KinematicPlanner:
    """Cuts recorded episodes at grasps, releases and pauses, and names the pieces from the instruction.

    It reads the instruction, `observation.state` and `action`, never an annotation; and pictures only of
    `camera`, if given, where a clause does not say which thing it means ("sort the blocks by colour").
    A plan's segments cover the episode without a gap, one a step. `task.id` names the recording.
    """

    def __init__(
        self,
        recordings: Recordings,
        granularity: Granularity = "event",
        layout: Layout | None = None,
        camera: str | None = None,
        words: Sequence[str] = (),
        with_phases: bool = False,
    ) -> None:
        """`camera`: one that stands still. `words`: other instructions of the dataset, to take nouns from for
        things named by what was seen. A step named so says it in its `auxiliary_text`. `with_phases` also
        names the phases, in `Plan.phases`, whatever the steps are."""
        self._open = recordings.__getitem__ if isinstance(recordings, Mapping) else recordings
        self._granularity = granularity
        self._layout = layout
        self._camera = camera
        self._words = tuple(words)
        self._with_phases = with_phases

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i is the plan read off recording `tasks[i].id`, or why there is none."""
        return [self._plan_or_failure(task) for task in tasks]

    def _plan_or_failure(self, task: Task) -> Plan | Failure:
        try:
            recording = self._open(task.id)
        except KeyError:
            return Failure(stage="plan", message=f"no recording {task.id!r}")
        except DatasetError as e:
            return Failure(stage="plan", message=str(e))
        try:
            return self._plan(task.instruction, recording)
        except (Unsegmentable, DatasetError) as e:
            return Failure(stage="plan", message=f"{task.id}: {e}")

    def _plan(self, instruction: str, recording: Recording) -> Plan:
        check(recording)
        clauses = read(instruction)
        if not clauses:
            raise Unsegmentable("the instruction holds no words: give the episode a task")
        motion = read_motion(recording, find_layout(recording, self._layout))
        grasps, tries = sort_out(clauses, motion)
        parts = align(clauses, grasps, motion)
        if self._granularity == "event":
            parts = at_contacts(parts)
        named = self._named(parts, recording, motion)
        pieces = [
            (piece, None if part is blind else SEEN)
            for blind, part in zip(parts, named, strict=True)
            for piece in self._cut(part, tries, motion)
        ]
        below = [piece for part in named for piece in phases(part, motion)] if self._with_phases else []
        return Plan(
            steps=tuple(_step(p, note) for p, note in pieces),
            segments=tuple(_segment(p) for p, _ in pieces),
            phases=tuple(MotionPhase(name=p.clause.name, segment=_segment(p)) for p in below),
        )

    def _cut(self, part: ClauseSpan, tries: Sequence[Try], motion: ArmMotion) -> list[ClauseSpan]:
        if self._granularity == "subtask":
            return split_pick(part, motion)
        return (events if self._granularity == "event" else phases)(part, tries, motion)

    def _named(self, parts: list[ClauseSpan], recording: Recording, motion: ArmMotion) -> list[ClauseSpan]:
        if self._camera is None:
            return parts
        return name_by_look(parts, recording, motion, self._camera, (recording.instruction, *self._words))


def check(recording: Recording) -> None:
    """Refuse what cannot be segmented.

    Raises:
        Unsegmentable: no frames, NaN or infinity, or neither state nor action.
    """
    if not len(recording.timestamps):
        raise Unsegmentable("the recording holds no frame")
    if not recording.state.shape[1] and not recording.action.shape[1]:
        raise Unsegmentable("the recording has neither observation.state nor action to segment by")
    for name, values in (("observation.state", recording.state), ("action", recording.action)):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            frame, dim = (int(i) for i in bad[0])
            raise Unsegmentable(
                f"{name} is NaN or infinite at frame {frame}, dimension {dim}: repair or drop the episode"
            )


def _step(part: ClauseSpan, note: str | None) -> Step:
    clause = part.clause
    return Step(
        name=clause.name,
        instruction=clause.state,
        prompt=clause.prompt,
        auxiliary_text=note,
        outcome=part.outcome,
    )


def _segment(part: ClauseSpan) -> Segment:
    return Segment(start=part.start, end=part.end)
