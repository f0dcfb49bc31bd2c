"""Cut where contact changes: after the hand has closed on an object, and where it lets go.

The hand decides on the cuts; the instruction only names them. A retreat belongs to the part before it, but
between two grasps to the second.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from goalreel.planners.kinematic.align import ClauseSpan
from goalreel.planners.kinematic.grasp_events import grasp_events, push_clause
from goalreel.planners.kinematic.grasps import FailedGrasp
from goalreel.planners.kinematic.motion import ArmMotion


def cut_at_release(parts: Sequence[ClauseSpan]) -> list[ClauseSpan]:
    """Move the cut between two grasps from the end of the retreat to the frame of the release."""
    cut = list(parts)
    for i, (part, following) in enumerate(itertools.pairwise(parts)):
        if part.cycles and following.cycles and (let_go := part.cycles[-1].let_go):
            cut[i], cut[i + 1] = replace(cut[i], end=let_go), replace(following, start=let_go)
    return cut


def events(part: ClauseSpan, failed_grasps: Sequence[FailedGrasp], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part at its grasp events; a part without any stays whole."""
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
            ClauseSpan(event.final_clause, event.start, end, cycles, event.outcome),
        ]
        if push:
            pieces.append(ClauseSpan(push_clause(part.clause), push, part.end))
        start = end
    return [piece for piece in pieces if piece.end > piece.start] or [part]
