"""Find the contacts of the hand, with and without a grasp, and the one that carries out each clause.

An object keeps the fingers as far apart as it is wide: the hand rests on it, each time about as far closed.
An object that slipped is grasped again where it was, and the hand that lost it opens in the air. A hand that
pushes or presses changes no shape; the way tells: it goes to the thing, turns or stands there, and works on
without rising. An arm that misses its command tells that something is in its way, but not what was done.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.scene import find_changes
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.words import Means
from goalreel.types import Recording

_BRIEF = 1.0
"""Seconds up to which a hand may have held nothing."""
_STANDS = 0.4
"""Share of the arm's usual speed above which the hand closes while it passes by."""
_ALIKE = 0.15
"""Share of the hand's range by which the measured width of an object may vary."""
_RESTS = 0.5
"""Share of the time for which a hand with an object stays equally closed, at least."""
_TAKES_OFF = 0.1
"""Share of the height's range at which a rising hand has either lifted the object or lost it."""
_IN_THE_AIR = 1 / 3
"""Share of its rise that a hand goes down again, at least, before it sets an object down."""
_ELSEWHERE = 0.2
"""Share of the arm's extent beyond which two releases, or two grasps, are not at one place."""
_PREPARES = 0.1
"""Share of the arm's extent within which it has not yet gone anywhere."""


@dataclass(frozen=True, slots=True)
class FailedGrasp:
    """A grasp without success: contact begins at `cycle.contact`, and the object is lost at `end`."""

    cycle: Cycle
    end: int


def sort_grasps(clauses: Sequence[Clause], motion: ArmMotion) -> tuple[list[Cycle], list[FailedGrasp]]:
    """The cycles that moved an object, and the failed ones; closings on nothing are in neither."""
    cycles = list(motion.cycles)
    sure = [c for c in cycles if not _doubtful(c, motion)]
    if any(_rests(c, motion) for c in sure):
        sure = [c for c in sure if _rests(c, motion)]
    grasps = [c for c in cycles if c in sure or (_doubtful(c, motion) and _on_a_thing(c, sure, motion))]
    needed = sum(clause.kind != "act" or clause.picked for clause in clauses)
    if not needed:  # the words ask for no grasp: only the motion speaks for one
        grasps = [c for c in grasps if has_reached(c.grasp, motion) and not motion.closes_on_the_way(c)]
    grasps = sorted(grasps + _find_missed(grasps, needed, motion), key=lambda c: c.contact)
    empty: list[Cycle] = []
    for cycle in sorted(grasps, key=motion.carry_distance):
        if motion.failed(cycle) and (len(grasps) > needed or len(clauses) == 1):
            grasps.remove(cycle)
            empty.append(cycle)
    failed_grasps = [
        FailedGrasp(c, _opening(c, motion))
        for c in empty
        if _is_repeated(c, [*grasps, *empty], motion) or (not grasps and needed == len(clauses))
    ]
    if all(clause.kind in ("put", "pick") for clause in clauses):
        while len(grasps) > len(clauses) and (slipped := _find_slipped(grasps, motion)):
            grasps.remove(slipped)
            failed_grasps.append(FailedGrasp(slipped, _loss_frame(slipped, motion)))
    return grasps, sorted(failed_grasps, key=lambda t: t.cycle.contact)


def _find_missed(grasps: Sequence[Cycle], needed: int, motion: ArmMotion) -> list[Cycle]:
    """More grasps where the clauses need more than are sure: those that carried an object furthest."""
    others = [c for c in motion.cycles if c not in grasps and not motion.failed(c)]
    return sorted(others, key=motion.carry_distance, reverse=True)[: max(0, needed - len(grasps))]


def _opening(cycle: Cycle, motion: ArmMotion) -> int:
    return len(motion) if cycle.let_go is None else cycle.let_go


def _loss_frame(cycle: Cycle, motion: ArmMotion) -> int:
    """The frame at which the hand has risen without the object."""
    opening = _opening(cycle, motion)
    return min(opening, max(cycle.contact + 2, motion.rises(cycle.contact, opening, _TAKES_OFF)))


def _doubtful(cycle: Cycle, motion: ArmMotion) -> bool:
    """Whether a cycle is brief, or the last of several without an opening: the hand may only relax."""
    if cycle.release is None:
        return len(motion.cycles) > 1 or motion.failed(cycle)
    return cycle.release - cycle.contact <= _BRIEF * motion.fps


def _is_repeated(cycle: Cycle, others: Sequence[Cycle], motion: ArmMotion) -> bool:
    """Whether a later grasp is at the same place: then this closing was meant to be one."""
    places = [motion.path[c.contact] for c in others if c.contact > cycle.contact]
    contact_point = motion.path[cycle.contact]
    return any(np.linalg.norm(place - contact_point) <= _ELSEWHERE * motion.extent for place in places)


def _rests(cycle: Cycle, motion: ArmMotion) -> bool:
    closed = motion.closure(cycle)
    return bool((np.abs(closed - np.median(closed)) <= _ALIKE).mean() >= _RESTS)


def _passes(cycle: Cycle, motion: ArmMotion) -> bool:
    """Whether the arm does not stand while the hand closes."""
    usual = float(np.percentile(motion.speed, 80))
    return bool(motion.speed[cycle.grasp : cycle.contact + 1].mean() >= _STANDS * usual)


def has_reached(frame: int, motion: ArmMotion) -> bool:
    """Whether the arm has left the place where the recording begins: there it only prepares its hand."""
    away = np.linalg.norm(motion.path[frame] - motion.path[0])
    return bool(away > _PREPARES * motion.extent)


def _on_a_thing(cycle: Cycle, sure: Sequence[Cycle], motion: ArmMotion) -> bool:
    if _passes(cycle, motion):
        return False
    level = np.median(motion.closure(cycle))
    is_alike = [abs(level - np.median(motion.closure(other))) <= _ALIKE for other in sure]
    return any(is_alike) or not is_alike


def _find_slipped(cycles: Sequence[Cycle], motion: ArmMotion) -> Cycle | None:
    """The last cycle whose object stayed behind: it was grasped again where it was.

    The hand must have opened in the air, and not above the target of the next grasp: what is dropped into a
    box is no slip. Without a height there is no such evidence.
    """
    for cycle, after in reversed(list(itertools.pairwise(cycles))):
        if cycle.release is None or not in_the_air(cycle, motion):
            continue
        if motion.drives_between(cycle.contact, after.contact):
            continue
        start, end, next_contact = (motion.path[i] for i in (cycle.contact, cycle.release, after.contact))
        stayed = np.linalg.norm(next_contact - start) < np.linalg.norm(next_contact - end)
        if stayed and motion.releases_apart(cycle, after) > _ELSEWHERE * motion.extent:
            return cycle
    return None


def in_the_air(cycle: Cycle, motion: ArmMotion) -> bool:
    """Whether the hand opens up where it has risen to; False without a height."""
    if motion.height is None or cycle.release is None:
        return False
    heights = motion.height[cycle.contact : cycle.release + 1]
    rise = heights.max() - heights[0]
    return bool(
        rise > _TAKES_OFF * np.ptp(motion.height) and heights.max() - heights[-1] < _IN_THE_AIR * rise
    )


_REACH_S = 0.3
"""Seconds before and after a frame that give the directions of the way."""
_PRESS_S = 0.5
"""Seconds that a press takes, until the hand stops or turns back."""
_APART_S = 0.5
"""Seconds within which there is one turn or stop."""
_TURN = 0.5
"""Cosine of the least turn, 60 degrees."""
_STOPS = 0.3
"""Share of the arm's usual speed below which it stands."""
_SHORT = 0.02
"""Share of the arm's extent below which a way has no direction."""
_WAY = 0.1
"""Share of the arm's extent that a hand goes, at least, to push or to open something."""
_DRAG = 0.15
"""Share of the height's range that a hand which drags rises at most."""
_LOW = 1 / 3
"""Share of the heights at most at which the hand works."""
_STILL_DOWN = 0.18
"""Share of its last descent that a hand may still go down when it is at the thing."""
_RISEN = 0.05
"""Share of the height's range above which the arm has come from below, or goes up."""


@dataclass(frozen=True, slots=True)
class Touch:
    """A contact without a grasp."""

    start: int | None
    """The frame at which the hand is at the thing; None where it presses on in the direction it came from."""
    end: int
    """The frame from which it leaves; the end of the span if it does not."""

    def contains(self, frame: int) -> bool:
        """Whether the hand is at the thing in a frame."""
        return self.start is not None and self.start <= frame < self.end


def explain(
    clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion
) -> list[Cycle | Touch] | None:
    """One contact for each clause, in order, where some clause is an act and nothing else fits as well.

    A put, a pick or a fold needs a grasp, a pull a grasp or a touch, and a push or an opened door a touch, or
    a grasp that drags; None where there are more or fewer, and for what needs a tool.
    """
    if all(c.kind != "act" for c in clauses) or not all(map(_is_plain, clauses)):
        return None
    if len(grasps) == len(clauses) and all(map(_takes, clauses, grasps, itertools.repeat(motion))):
        pairs = zip(clauses, grasps, strict=True)
        return [g if c.grasps or c.pulls else _drag(g, motion) for c, g in pairs]
    if all(c.means == "press" for c in clauses):
        touches = find_presses(motion, 0, len(motion))
        squeezed = all(any(t.contains(g.contact) for t in touches) for g in grasps)
        return [*touches] if squeezed and len(touches) == len(clauses) else None
    if sum(clause.grasps for clause in clauses) != len(grasps):
        return None
    contacts: list[Cycle | Touch] = []
    rest, start = list(grasps), 0
    for is_grasp, run in itertools.groupby(clauses, lambda clause: clause.grasps):
        means: list[Means] = [clause.means for clause in run]
        if is_grasp:
            contacts += rest[: len(means)]
            start = len(motion) if (free := rest[len(means) - 1].free) is None else free
            del rest[: len(means)]
        else:
            touches = _find(means, motion, start, rest[0].grasp if rest else len(motion))
            if len(touches) != len(means):
                return None
            contacts += touches
    return contacts


def is_one_touch(clauses: Sequence[Clause], grasps: Sequence[Cycle]) -> bool:
    """Whether the words ask for one contact without a grasp, and the hand makes no grasp."""
    return (
        len(clauses) == 1
        and clauses[0].kind == "act"
        and not clauses[0].grasps
        and not grasps
        and _is_plain(clauses[0])
    )


def _find(means: Sequence[Means], motion: ArmMotion, start: int, end: int) -> list[Touch]:
    """Find the touches of clauses in a row; none where some are presses and others are not."""
    if "press" in means:
        return find_presses(motion, start, end) if set(means) == {"press"} else []
    return find_touches(motion, start, end, hooks="push" not in means)


def _takes(clause: Clause, grasp: Cycle, motion: ArmMotion) -> bool:
    """Whether a grasp may be what a clause asks for: a push that drags, too."""
    is_push = clause.means in ("push", "turn")
    return clause.grasps or clause.pulls or (is_push and motion.drags(grasp, _DRAG))


def _drag(grasp: Cycle, motion: ArmMotion) -> Touch:
    """A grasp as the touch of a hand that pushes along with its fingers around the thing."""
    return Touch(grasp.contact + 1, len(motion) if grasp.let_go is None else grasp.let_go)


def _is_plain(clause: Clause) -> bool:
    """Whether a rule has read one thing to do, without a tool."""
    is_one = clause.understood and not (clause.unordered or clause.several or clause.kind == "many")
    return is_one and clause.means != "tool" and " with " not in clause.name


def find_touches(motion: ArmMotion, start: int, end: int, hooks: bool = False) -> list[Touch]:
    """Find the touches within [start, end), which are apart where the arm rises in between.

    With `hooks` the hand comes down to a handle: it is also at it where it is first as low as it goes.
    """
    touches: list[Touch] = []
    first = last = None
    bends = find_bends(motion, start, end)
    if hooks and motion.height is not None and end > start:
        heights = motion.height[start:end]
        low = start + int((heights - heights.min() <= _RISEN * np.ptp(motion.height)).argmax())
        if low > start and all(abs(low - bend) > _APART_S * motion.fps for bend in bends):
            bends = sorted((*bends, low))
    for frame in bends:
        if _comes_from_below(motion, start, frame) or (first is not None and _rises(motion, first, frame)):
            if first is not None and works(motion, first, frame):
                touches.append(Touch(first, frame if last is None else last))
            first, last = frame if is_at_a_thing(motion, frame, start, end) else None, None
        elif frame == bends[-1] and _leaves(motion, frame, end):
            is_start = first is not None and works(motion, first, frame)
            return [*touches, Touch(first if is_start else None, frame)]
        elif first is not None:
            last = frame
        elif is_at_a_thing(motion, frame, start, end):
            first = frame
    return [*touches, Touch(first, end)] if first is not None and works(motion, first, end) else touches


def find_presses(motion: ArmMotion, start: int, end: int) -> list[Touch]:
    """Find where the hand presses within [start, end): it stops away from where it began, and turns back.

    A hand that stays where it stops presses if its command goes on. The contact begins before the stop.
    """
    usual = float(np.percentile(motion.speed, 80)) if len(motion) else 0.0
    turns = _turns(motion, _near(motion))
    stops = [
        frame
        for frame in find_bends(motion, start, end)
        if (motion.speed[frame] < _STOPS * usual or turns[frame] > 1)
        and not _comes_from_below(motion, start, frame)
    ]
    moving = start + np.flatnonzero(motion.speed[start:end] > _STOPS * usual)
    rest = int(moving[-1]) + 1 if len(moving) else end
    if end == len(motion) >= rest + _near(motion) and motion.strains(rest):
        stops.append(rest)
    touches: list[Touch] = []
    for stop in stops:
        place = motion.path[stop]
        if np.linalg.norm(place - motion.path[start]) <= _WAY * motion.extent:
            continue
        last, previous_end = end if stop == rest else stop, touches[-1].end if touches else start
        is_near = np.linalg.norm(place - motion.path[previous_end]) <= 2 * _WAY * motion.extent
        if touches and is_near and not _rises(motion, previous_end, stop):
            touches[-1] = Touch(touches[-1].start, last)
        else:
            touches.append(Touch(max(start, stop - round(_PRESS_S * motion.fps)), last))
    return touches


def works(motion: ArmMotion, start: int, end: int) -> bool:
    """Whether the hand goes some way from where it is at the thing."""
    away = np.linalg.norm(motion.path[start:end] - motion.path[start], axis=1)
    return bool(away.max(initial=0.0) > _WAY * motion.extent)


def find_bends(motion: ArmMotion, start: int, end: int) -> list[int]:
    """The frames at which the arm turns or stands on its way through [start, end), in order."""
    usual = float(np.percentile(motion.speed, 80)) if len(motion) else 0.0
    moving = start + np.flatnonzero(motion.speed[start:end] > _STOPS * usual)
    if motion.height is None or not len(moving):
        return []
    near = _near(motion)
    sharpness = np.maximum(_turns(motion, near), np.where(motion.speed < _STOPS * usual, 1.0, 0.0))
    frames: list[int] = []
    for frame in np.argsort(-sharpness, kind="stable"):
        is_inside = moving[0] + near <= frame < moving[-1] - 1
        if sharpness[frame] < 1 - _TURN:
            break
        if is_inside and all(abs(frame - other) > _APART_S * motion.fps for other in frames):
            frames.append(int(frame))
    return sorted(frames)


def _near(motion: ArmMotion) -> int:
    return max(2, round(_REACH_S * motion.fps))


def _turns(motion: ArmMotion, near: int) -> NDArray[np.float64]:
    """1 minus the cosine of the turn at each frame: 0 straight on, 1 for 90 degrees, 2 for a return."""
    turns = np.zeros(len(motion))
    if len(motion) <= 2 * near:
        return turns
    approach = motion.path[near:-near] - motion.path[: -2 * near]
    after = motion.path[2 * near :] - motion.path[near:-near]
    first, second = np.linalg.norm(approach, axis=1), np.linalg.norm(after, axis=1)
    is_long = np.minimum(first, second) > _SHORT * motion.extent
    product = np.where(is_long, first * second, 1.0)
    turns[near:-near] = np.where(is_long, 1 - (approach * after).sum(axis=1) / product, 0.0)
    return turns


def _comes_from_below(motion: ArmMotion, start: int, frame: int) -> bool:
    if motion.height is None:
        return False
    heights = motion.height[max(start, frame - round(_APART_S * motion.fps)) : frame + 1]
    return bool(motion.height[frame] - heights.min() > _RISEN * np.ptp(motion.height))


def _rises(motion: ArmMotion, start: int, end: int) -> bool:
    """Whether the arm goes up and down again between two frames."""
    if motion.height is None:
        return False
    heights = motion.height[start : end + 1]
    return bool(heights.max() - max(heights[0], heights[-1]) > 2 * _RISEN * np.ptp(motion.height))


def is_at_a_thing(motion: ArmMotion, frame: int, start: int, end: int) -> bool:
    """Whether the hand is as low as it goes to work, and no longer on its way down."""
    if motion.height is None:
        return False
    height, span = motion.height[frame], round(_APART_S * motion.fps)
    came = motion.height[max(0, frame - span) : frame + 1].max() - height
    goes = height - motion.height[frame : min(end, frame + span + 1)].min()
    comes_down = goes > max(_RISEN * float(np.ptp(motion.height)), _STILL_DOWN * came)
    return not comes_down and is_low(motion, frame, start, end)


def is_low(motion: ArmMotion, frame: int, start: int, end: int) -> bool:
    """Whether the hand is among the lowest places of [start, end)."""
    if motion.height is None:
        return False
    heights = motion.height[start:end]
    return bool(motion.height[frame] - heights.min() <= _LOW * np.ptp(heights))


def _leaves(motion: ArmMotion, frame: int, end: int) -> bool:
    """Whether the arm goes up from a frame until `end`, more than along."""
    if motion.height is None:
        return False
    rises = motion.height[frame:end] - motion.height[frame]
    top = frame + int((rises >= 0.9 * rises.max()).argmax())
    way = float(np.linalg.norm(motion.path[top] - motion.path[frame]))
    return bool(rises.max() > max(_RISEN * float(np.ptp(motion.height)), 0.5 * way))


_AGREE_S = 0.3
"""Seconds within which the arm is held back and its way turns or stops."""
_TAKEN_S = 0.5
"""Seconds after a grasp in which the thing itself may hold the arm back."""
_AWAY = 0.1
"""Share of the arm's extent by which a tool has been taken elsewhere."""
_TURNS_UP = 0.1
"""Share of the height's range by which a hand comes down and turns upwards again."""


def find_resisted_touch(clause: Clause, motion: ArmMotion) -> Touch | None:
    """Find the only touch of a recording where the hand is held back, and turns or stops at a thing there.

    None for a lift: its way turns upwards when it begins, held back or not.
    """
    start = None if clause.means == "lift" else motion.held_back()
    if start is None or not works(motion, start, len(motion)):
        return None
    at_a_thing = (is_at_a_thing(motion, bend, 0, len(motion)) for bend in _bends_at(start, motion))
    return Touch(start, len(motion)) if any(at_a_thing) else None


def find_tool_touch(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> Touch | None:
    """Find where the tool in the hand meets a thing, and is worked with: "pull the cup with the hook".

    There the arm is held back and its way turns or stops, elsewhere than where the tool was taken.
    """
    if len(clauses) != 1 or len(grasps) != 1 or not clauses[0].understood or not clauses[0].takes_tool:
        return None
    if motion.drives or motion.closes_on_the_way(grasps[0]):
        return None
    taken, end = grasps[0].contact, len(motion) if grasps[0].let_go is None else grasps[0].let_go
    start = motion.held_back(taken + round(_TAKEN_S * motion.fps))
    if start is None or not works(motion, start, end) or not _bends_at(start, motion):
        return None
    away = np.linalg.norm(motion.path[start] - motion.path[taken])
    return Touch(start, end) if away > _AWAY * motion.extent else None


def guess_touch(clause: Clause, motion: ArmMotion) -> Touch | None:
    """Guess when the only touch of a recording begins, where at most one sign shows it.

    A lift begins where the hand turns upwards, and others where the arm first does not follow its command.
    That is good enough to cut there, and not to say what was done.
    """
    start = _turn_upwards(motion) if clause.means == "lift" else None
    if start is None:
        start = motion.held_back()
    return None if start is None else Touch(start, len(motion))


def _bends_at(frame: int, motion: ArmMotion) -> list[int]:
    """The frames near another at which the arm turns or stands."""
    return [b for b in find_bends(motion, 0, len(motion)) if abs(b - frame) <= _AGREE_S * motion.fps]


def _turn_upwards(motion: ArmMotion) -> int | None:
    """The frame at which the hand has come down to a thing, and first turns upwards."""
    if motion.height is None:
        return None
    heights, least = motion.height, _TURNS_UP * float(np.ptp(motion.height))
    rises = heights - np.minimum.accumulate(heights) > least
    turn = int(heights[: int(rises.argmax())].argmin()) if rises.any() else 0
    came_down = heights[: turn + 1].max() - heights[turn] > least
    return turn if came_down and is_low(motion, turn, 0, len(motion)) else None


@dataclass(frozen=True)
class HandContacts:
    """The hand's grasps of an episode, and the contacts that carry out the clauses."""

    grasps: list[Cycle]
    failed_grasps: list[FailedGrasp]
    contacts: Sequence[Cycle | Touch] | None
    """One for each clause; None where no contact can be told apart for each."""
    explained: bool
    """The motion or the camera shows these contacts; otherwise they are guesses."""
    tool_touch: Touch | None = None
    """Where the tool of the only clause meets its thing, if that is seen."""


def find_contacts(
    clauses: Sequence[Clause], recording: Recording, motion: ArmMotion, camera: str | None
) -> HandContacts:
    """Find the contacts by the motion, or as `camera` shows them, or guess a single one.

    Raises:
        DatasetError: a picture of `camera` cannot be read.
    """
    grasps, failed_grasps = sort_grasps(clauses, motion)
    contacts = _explain(clauses, grasps, recording, motion, camera)
    explained = contacts is not None
    if not explained and is_one_touch(clauses, grasps):
        touch = guess_touch(clauses[0], motion)
        contacts = None if touch is None else [touch]
    if contacts is not None:
        grasps = [contact for contact in contacts if isinstance(contact, Cycle)]
    tool_touch = None if contacts else find_tool_touch(clauses, grasps, motion)
    return HandContacts(grasps, failed_grasps, contacts, explained, tool_touch)


def find_any_contacts(clause: Clause, motion: ArmMotion) -> HandContacts:
    """Find the contacts of a clause that no rule understands: its grasps, or the only touch."""
    grasps, failed_grasps = sort_grasps([clause], motion)
    touches = [] if grasps or failed_grasps else find_touches(motion, 0, len(motion))
    return HandContacts(grasps, failed_grasps, touches if len(touches) == 1 else None, False)


def _explain(
    clauses: Sequence[Clause],
    grasps: Sequence[Cycle],
    recording: Recording,
    motion: ArmMotion,
    camera: str | None,
) -> Sequence[Cycle | Touch] | None:
    """One contact for each clause, by the way, as the camera shows it, or by way and command together.

    None where nothing shows them.
    """
    contacts = explain(clauses, grasps, motion)
    if motion.drives or not is_one_touch(clauses, grasps) or _has_start(contacts):
        return contacts
    touch = None if camera is None else _see_touch(recording, camera, motion)
    touch = touch or find_resisted_touch(clauses[0], motion)
    return contacts if touch is None else [touch]


def _has_start(contacts: Sequence[Cycle | Touch] | None) -> bool:
    """Whether it is seen from the motion when the hand is at the thing."""
    return contacts is not None and all(isinstance(c, Cycle) or c.start is not None for c in contacts)


def _see_touch(recording: Recording, camera: str, motion: ArmMotion) -> Touch | None:
    """The touch with which the first thing begins to move that the arm is at; None where none is seen.

    Raises:
        DatasetError: the pictures cannot be read.
    """
    starts = [change.start for change in find_changes(recording, camera, motion) if change.at_arm]
    return Touch(starts[0], len(motion)) if starts else None
