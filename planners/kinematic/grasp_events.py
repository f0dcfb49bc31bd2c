"""Describe each closing of the hand, and no more than the motion shows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from goalreel.planners.kinematic.align import ClauseSpan, StepOutcome, grasp_of, pick_up, put_down
from goalreel.planners.kinematic.ambiguity import PRONOUN
from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.grasps import FailedGrasp
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle

_OF_ALL = {"all": "one of the", "both": "one of the two", "some": "one of the", "each": "one", "every": "one"}
_ALL = re.compile(rf"^({'|'.join(_OF_ALL)})(?: of)?(?: the)?(?= )", re.IGNORECASE)
"""What a hand takes at a time: one of all the cups, or of both, or one of "each cup"."""


@dataclass(frozen=True, slots=True)
class GraspEvent:
    """A closing of the hand within a part, and its clauses."""

    cycle: Cycle
    end: int
    """The frame at which the hand lets go or has lost the object; the part's end if it never lets go."""
    grasp_clause: Clause
    """The clause that is done when the hand has closed."""
    final_clause: Clause
    """The clause that is done at the end; with `failed`, the one that was attempted."""
    outcome: StepOutcome = "done"

    @property
    def start(self) -> int:
        """The first frame after the hand has closed."""
        return self.cycle.contact + 1


def grasp_events(
    part: ClauseSpan, failed_grasps: Sequence[FailedGrasp], motion: ArmMotion
) -> list[GraspEvent]:
    """The closings within a part, in order: its grasps and the failed grasps."""
    grasps = [
        GraspEvent(
            cycle,
            part.end if cycle.let_go is None else min(cycle.let_go, part.end),
            _reached(part.clause, cycle, motion),
            _done(part.clause, cycle, k, len(part.cycles)),
        )
        for k, cycle in enumerate(part.cycles, 1)
    ]
    grasps += [
        GraspEvent(t.cycle, min(t.end, part.end), _closed(part.clause), _in_vain(part.clause), "failed")
        for t in failed_grasps
        if part.start <= t.cycle.contact < part.end
    ]
    return sorted(grasps, key=lambda c: c.cycle.contact)


def object_name(clause: Clause) -> str:
    """The name of the object that the hand closes on; "" where the clause does not say."""
    if (
        not (clause.grasps or clause.pulls)
        or PRONOUN.match(clause.object)
        or (clause.kind == "many" and not clause.several)
    ):
        return ""
    if clause.kind != "many":
        return clause.object
    name = _ALL.sub(lambda match: _OF_ALL[match[1].lower()], clause.object)
    return name if _ALL.match(clause.object) else f"one of {name}"


def carry(thing: str) -> Clause:
    """The clause of a thing that stays in the hand."""
    return Clause(f"carry {thing}", f"{thing} is held in the gripper", "act", thing)


def push_clause(clause: Clause) -> Clause:
    """The clause of an open hand that returns to the object which it released."""
    name = object_name(clause) or "something"
    return Clause(f"push {name}", f"{name} has been pushed", "act", name)


def _reached(clause: Clause, cycle: Cycle, motion: ArmMotion) -> Clause:
    if clause.kind == "act" or (clause.kind == "pick" and cycle.release is None) or motion.drags(cycle):
        return _closed(clause)
    return pick_up(object_name(clause) or "something")


def _closed(clause: Clause) -> Clause:
    name = object_name(clause)
    if not name:
        return Clause("close the hand", "the gripper is closed", "act")
    if clause.pulls or clause.means in ("turn", "push"):  # a hook or a fist does that, too
        return Clause(f"reach for {name}", f"the hand is at {name}", "act", name)
    return grasp_of(name)


def _in_vain(clause: Clause) -> Clause:
    name = object_name(clause) or "something"
    return Clause(f"try to pick up {name}", f"{name} is not in the gripper", "act", name)


def _done(clause: Clause, cycle: Cycle, k: int, times: int) -> Clause:
    """The clause of the k-th of `times` grasps; that of the last is the part's own, if the hand lets go."""
    name = object_name(clause) or "something"
    if clause.kind == "act":
        if times == 1 or not clause.understood:
            return clause
        counted = f"{clause.name} ({k} of {times})"
        return replace(clause, name=counted, state=clause.state if k == times else f'"{counted}" is done')
    if cycle.release is None and clause.kind != "pick":
        return carry(name)
    is_pick = clause.kind == "pick" or clause.name.startswith("pick up ")
    if k < times or (is_pick and cycle.release is not None):
        return put_down(name)
    return clause
