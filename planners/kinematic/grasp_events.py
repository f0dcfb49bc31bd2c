"""What each closing of the hand means in words: no more than the motion shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from goalreel.planners.kinematic.align import ClauseSpan, StepOutcome, pick_up, put_down
from goalreel.planners.kinematic.clauses import PRONOUN, Clause
from goalreel.planners.kinematic.grasps import Try
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle


@dataclass(frozen=True, slots=True)
class Contact:
    """A closing of the hand in a part, and what it means."""

    cycle: Cycle
    end: int
    """Where the hand has let go, or has the thing no more; the part's end if it never lets go."""
    reached: Clause
    """What is done when the hand has closed."""
    done: Clause
    """What is done at the end; with `failed`, what was tried."""
    outcome: StepOutcome = "done"

    @property
    def start(self) -> int:
        """The first frame after the hand has closed."""
        return self.cycle.held + 1


def contacts(part: ClauseSpan, tries: Sequence[Try], motion: ArmMotion) -> list[Contact]:
    """The closings in a part, in order: its grasps, and the tries that fall into it."""
    found = [
        Contact(
            cycle,
            part.end if cycle.let_go is None else min(cycle.let_go, part.end),
            _reached(part.clause, cycle, motion),
            _done(part.clause, cycle, k, len(part.cycles)),
        )
        for k, cycle in enumerate(part.cycles, 1)
    ]
    found += [
        Contact(t.cycle, min(t.end, part.end), _closed(part.clause), _in_vain(part.clause), "failed")
        for t in tries
        if part.start <= t.cycle.held < part.end
    ]
    return sorted(found, key=lambda c: c.cycle.held)


def thing(clause: Clause) -> str:
    """What the hand closes on, as far as the words say; "" where they do not."""
    if not clause.grasped or PRONOUN.match(clause.object) or (clause.kind == "many" and not clause.several):
        return ""
    return f"one of {clause.object}" if clause.kind == "many" else clause.object


def pushed(clause: Clause) -> Clause:
    """What an open hand does that goes back to what it let go."""
    name = thing(clause) or "something"
    return Clause(f"push {name}", f"{name} has been pushed", "act", name)


def _reached(clause: Clause, cycle: Cycle, motion: ArmMotion) -> Clause:
    if clause.kind == "act" or (clause.kind == "pick" and cycle.release is None) or motion.drags(cycle):
        return _closed(clause)
    return pick_up(thing(clause) or "something")


def _closed(clause: Clause) -> Clause:
    name = thing(clause)
    if not name:
        return Clause("close the hand", "the gripper is closed", "act")
    return Clause(f"grasp {name}", f"the gripper is closed on {name}", "act", name)


def _in_vain(clause: Clause) -> Clause:
    name = thing(clause) or "something"
    return Clause(f"try to pick up {name}", f"{name} is not in the gripper", "act", name)


def _done(clause: Clause, cycle: Cycle, k: int, times: int) -> Clause:
    """What the k-th of `times` grasps of a part does: the last what is asked for, if the hand lets go."""
    name = thing(clause) or "something"
    if clause.kind == "act":
        if times == 1:
            return clause
        counted = f"{clause.name} ({k} of {times})"
        return replace(clause, name=counted, state=clause.state if k == times else f'"{counted}" is done')
    if cycle.release is None and clause.kind != "pick":
        return Clause(f"carry {name}", f"{name} is held in the gripper", "act", name)
    if k < times or (clause.kind == "pick" and cycle.release is not None):
        return put_down(name)
    return clause
