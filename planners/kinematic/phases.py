"""Cut a sub-task into phases: reach, grasp, lift, move, place, retreat; none that cannot be told."""

import itertools
from collections.abc import Iterator, Sequence

from goalreel.planners.kinematic.align import ClauseSpan
from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.grasp_events import Contact, contacts, pushed, thing
from goalreel.planners.kinematic.grasps import Try
from goalreel.planners.kinematic.motion import ArmMotion

_LIFT = 0.1
"""Share of the height's range that a lift, of three frames at least, raises the thing."""


def phases(part: ClauseSpan, tries: Sequence[Try], motion: ArmMotion) -> list[ClauseSpan]:
    """The phases of one part, covering it. A part without a grasp is one: what the arm did is not known."""
    touched = contacts(part, tries, motion)
    found: list[ClauseSpan] = []
    start = part.start
    for i, contact in enumerate(touched):
        end = part.end if i + 1 == len(touched) else contact.end
        found += _spans(list(_marks(part.clause, contact, start, end, motion)), end)
        start = end
    return found or [part]


def _marks(
    clause: Clause, contact: Contact, start: int, end: int, motion: ArmMotion
) -> Iterator[tuple[Clause, int, Contact | None]]:
    """Each phase's words and first frame; `end` is beyond the contact's own where a retreat follows."""
    name = thing(clause) or "the object"
    yield Clause(f"reach for {name}", f"the gripper is open at {name}", "act", name), start, None
    grasp = Clause(f"grasp {name}", f"the gripper is closed on {name}", "act", name)
    yield grasp, contact.cycle.grasp, None
    if contact.outcome == "failed" or clause.kind == "act":
        yield contact.done, contact.start, contact
    else:
        yield from _carry(contact, name, motion)
    if end <= contact.end:
        return
    push = motion.pushes(contact.end, end)
    state = f"the gripper is away from {name}"
    done = f"{state}, {contact.done.state}" if contact.outcome == "done" else state
    yield Clause(f"retreat from {name}", done, "act", name), contact.end, None
    if push is not None:
        yield pushed(clause), push, None


def _carry(contact: Contact, name: str, motion: ArmMotion) -> Iterator[tuple[Clause, int, Contact | None]]:
    start, release = contact.start, contact.cycle.release
    still_held = contact.end if release is None else min(release, contact.end)
    up = motion.upright(start, still_held, last=False)
    if motion.height is not None and up - start >= 3 and motion.rises(start, up, _LIFT) < up:
        yield Clause(f"lift {name}", f"{name} is lifted in the gripper", "act", name), start, None
    else:
        up = start
    yield Clause(f"move {name}", f"{name} is held in the gripper", "act", name), up, None
    if release is not None:
        down = motion.upright(up, still_held, last=True)
        place = Clause(f"place {name}", f"{name} is released, {contact.done.state}", "act", name)
        yield place, down, None


def _spans(marks: Sequence[tuple[Clause, int, Contact | None]], end: int) -> list[ClauseSpan]:
    """Each phase up to the next one's mark; one of a single frame is none: the next one takes it."""
    starts = [min(mark, end) for _, mark, _ in marks]
    edges = [*(max(starts[: i + 1]) for i in range(len(starts))), end]
    for i in range(1, len(starts)):
        if edges[i] - edges[i - 1] == 1:
            edges[i] = edges[i - 1]
    if end - edges[-2] == 1 and edges[-2] > edges[0]:
        edges[-2] = end
    return [
        ClauseSpan(clause, a, b, (), contact.outcome if contact else "done")
        for (clause, _, contact), (a, b) in zip(marks, itertools.pairwise(edges), strict=True)
        if b > a
    ]
