"""Cut where contact changes: after the hand has closed on a thing, and where it lets go.

The cuts come from the hand; the words only name them. A retreat belongs to what it follows, and after the
first of two grasps to the second.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from goalreel.planners.kinematic.align import ClauseSpan
from goalreel.planners.kinematic.grasp_events import contacts, pushed
from goalreel.planners.kinematic.grasps import Try
from goalreel.planners.kinematic.motion import ArmMotion


def at_contacts(parts: Sequence[ClauseSpan]) -> list[ClauseSpan]:
    """The parts, cut where the hand lets go instead of after the retreat, if a grasp follows."""
    cut = list(parts)
    for i, (part, after) in enumerate(itertools.pairwise(parts)):
        if part.cycles and after.cycles and (let_go := part.cycles[-1].let_go):
            cut[i], cut[i + 1] = replace(cut[i], end=let_go), replace(after, start=let_go)
    return cut


def events(part: ClauseSpan, tries: Sequence[Try], motion: ArmMotion) -> list[ClauseSpan]:
    """One part cut at its contacts, covering it; a part without any is itself."""
    found: list[ClauseSpan] = []
    start = part.start
    touched = contacts(part, tries, motion)
    for i, contact in enumerate(touched):
        last = i + 1 == len(touched)
        push = motion.pushes(contact.end, part.end) if last and contact.outcome == "done" else None
        end = (push or part.end) if last else contact.end
        own = (contact.cycle,)
        found += [
            ClauseSpan(contact.reached, start, contact.start, own),
            ClauseSpan(contact.done, contact.start, end, own, contact.outcome),
        ]
        if push:
            found.append(ClauseSpan(pushed(part.clause), push, part.end))
        start = end
    return [piece for piece in found if piece.end > piece.start] or [part]
