"""Cut a sub-task into the phases that the motion shows: reach, grasp, lift, move, place, retreat."""

import itertools
from collections.abc import Iterator, Sequence

from goalreel.planners.kinematic.align import ClauseSpan, grasp_of
from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.events import reach_and_act
from goalreel.planners.kinematic.grasp_events import GraspEvent, grasp_events, object_name, push_clause
from goalreel.planners.kinematic.grasps import FailedGrasp
from goalreel.planners.kinematic.motion import ArmMotion

_LIFT = 0.1
"""Share of the height's range by which a lift, of three frames at least, raises the object."""


def phases(part: ClauseSpan, failed_grasps: Sequence[FailedGrasp], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part into phases. A part without a grasp or a touch is one phase: its motion is unknown."""
    grasp_list = grasp_events(part, failed_grasps, motion)
    spans: list[ClauseSpan] = []
    start = part.start
    for i, event in enumerate(grasp_list):
        end = part.end if i + 1 == len(grasp_list) else event.end
        spans += _spans(list(_marks(part.clause, event, start, end, motion)), end)
        start = end
    return spans or reach_and_act(part)


def _marks(
    clause: Clause, event: GraspEvent, start: int, end: int, motion: ArmMotion
) -> Iterator[tuple[Clause, int, GraspEvent | None]]:
    """Each phase's clause and first frame; `end` is after the event's own end where a retreat follows."""
    name = object_name(clause) or "the object"
    yield Clause(f"reach for {name}", f"the gripper is open at {name}", "act", name), start, None
    yield grasp_of(name), event.cycle.grasp, None
    if event.outcome == "failed" or clause.kind == "act":
        yield event.final_clause, event.start, event
    else:
        yield from _carry(event, name, motion)
    if end <= event.end:
        return
    push = motion.pushes(event.end, end)
    state = f"the gripper is away from {name}"
    end_state = f"{state}, {event.final_clause.state}" if event.outcome == "done" else state
    yield Clause(f"retreat from {name}", end_state, "act", name), event.end, None
    if push is not None:
        yield push_clause(clause), push, None


def _carry(
    event: GraspEvent, name: str, motion: ArmMotion
) -> Iterator[tuple[Clause, int, GraspEvent | None]]:
    start, release = event.start, event.cycle.release
    carry_end = event.end if release is None else min(release, event.end)
    up = motion.upright(start, carry_end, last=False)
    if motion.height is not None and up - start >= 3 and motion.rises(start, up, _LIFT) < up:
        yield Clause(f"lift {name}", f"{name} is lifted in the gripper", "act", name), start, None
    else:
        up = start
    yield Clause(f"move {name}", f"{name} is held in the gripper", "act", name), up, None
    if release is not None:
        down = motion.upright(up, carry_end, last=True)
        place = Clause(f"place {name}", f"{name} is released, {event.final_clause.state}", "act", name)
        yield place, down, None


def _spans(marks: Sequence[tuple[Clause, int, GraspEvent | None]], end: int) -> list[ClauseSpan]:
    """The span of each phase up to the next mark; a phase of a single frame goes to the next one."""
    starts = [min(mark, end) for _, mark, _ in marks]
    edges = [*(max(starts[: i + 1]) for i in range(len(starts))), end]
    for i in range(1, len(starts)):
        if edges[i] - edges[i - 1] == 1:
            edges[i] = edges[i - 1]
    if end - edges[-2] == 1 and edges[-2] > edges[0]:
        edges[-2] = end
    return [
        ClauseSpan(clause, a, b, (), event.outcome if event else "done")
        for (clause, _, event), (a, b) in zip(marks, itertools.pairwise(edges), strict=True)
        if b > a
    ]
