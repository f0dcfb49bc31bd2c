"""Cut where contact changes: after the hand has closed on an object, and where it lets go.

The hand decides on the cuts; the instruction only names them. A retreat belongs to the part before it, but
between two grasps to the second.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from goalreel.planners.kinematic.align import ClauseSpan
from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.grasp_events import carry, grasp_events, push_clause
from goalreel.planners.kinematic.grasps import FailedGrasp
from goalreel.planners.kinematic.motion import ArmMotion


def cut_at_release(parts: Sequence[ClauseSpan]) -> list[ClauseSpan]:
    """Move the cut between two grasps from the end of the retreat to the frame of the release."""
    cut = list(parts)
    for i, (part, following) in enumerate(itertools.pairwise(parts)):
        end = part.touch.end if part.touch else part.cycles[-1].let_go if part.cycles else None
        if end and (following.cycles or following.touch):
            cut[i], cut[i + 1] = replace(cut[i], end=end), replace(following, start=end)
    return cut


def reach_and_act(part: ClauseSpan) -> list[ClauseSpan]:
    """Cut a part at the frame where the hand is at what it touches, if that is seen."""
    at = part.touch.start if part.touch else None
    if at is None or not part.start < at < part.end:
        return [part]
    thing = part.clause.object or "something"
    reach = Clause(f"reach for {thing}", f"the hand is at {thing}", "act", thing)
    return [replace(part, clause=reach, end=at, touch=None), replace(part, start=at)]


def _carry_and_act(piece: ClauseSpan) -> list[ClauseSpan]:
    """Cut what is done with a tool at the frame where it meets its thing, if that is seen."""
    at = piece.touch.start if piece.touch else None
    if at is None or not piece.start < at < piece.end:
        return [piece]
    return [replace(piece, clause=carry(piece.clause.object), end=at, touch=None), replace(piece, start=at)]


def leave_and_retreat(piece: ClauseSpan) -> list[ClauseSpan]:
    """Cut a piece where the hand lets go or leaves; what follows is a step of its own."""
    let_go = piece.cycles[-1].let_go if piece.cycles else None
    end = piece.touch.end if piece.touch else let_go
    if end is None or not piece.start < end < piece.end:
        return [piece]
    thing = piece.clause.object or "something"
    away = Clause(f"retreat from {thing}", f"the hand is away from {thing}", "act", thing)
    return [replace(piece, end=end), ClauseSpan(away, end, piece.end, note=piece.note)]


def events(part: ClauseSpan, failed_grasps: Sequence[FailedGrasp], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part at its grasp events or its touch; a part without any stays whole."""
    pieces: list[ClauseSpan] = []
    start = part.start
    grasp_list = grasp_events(part, failed_grasps, motion)
    for i, event in enumerate(grasp_list):
        last = i + 1 == len(grasp_list)
        push = motion.pushes(event.end, part.end) if last and event.outcome == "done" else None
        end = (push or part.end) if last else event.end
        cycles = (event.cycle,)
        pieces += [
            ClauseSpan(event.grasp_clause, start, event.start, cycles),
            *_carry_and_act(
                ClauseSpan(event.final_clause, event.start, end, cycles, event.outcome, part.touch)
            ),
        ]
        if push:
            pieces.append(ClauseSpan(push_clause(part.clause), push, part.end))
        start = end
    return [piece for piece in pieces if piece.end > piece.start] or reach_and_act(part)
