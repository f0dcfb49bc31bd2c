"""Cut a sub-task into phases: reach, grasp, lift, move, place, retreat."""

import itertools
from dataclasses import replace

from goalreel.planners.kinematic.align import ClauseSpan, put_down
from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle

_STATES = {
    "reach": ("reach for {o}", "the gripper is open at {o}"),
    "grasp": ("grasp {o}", "the gripper is closed on {o}"),
    "lift": ("lift {o}", "{o} is lifted in the gripper"),
    "move": ("move {o}", "{o} is held near its goal"),
    "place": ("place {o}", "{o} is released, {done}"),
    "retreat": ("retreat from {o}", "the gripper is away from {o}, {done}"),
}


def phases(part: ClauseSpan, motion: ArmMotion) -> list[ClauseSpan]:
    """The phases of one part, covering it; without a height `lift` is part of `move`.

    A part without a grasp is cut at its pauses only: what the arm did between them cannot be known.
    """
    if not part.cycles:
        return _strokes(part, motion)
    cuts = [motion.between(a, b) for a, b in itertools.pairwise(part.cycles)]
    edges = [part.start, *cuts, part.end]
    found: list[ClauseSpan] = []
    for cycle, (start, end) in zip(part.cycles, itertools.pairwise(edges), strict=True):
        done = (
            part.clause
            if end == part.end
            else replace(part.clause, state=f"not yet done: {part.clause.name}")
        )
        found += _of_cycle(done, cycle, start, end, motion)
    return found


def _of_cycle(clause: Clause, cycle: Cycle, start: int, end: int, motion: ArmMotion) -> list[ClauseSpan]:
    release = end if cycle.release is None else min(cycle.release, end)
    free = end if cycle.free is None else min(cycle.free, end)
    lift = motion.rises(cycle.held, release)
    marks = {
        "reach": start,
        "grasp": motion.descends(start, cycle.grasp),
        "lift": lift,
        "move": motion.upright(lift, release, last=False) if motion.height is not None else lift,
        "place": motion.upright(lift, release, last=True) if cycle.release is not None else end,
        "retreat": motion.rises(free, end) if cycle.free is not None else end,
    }
    starts = [min(max(m, start), end) for m in marks.values()]
    edges = [*(max(starts[: i + 1]) for i in range(len(starts))), end]
    for i in range(1, len(starts)):  # a phase of one frame is no phase: the next one takes it
        if edges[i] - edges[i - 1] == 1:
            edges[i] = edges[i - 1]
    if end - edges[-2] == 1 and edges[-2] > start:
        edges[-2] = end
    spans = zip(marks, itertools.pairwise(edges), strict=True)
    return [_phase(clause, name, a, b, cycle) for name, (a, b) in spans if b > a]


def _phase(clause: Clause, phase: str, start: int, end: int, cycle: Cycle) -> ClauseSpan:
    name, state = _STATES[phase]
    if clause.kind == "pick" and phase in ("move", "place", "retreat"):
        clause = put_down(clause.object)
    words = {"o": clause.object or "the object", "done": clause.state}
    return ClauseSpan(
        Clause(name.format(**words), state.format(**words), clause.kind, clause.object), start, end, (cycle,)
    )


def _strokes(part: ClauseSpan, motion: ArmMotion) -> list[ClauseSpan]:
    cuts = sorted((a + b) // 2 for a, b in motion.pauses() if part.start < (a + b) // 2 < part.end)
    edges = [part.start, *cuts, part.end]
    total = len(edges) - 1
    if total == 1:
        return [part]
    clause = part.clause
    return [
        ClauseSpan(
            Clause(
                f"{clause.name} (motion {i + 1} of {total})",
                clause.state if i + 1 == total else f"{clause.state}: motion {i + 1} of {total} done",
                clause.kind,
                clause.object,
            ),
            a,
            b,
        )
        for i, (a, b) in enumerate(itertools.pairwise(edges))
    ]
