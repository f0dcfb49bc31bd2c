"""Cut an episode into steps: parts of clauses, grasp events and phases.

The hand decides on the cuts; the instruction only names them. A retreat belongs to the part before it, but
between two grasps to the second.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from goalreel.planners.kinematic.clauses import PRONOUN, Clause
from goalreel.planners.kinematic.contacts import FailedGrasp, HandContacts, Touch
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.words import VerbKind

_LET_GO = "the hand lets go of the thing, and the words only pick it up"
_SURE_S = 0.1  # seconds after the contact that is read until both fingers surely hold
_HELD_S = 0.5  # seconds of holding that a goal image is chosen from
_PRESSES_S = 0.3  # the same of a press, which is read off the stop half a second later
_LIFT = 0.1  # share of the height's range by which a lift, of three frames at least, raises the object
_OF_ALL = {"all": "one of the", "both": "one of the two", "some": "one of the", "each": "one", "every": "one"}
_ALL = re.compile(rf"^({'|'.join(_OF_ALL)})(?: of)?(?: the)?(?= )", re.IGNORECASE)
"""The part that a hand takes at a time: one of all the cups, or of both, or one of "each cup"."""

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
    warnings: tuple[str, ...] = ()
    """Reasons why its words may be untrue, where the motion says so of it alone."""


def align_contacts(clauses: Sequence[Clause], hand: HandContacts, motion: ArmMotion) -> list[ClauseSpan]:
    """Cut the episode into one part for each clause, or several where it takes several grasps.

    Where the motion shows fewer parts than clauses, the last clauses share a part.
    """
    if hand.contacts:
        return _by_contact(clauses, hand.contacts, motion)
    by = _by_grasp if len(hand.grasps) >= len(clauses) else _by_pause
    parts = by(clauses, hand.grasps, motion)
    return [replace(part, touch=hand.tool_touch) for part in parts] if hand.tool_touch else parts


def _by_contact(
    clauses: Sequence[Clause], contacts: Sequence[Cycle | Touch], motion: ArmMotion
) -> list[ClauseSpan]:
    """Cut between the contacts, one for each clause."""
    parts, start = list[ClauseSpan](), 0
    for clause, contact, after in itertools.zip_longest(clauses, contacts, contacts[1:]):
        end = motion.free(contact) if isinstance(contact, Cycle) else contact.end
        end = len(motion) if after is None else motion.retreat_end(end, _begins(after))
        cycles, touch = ((contact,), None) if isinstance(contact, Cycle) else ((), contact)
        if end > start:
            parts.append(ClauseSpan(clause, start, end, cycles, touch=touch))
        start = end
    return parts


def after_try(part: ClauseSpan, touch: Touch) -> list[ClauseSpan]:
    """Cut the only part after a touch in vain, which is a part of its own."""
    clause = part.clause
    attempt = Clause(f"try to {clause.name}", f'"{clause.name}" is not done', "act", clause.object)
    attempted = replace(part, clause=attempt, end=touch.end, cycles=(), outcome="failed", touch=touch)
    return [attempted, replace(part, start=touch.end)]


def _begins(contact: Cycle | Touch) -> int:
    if isinstance(contact, Cycle):
        return contact.grasp
    return contact.end if contact.start is None else contact.start


def _by_grasp(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut between grasps.

    Surplus ones join their neighbour, the nearest in space first. Those of "pull" or "fold" do not, as they
    may be repeated.
    """
    groups = [[g] for g in grasps]
    if all(c.kind != "many" for c in clauses) and any(c.kind != "act" for c in clauses):
        while len(groups) > len(clauses):
            gaps = [motion.apart(a[-1], b[0]) for a, b in itertools.pairwise(groups)]
            i = gaps.index(min(gaps))
            groups[i : i + 2] = [groups[i] + groups[i + 1]]
    owners = _owners(clauses, len(groups))
    cuts = [0, *(motion.between(a[-1], b[0]) for a, b in itertools.pairwise(groups)), len(motion)]
    spans = zip(owners, groups, itertools.pairwise(cuts), strict=True)
    return [ClauseSpan(c, a, b, tuple(g)) for c, g, (a, b) in spans if b > a]


def _owners(clauses: Sequence[Clause], parts: int) -> list[Clause]:
    """A clause for every part, numbered where it has several; words that no rule has read stay as they are.

    Surplus parts go in turn to the clauses about several objects, or else to those that may take many
    grasps ("clear the bowl"), or else to all. The motion does not tell which object each is about.
    """
    many = [i for i, c in enumerate(clauses) if c.kind == "many"]
    takers = [i for i in many if clauses[i].several] or many or list(range(len(clauses)))
    times = [1] * len(clauses)
    for k in range(parts - len(clauses)):
        times[takers[k % len(takers)]] += 1
    owners: list[Clause] = []
    for clause, n in zip(clauses, times, strict=True):
        for k in range(1, n + 1):
            state = clause.state if k == n else f"{k} of {n} things done so that {clause.state}"
            numbered = replace(clause, name=f"{clause.name} ({k} of {n})", state=state)
            owners.append(numbered if n > 1 and clause.understood else clause)
    return owners


def _by_pause(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> list[ClauseSpan]:
    """Fewer grasps than clauses: cut after each grasp and at the longest pauses with an empty hand."""
    cuts = [motion.between(a, b) for a, b in itertools.pairwise(grasps)]
    middles = [(start + end) // 2 for start, end in motion.pauses()]
    empty = [middle for middle in middles if not any(motion.holds(g, middle) for g in grasps)]
    cuts += empty[: len(clauses) - 1 - len(cuts)]
    edges = [0, *sorted(set(cuts)), len(motion)]
    last = clauses[len(edges) - 2 :]
    shared = Clause(
        name=", then ".join(c.name for c in last),
        state=" and ".join(c.state for c in last),
        kind="act",
        object=last[-1].object,
        means="tool",
    )
    owners = [*clauses[: len(edges) - 2], last[0] if len(last) == 1 else shared]
    return [
        ClauseSpan(owner, a, b, tuple(g for g in grasps if a <= g.grasp < b))
        for owner, (a, b) in zip(owners, itertools.pairwise(edges), strict=True)
    ]


def split_pick(part: ClauseSpan, motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part after the grasp if the instruction names the picking up.

    The rest is a part of its own: the placing or, after a lone "pick up X", the putting down that the
    recording shows.
    """
    clause = part.clause
    if clause.kind == "put" and part.cycles and part.cycles[-1].release is None:
        part = replace(part, clause=_act("carry", clause.object))
    if clause.kind == "many" and clause.name.startswith("pick up ") and part.cycles:
        return [part] if part.cycles[-1].release is None else [replace(part, warnings=(_LET_GO,))]
    if not part.cycles or not (clause.picked or clause.kind == "pick"):
        return [part]
    longest = max(part.cycles, key=motion.carry_distance)
    cut = longest.contact + 1
    if not part.start < cut < part.end or (clause.kind == "pick" and longest.release is None):
        return [part]
    grasp = _act("grasp" if motion.drags(longest) else "pick up", clause.object)
    rest = _act("put down", clause.object) if clause.kind == "pick" else part.clause
    return [replace(part, clause=grasp, end=cut), replace(part, clause=rest, start=cut)]


_ACTS: dict[str, tuple[str, VerbKind]] = {
    "grasp": ("the gripper is closed on {}", "act"),
    "pick up": ("{} is held in the gripper", "pick"),
    "put down": ("{} has been put down", "put"),
    "carry": ("{} is held in the gripper", "act"),
    "reach for": ("the hand is at {}", "act"),
    "retreat from": ("the hand is away from {}", "act"),
    "try to pick up": ("{} is not in the gripper", "act"),
}
"""Acts of the hand or the robot beside the words, each with the state that it leads to."""


def _act(verb: str, thing: str) -> Clause:
    state, kind = _ACTS[verb]
    thing = thing or "something"
    return Clause(f"{verb} {thing}", state.format(thing), kind, thing)


def _object_name(clause: Clause) -> str:
    """The name of the object that the hand closes on; "" where the clause does not say."""
    if not (clause.grasps or clause.pulls) or PRONOUN.match(clause.object):
        return ""
    if clause.kind != "many":
        return clause.object
    name = _ALL.sub(lambda match: _OF_ALL[match[1].lower()], clause.object)
    return "" if not clause.several else name if name != clause.object else f"one of {name}"


@dataclass(frozen=True, slots=True)
class _GraspEvent:
    """A closing of the hand within a part."""

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


def _grasp_events(
    part: ClauseSpan, failed_grasps: Sequence[FailedGrasp], motion: ArmMotion
) -> list[_GraspEvent]:
    """The closings within a part, in order: its grasps and the failed grasps."""
    clause, name, events = part.clause, _object_name(part.clause), list[_GraspEvent]()
    is_hook = clause.pulls or clause.means in ("turn", "push")  # a hook or a fist does that, too
    closed = _act("reach for" if is_hook else "grasp", name)
    if not name:
        closed = Clause("close the hand", "the gripper is closed", "act")
    for k, cycle in enumerate(part.cycles, 1):
        stays = clause.kind == "act" or (clause.kind == "pick" and cycle.release is None)
        stays = stays and not any(cycle.contact <= h.at < motion.release(cycle) for h in motion.handovers)
        grasp = closed if stays or motion.drags(cycle) else _act("pick up", name)
        end = min(motion.let_go(cycle), part.end)
        events.append(_GraspEvent(cycle, end, grasp, _done(clause, cycle, k, len(part.cycles))))
    attempt = _act("try to pick up", name)
    events += [
        _GraspEvent(failed.cycle, min(failed.end, part.end), closed, attempt, "failed")
        for failed in failed_grasps
        if part.start <= failed.cycle.contact < part.end
    ]
    return sorted(events, key=lambda event: event.cycle.contact)


def _done(clause: Clause, cycle: Cycle, k: int, times: int) -> Clause:
    """The clause of the k-th of `times` grasps; that of the last is the part's own, if the hand lets go."""
    name, counted = _object_name(clause), f"{clause.name} ({k} of {times})"
    if clause.kind == "act" and (times == 1 or not clause.understood):
        return clause
    if clause.kind == "act":
        return replace(clause, name=counted, state=clause.state if k == times else f'"{counted}" is done')
    if cycle.release is None and clause.kind != "pick":
        return _act("carry", name)
    is_pick = clause.kind == "pick" or clause.name.startswith("pick up ")
    return _act("put down", name) if k < times or (is_pick and cycle.release is not None) else clause


def cut_at_release(parts: Sequence[ClauseSpan]) -> list[ClauseSpan]:
    """Move the cut between two grasps from the end of the retreat to the frame of the release."""
    cut = list(parts)
    for i, (part, following) in enumerate(itertools.pairwise(parts)):
        end = _end(part)
        if end and (following.cycles or following.touch):
            cut[i], cut[i + 1] = replace(cut[i], end=end), replace(following, start=end)
    return cut


def _end(part: ClauseSpan) -> int | None:
    """The frame at which the hand leaves its thing or lets it go, if it does."""
    return part.touch.end if part.touch else part.cycles[-1].let_go if part.cycles else None


def _cut_at_touch(piece: ClauseSpan, approach: Clause) -> list[ClauseSpan]:
    """Cut a piece at the frame where the hand, or its tool, is at what it touches, if that is seen."""
    at = piece.touch.start if piece.touch else None
    if at is None or not piece.start < at < piece.end:
        return [piece]
    reach = replace(piece, clause=approach, end=at, touch=None, outcome="done")
    return [reach, replace(piece, start=at)]


def leave_and_retreat(piece: ClauseSpan) -> list[ClauseSpan]:
    """Cut a piece where the hand lets go or leaves; what follows is a step of its own."""
    end = _end(piece)
    if end is None or not piece.start < end < piece.end:
        return [piece]
    away = _act("retreat from", piece.clause.object)
    return [replace(piece, end=end), ClauseSpan(away, end, piece.end, piece.cycles)]


def cut_events(part: ClauseSpan, failed_grasps: Sequence[FailedGrasp], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part at its grasp events or its touch; a part without any stays whole."""
    pieces, start = list[ClauseSpan](), part.start
    events = _grasp_events(part, failed_grasps, motion)
    for event in events:
        end = part.end if event is events[-1] else event.end
        pieces.append(ClauseSpan(event.grasp_clause, start, event.start, (event.cycle,)))
        act = ClauseSpan(event.final_clause, event.start, end, (event.cycle,), event.outcome, part.touch)
        pieces += _cut_at_touch(act, _act("carry", act.clause.object))
        start = end
    pieces = [piece for piece in pieces if piece.end > piece.start]
    return pieces or _cut_at_touch(part, _act("reach for", part.clause.object))


def cut_handovers(
    pieces: Sequence[ClauseSpan], motion: ArmMotion, clauses: Sequence[Clause]
) -> list[ClauseSpan]:
    """Cut where a hand lets go of what the other has taken; each piece keeps the grasp of its own hand.

    The pieces until there have the handovers' own `clauses`, if there is one for each. A piece begins where
    the one before ends: of two hands, one may close before the other has let go.
    """
    names = clauses if len(clauses) == len(motion.handovers) else [None] * len(motion.handovers)
    for handover, name in zip(motion.handovers, names, strict=True):
        cut = list[ClauseSpan]()
        for piece in pieces:
            before = after = piece.cycles
            for i, cycle in enumerate(piece.cycles):
                if cycle.contact <= handover.at < motion.release(cycle):
                    taken = handover.taken
                    before = (*piece.cycles[:i], handover.given)
                    moved = replace(cycle, grasp=taken.grasp, contact=taken.contact)
                    after = (moved, *piece.cycles[i + 1 :])
            if piece.start < handover.at < piece.end:
                clause = piece.clause
                cut.append(replace(piece, clause=name or clause, end=handover.at, cycles=before))
                if name and clause.kind == "pick":
                    clause = _act("carry", clause.object)
                cut.append(replace(piece, clause=clause, start=handover.at, cycles=after))
            else:
                cut.append(replace(piece, cycles=before if piece.end <= handover.at else after))
        pieces = cut
    ends = itertools.accumulate((piece.end for piece in pieces), max, initial=0)
    in_order = [replace(piece, start=max(piece.start, end)) for piece, end in zip(pieces, ends, strict=False)]
    return [piece for piece in in_order if piece.end > piece.start]


def goal_frames(pieces: Sequence[ClauseSpan], motion: ArmMotion) -> Iterator[tuple[int, int] | None]:
    """Yield the frames [first, end) in which what each piece claims is true; None: its last ones.

    - A thing is taken: half a second from where the arm goes on with it, or from contact, until it opens.
    - It is put down, or tried in vain: a second from where the hand is open, until the next contact.
    - It is handed over: half a second from where the giving hand is open, until the other one opens.
    - It is pushed, pressed or turned: a second from where the hand leaves it, until the next contact.
    - The hand is at it: a moment just after that is noticed.

    The last piece of a recording, a carrying and a retreat are true at their own end.
    """
    for piece, after in itertools.zip_longest(pieces, pieces[1:]):
        first, end, seconds = _claim_span(piece, after, motion)
        if first >= len(motion):
            yield None
        else:
            yield first, max(min(first + round(seconds * motion.fps), end), first + 1)


def _claim_span(piece: ClauseSpan, after: ClauseSpan | None, motion: ArmMotion) -> tuple[int, int, float]:
    """Find where the claim of a piece begins to hold and ends, and how many seconds of it are of use."""
    handover = next((h for h in motion.handovers if h.at == piece.end), None)
    if handover:
        free, release = handover.given.free, motion.release(handover.taken)
        return min(piece.end if free is None else free, release - 1), release, _HELD_S
    cycle = next((c for c in motion.cycles if piece.end in (c.contact + 1, c.let_go)), None)
    if cycle and piece.end == cycle.contact + 1:
        return _held_from(cycle, after, motion), motion.release(cycle), _HELD_S
    contacts = [c.grasp for c in motion.cycles if c.grasp >= piece.end]
    next_touch = after.touch if after else None
    if after and next_touch and next_touch.start is not None:
        if next_touch.start == piece.end:
            wait = _PRESSES_S if after.clause.means == "press" else _SURE_S
            return min(piece.end + round(wait * motion.fps), next_touch.end - 1), next_touch.end, 0.2
        contacts.append(next_touch.start)
    is_left = piece.touch and piece.touch.end == piece.end
    left = motion.free(cycle) if cycle else piece.end if is_left else len(motion)
    return left, min(contacts, default=len(motion)), 1.0


def _held_from(cycle: Cycle, after: ClauseSpan | None, motion: ArmMotion) -> int:
    """The frame from which a thing is surely held: where the arm goes on with it, if it does in this step."""
    moves, opens = motion.goes_on(cycle), motion.release(cycle) - round(_HELD_S * motion.fps)
    sure = max(cycle.contact, min(motion.settles(cycle), opens)) + max(1, round(_SURE_S * motion.fps))
    return sure if moves is None or after is None or moves >= after.end else max(sure, min(moves, opens))


def cut_phases(part: ClauseSpan, failed_grasps: Sequence[FailedGrasp], motion: ArmMotion) -> list[ClauseSpan]:
    """Cut a part into phases: reach, grasp, lift, move, place, retreat.

    A part without a grasp or a touch is one phase: its motion is unknown.
    """
    spans, start = list[ClauseSpan](), part.start
    events = _grasp_events(part, failed_grasps, motion)
    for event in events:
        end = part.end if event is events[-1] else event.end
        spans += _phase_spans(list(_phase_starts(part.clause, event, start, end, motion)), end)
        start = end
    return spans or _cut_at_touch(part, _act("reach for", part.clause.object))


def _phase_starts(
    clause: Clause, event: _GraspEvent, start: int, end: int, motion: ArmMotion
) -> Iterator[tuple[Clause, int, StepOutcome]]:
    """Each phase's clause and first frame; `end` is after the event's own end where a retreat follows."""
    name = _object_name(clause) or "the object"

    def act(words: str, state: str) -> Clause:
        return Clause(words, state, "act", name)

    yield act(f"reach for {name}", f"the gripper is open at {name}"), start, "done"
    yield _act("grasp", name), event.cycle.grasp, "done"
    if event.outcome == "failed" or clause.kind == "act":
        yield event.final_clause, event.start, event.outcome
    else:
        carry_end = min(motion.release(event.cycle), event.end)
        up = motion.upright(event.start, carry_end, last=False)
        is_lift = motion.height is not None and up - event.start >= 3
        if is_lift and motion.rises(event.start, up, _LIFT) < up:
            yield act(f"lift {name}", f"{name} is lifted in the gripper"), event.start, "done"
        else:
            up = event.start
        yield act(f"move {name}", f"{name} is held in the gripper"), up, "done"
        if event.cycle.release is not None:
            down = motion.upright(up, carry_end, last=True)
            yield act(f"place {name}", f"{name} is released, {event.final_clause.state}"), down, "done"
    if end > event.end:
        state = f"the gripper is away from {name}"
        state = f"{state}, {event.final_clause.state}" if event.outcome == "done" else state
        yield act(f"retreat from {name}", state), event.end, "done"


def _phase_spans(phases: Sequence[tuple[Clause, int, StepOutcome]], end: int) -> list[ClauseSpan]:
    """The span of each phase up to the next; a phase of a single frame goes to the next one."""
    edges = [*itertools.accumulate((min(start, end) for _, start, _ in phases), max), end]
    for i in range(1, len(phases)):
        if edges[i] - edges[i - 1] == 1:
            edges[i] = edges[i - 1]
    if end - edges[-2] == 1 and edges[-2] > edges[0]:
        edges[-2] = end
    return [
        ClauseSpan(clause, a, b, (), outcome)
        for (clause, _, outcome), (a, b) in zip(phases, itertools.pairwise(edges), strict=True)
        if b > a
    ]
