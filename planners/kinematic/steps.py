"""Cut an episode into steps: parts of clauses, grasp events, phases and drives.

The hand decides on the cuts; the instruction only names them. A retreat belongs to the part before it, but
between two grasps to the second.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goalreel.planners.kinematic.clauses import PRONOUN, Clause, Destination, whole
from goalreel.planners.kinematic.contacts import FailedGrasp, HandContacts, Touch
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle

_LET_GO = "the hand lets go of the thing, and the words only pick it up"
type StepOutcome = Literal["done", "failed"]


@dataclass(frozen=True, slots=True)
class ClauseSpan:
    """A clause on its frames [start, end), with the grasps that belong to it."""

    clause: Clause
    start: int
    end: int
    cycles: tuple[Cycle, ...] = ()
    outcome: StepOutcome = "done"
    touch: Touch | None = None
    """The contact without a grasp that belongs to it."""
    note: str | None = None
    """What else is known of it (`Step.auxiliary_text`)."""
    doubts: tuple[str, ...] = ()
    """Why its words may be untrue, where the motion says so of it alone."""


def align_contacts(clauses: Sequence[Clause], hand: HandContacts, motion: ArmMotion) -> list[ClauseSpan]:
    """Cut the episode into the parts of the clauses."""
    if hand.contacts:
        return _by_contact(clauses, hand.contacts, motion)
    parts = align(clauses, hand.grasps, motion)
    return [replace(part, touch=hand.tool_touch) for part in parts] if hand.tool_touch else parts


def align(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut [0, n) into one part for each clause, or several where it takes several grasps ("sort the blocks").

    `grasps` are those that moved an object. Where the motion shows fewer parts than clauses, the last
    clauses share a part.
    """
    if len(grasps) >= len(clauses):
        return _by_grasp(clauses, grasps, motion)
    return _by_pause(clauses, grasps, motion)


def _by_contact(
    clauses: Sequence[Clause], contacts: Sequence[Cycle | Touch], motion: ArmMotion
) -> list[ClauseSpan]:
    """Cut [0, n) into one part for each clause, with the contact that explains it (`contacts.explain`)."""
    cuts = [motion.retreat_end(_end(a, motion), _start(b)) for a, b in itertools.pairwise(contacts)]
    spans = itertools.pairwise([0, *cuts, len(motion)])
    return [
        ClauseSpan(clause, a, b, touch=contact)
        if isinstance(contact, Touch)
        else ClauseSpan(clause, a, b, (contact,))
        for clause, contact, (a, b) in zip(clauses, contacts, spans, strict=True)
        if b > a
    ]


def _start(contact: Cycle | Touch) -> int:
    if isinstance(contact, Cycle):
        return contact.grasp
    return contact.end if contact.start is None else contact.start


def _end(contact: Cycle | Touch, motion: ArmMotion) -> int:
    if isinstance(contact, Touch):
        return contact.end
    return len(motion) if contact.free is None else contact.free


def _by_grasp(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    groups = _groups(clauses, grasps, motion)
    owners = _owners(clauses, len(groups))
    cuts = [0, *(motion.between(a[-1], b[0]) for a, b in itertools.pairwise(groups)), len(motion)]
    spans = itertools.pairwise(cuts)
    return [
        ClauseSpan(c, a, b, tuple(g)) for c, g, (a, b) in zip(owners, groups, spans, strict=True) if b > a
    ]


def _groups(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[list[Cycle]]:
    """One group of grasps for each part. Surplus grasps join their neighbour, the nearest in space first.

    Those of "pull" or "fold" do not, as they may be repeated.
    """
    groups = [[g] for g in grasps]
    if any(c.kind == "many" for c in clauses) or all(c.kind == "act" for c in clauses):
        return groups
    while len(groups) > len(clauses):
        gaps = [motion.apart(a[-1], b[0]) for a, b in itertools.pairwise(groups)]
        i = gaps.index(min(gaps))
        groups[i : i + 2] = [groups[i] + groups[i + 1]]
    return groups


def _owners(clauses: Sequence[Clause], parts: int) -> list[Clause]:
    """A clause for every part.

    Surplus parts go in turn to the clauses about several objects, or else to those that may take many
    grasps ("clear the bowl"), or else to all.
    """
    times = [1] * len(clauses)
    takers = [i for i, c in enumerate(clauses) if c.kind == "many" and c.several]
    takers = takers or [i for i, c in enumerate(clauses) if c.kind == "many"] or list(range(len(clauses)))
    for k in range(parts - len(clauses)):
        times[takers[k % len(takers)]] += 1
    return [owner for c, n in zip(clauses, times, strict=True) for owner in _repeat(c, n)]


def _repeat(clause: Clause, times: int) -> list[Clause]:
    """Number the repetitions of a clause: the motion does not tell which object each is about.

    Words that no rule has read are never completed.
    """
    if times == 1 or not clause.understood:
        return [clause] * times
    return [
        replace(
            clause,
            name=f"{clause.name} ({k} of {times})",
            state=clause.state if k == times else f"{k} of {times} things done so that {clause.state}",
        )
        for k in range(1, times + 1)
    ]


def _by_pause(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    """Fewer grasps than clauses: cut after each grasp and at the longest pauses with an empty hand."""
    cuts = [motion.between(a, b) for a, b in itertools.pairwise(grasps)]
    for start, end in motion.pauses():
        middle = (start + end) // 2
        if len(cuts) == len(clauses) - 1:
            break
        if not any(motion.holds(g, middle) for g in grasps):
            cuts.append(middle)
    edges = [0, *sorted(set(cuts)), len(motion)]
    owners = [*clauses[: len(edges) - 2], _join(clauses[len(edges) - 2 :])]
    return [
        ClauseSpan(owner, a, b, tuple(g for g in grasps if a <= g.grasp < b))
        for owner, (a, b) in zip(owners, itertools.pairwise(edges), strict=True)
    ]


def _join(clauses: Sequence[Clause]) -> Clause:
    if len(clauses) == 1:
        return clauses[0]
    return Clause(
        name=", then ".join(c.name for c in clauses),
        state=" and ".join(c.state for c in clauses),
        kind="act",
        object=clauses[-1].object,
        means="tool",
    )


def split_pick(part: ClauseSpan, motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part after the grasp if the instruction names the picking up.

    The rest is a part of its own: the placing or, after a lone "pick up X", the putting down that the
    recording shows.
    """
    clause = part.clause
    if clause.kind == "many" and clause.name.startswith("pick up ") and part.cycles:
        return [part] if part.cycles[-1].release is None else [replace(part, doubts=(_LET_GO,))]
    if not part.cycles or not (clause.picked or clause.kind == "pick"):
        return [part]
    longest = max(part.cycles, key=motion.carry_distance)
    cut = longest.contact + 1
    if not part.start < cut < part.end or (clause.kind == "pick" and longest.release is None):
        return [part]
    grasp = (grasp_of if motion.drags(longest) else pick_up)(clause.object)
    return [
        replace(part, clause=grasp, end=cut),
        replace(part, clause=put_down(clause.object) if clause.kind == "pick" else clause, start=cut),
    ]


def grasp_of(thing: str) -> Clause:
    """The clause of closing the hand on an object, where it is not lifted."""
    return Clause(f"grasp {thing}", f"the gripper is closed on {thing}", "act", thing)


def pick_up(thing: str) -> Clause:
    """The clause of grasping an object."""
    return Clause(f"pick up {thing}", f"{thing} is held in the gripper", "pick", thing)


def put_down(thing: str) -> Clause:
    """The clause of putting an object down, which a recording shows after a lone "pick up X"."""
    return Clause(f"put down {thing}", f"{thing} has been put down", "put", thing)


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


UNNAMED_DRIVE = "the base drives, and the words do not say where"
"""The warning of a step in which the base drives on its own."""


def cut_drives(
    pieces: Sequence[ClauseSpan],
    drives: Sequence[tuple[int, int]],
    destinations: Sequence[Destination],
    instruction: str,
) -> list[ClauseSpan]:
    """Make each drive a step of its own; what comes before it belongs to the step that it follows.

    A drive within a step that holds something from before until after it stays part of that step.

    Args:
        pieces: the steps, without a gap.
        drives: those of the recording, [start, end).
        destinations: of the words, one for each drive; otherwise no drive gets a name.
        instruction: the words.
    """
    steps, drive_steps = list(pieces), list[ClauseSpan]()
    is_named = len(destinations) == len(drives)
    for i, (start, end) in enumerate(drives):
        k = next(k for k, step in enumerate(steps) if (start + end) // 2 < step.end)
        step = steps[k]
        start, end = max(start, step.start), min(end, step.end)
        drive = ClauseSpan(whole(instruction), start, end, doubts=(UNNAMED_DRIVE,))
        if is_named:
            place = destinations[i].place
            drive = ClauseSpan(
                Clause(f"drive to {place}", f"the robot is at {place}", "act", place), start, end
            )
        if step in drive_steps or _is_over(step, start):
            cut = [replace(step, end=start), replace(drive, end=step.end)]
        elif any(step.start <= cycle.contact < end for cycle in step.cycles):
            continue
        elif len(pieces) == 1 and not step.cycles and not step.touch:
            cut = [replace(step, end=start), drive, replace(step, start=end)]
        else:
            cut = [drive if k else replace(drive, start=step.start), replace(step, start=end)]
            if k:
                steps[k - 1] = replace(steps[k - 1], end=start)
        steps[k : k + 1] = [step for step in cut if step.end > step.start]
        drive_steps += (step for step in cut if step.clause == drive.clause)
    return steps


def _is_over(step: ClauseSpan, frame: int) -> bool:
    """Whether what a step does is done before a frame."""
    end = step.touch.end if step.touch else step.cycles[-1].let_go if step.cycles else None
    return end is not None and step.start < end <= frame
