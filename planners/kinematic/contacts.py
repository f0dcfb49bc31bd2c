"""Find the contacts of the hand, with and without a grasp, and the one that carries out each clause.

An object keeps the fingers as far apart as it is wide: the hand rests on it, each time about as far closed.
An object that slipped is grasped again where it was, and the hand that lost it opens in the air.

A hand that pushes or presses changes no shape; its way tells: it goes to the thing, turns or stands there,
and works on without rising. Without a height nothing of it is seen. An arm that misses its command tells that
something is in its way, but not what was done; where its way turns there as well, two signs agree.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic import scene, words
from goalreel.planners.kinematic.clauses import Clause
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.types import Recording

# Of a grasp.
_BRIEF_S = 1.0  # up to which a hand may have held nothing
_PASSES = 0.4  # share of the arm's usual speed above which the hand closes while it passes by
_ALIKE = 0.15  # share of the hand's range by which the measured width of an object may vary
_RESTS = 0.5  # share of the time for which a hand with an object stays equally closed, at least
_TAKES_OFF = 0.1  # share of the height's range by which a hand that lifts an object rises
_LOST = 0.15  # the same of a hand that has lost it
_IN_THE_AIR = 1 / 3  # share of its rise that a hand goes down again, at least, before it sets an object down
_ELSEWHERE = 0.2  # share of the arm's extent beyond which two releases, or two grasps, are not at one place
_CLEARLY = 0.85  # of two distances the lesser is at most this share of the other
_PREPARES = 0.1  # share of the arm's extent within which it has not yet gone anywhere
# Of a touch.
_REACH_S = 0.3  # before and after a frame, for the directions of the way; within it two signs agree
_PRESS_S = 0.5  # until the hand of a press stops or turns back
_APART_S = 0.5  # within which there is one turn or stop, and a thing may hold back the arm that takes it
_TURN = 0.5  # cosine of the least turn, 60 degrees
_STOPS = 0.3  # share of the arm's usual speed below which it stands
_SHORT = 0.02  # share of the arm's extent below which a way has no direction
_WAY = 0.1  # share of the arm's extent that a hand goes, at least, to push or open something, or with a tool
_DRAG = 0.15  # share of the height's range that a hand which drags rises at most
_LOW = 1 / 3  # share of the heights at most at which the hand works
_STILL_DOWN = 0.18  # share of its last descent that a hand may still go down when it is at the thing
_DOWNWARDS = 0.9  # share of its way by which a hand sinks that is still on its way down
_RISEN = 0.05  # share of the height's range above which the arm has come from below, or goes up


@dataclass(frozen=True, slots=True)
class FailedGrasp:
    """A grasp without success, whose object is lost at `end`."""

    cycle: Cycle
    end: int


@dataclass(frozen=True, slots=True)
class Touch:
    """A contact without a grasp."""

    start: int | None
    """The frame at which the hand is at the thing; None where it presses on in the direction it came from."""
    end: int
    """The frame from which it leaves; the end of the span if it does not."""


@dataclass(frozen=True)
class HandContacts:
    """The hand's grasps of an episode, and the contacts that carry out the clauses."""

    grasps: list[Cycle]
    failed_grasps: list[FailedGrasp]
    contacts: Sequence[Cycle | Touch] | None
    """One for each clause; None where no contact can be told apart for each."""
    explained: bool
    """The motion or the camera shows these contacts; otherwise they are guesses."""
    earlier: Touch | None = None
    """A touch in vain, with an open hand, before it grasps the thing of the only clause."""
    tool_touch: Touch | None = None
    """The contact at which the tool of the only clause meets its thing, if that is seen."""


def find_contacts(
    clauses: Sequence[Clause], recording: Recording, motion: ArmMotion, camera: str | None
) -> HandContacts:
    """Find the contacts by the motion, or as `camera` shows them, or guess a single one.

    Raises:
        DatasetError: a picture of `camera` cannot be read.
    """
    grasps, failed_grasps = sort_grasps(clauses, motion)
    contacts = _explain(clauses, grasps, motion)
    only = clauses[0] if len(clauses) == 1 and not grasps else None
    if only and (only.kind != "act" or only.grasps or not _is_plain(only)):
        only = None
    is_seen = contacts is not None and all(isinstance(c, Cycle) or c.start is not None for c in contacts)
    if only and not is_seen and not motion.drives:
        start = scene.see_touch(recording, camera, motion) if camera else None
        touch = _find_turn(only, motion) if start is None else Touch(start, len(motion))
        contacts = contacts if touch is None else [touch]
    if only and is_seen and contacts and isinstance(contacts[0], Touch) and only.means == "push":
        contacts = [_delay(contacts[0], recording, motion, camera)]
    explained = contacts is not None
    if only and not explained and (held := motion.held_back()) is not None:
        contacts = [Touch(held, len(motion))]  # good enough to cut there, and not to say what was done
    if contacts is not None:
        grasps = [contact for contact in contacts if isinstance(contact, Cycle)]
    tool_touch = None if contacts else _find_tool_touch(clauses, grasps, motion)
    earlier = None if failed_grasps else _find_earlier(clauses, grasps, motion)
    return HandContacts(grasps, failed_grasps, contacts, explained, earlier, tool_touch)


def _delay(touch: Touch, recording: Recording, motion: ArmMotion, camera: str | None) -> Touch:
    """Let a push begin where a picture shows that the thing moves: the hand may come down far from it."""
    seen = scene.see_touch(recording, camera, motion) if camera else None
    if seen is None or touch.start is None:
        return touch
    is_later = touch.start + math.ceil(_APART_S * motion.fps) < seen < touch.end
    return Touch(seen, touch.end) if is_later else touch


def find_any_contacts(clause: Clause, motion: ArmMotion) -> HandContacts:
    """Find the contacts of a clause that no rule understands: its grasps, or the only touch."""
    grasps, failed_grasps = sort_grasps([clause], motion)
    touches = [] if grasps or failed_grasps else _find_touches(motion, 0, len(motion))
    return HandContacts(grasps, failed_grasps, touches if len(touches) == 1 else None, False)


def sort_grasps(clauses: Sequence[Clause], motion: ArmMotion) -> tuple[list[Cycle], list[FailedGrasp]]:
    """The cycles that moved an object, and the failed ones; closings on nothing are in neither."""
    cycles = motion.cycles
    sure = [c for c in cycles if not _doubtful(c, motion)]
    sure = [c for c in sure if _rests(c, motion)] or sure
    grasps = [c for c in cycles if c in sure or (_doubtful(c, motion) and _on_a_thing(c, sure, motion))]
    needed = sum(clause.kind != "act" or clause.picked for clause in clauses)
    if not needed:  # the words ask for no grasp: only the motion speaks for one
        grasps = [c for c in grasps if has_reached(c.grasp, motion) and not motion.closes_on_the_way(c)]
    # Where the clauses need more grasps than are sure: those that carried an object furthest.
    others = [c for c in cycles if c not in grasps and not motion.failed(c)]
    missed = sorted(others, key=motion.carry_distance, reverse=True)[: max(0, needed - len(grasps))]
    grasps = sorted(grasps + missed, key=lambda c: c.contact)
    empty: list[Cycle] = []
    for cycle in sorted(grasps, key=motion.carry_distance):
        if motion.failed(cycle) and (len(grasps) > needed or len(clauses) == 1):
            grasps.remove(cycle)
            empty.append(cycle)
    failed_grasps = [
        FailedGrasp(c, motion.let_go(c))
        for c in empty
        if _is_repeated(c, [*grasps, *empty], motion) or (not grasps and needed == len(clauses))
    ]
    if all(clause.kind in ("put", "pick") for clause in clauses):
        while len(grasps) > len(clauses) and (slipped := _find_slipped(grasps, motion)):
            grasps.remove(slipped)
            end = motion.let_go(slipped)
            risen = max(slipped.contact + 2, motion.takes_off(slipped.contact, end, _LOST))
            failed_grasps.append(FailedGrasp(slipped, min(end, risen)))
    return grasps, sorted(failed_grasps, key=lambda t: t.cycle.contact)


def _doubtful(cycle: Cycle, motion: ArmMotion) -> bool:
    """Tell whether a cycle is brief, or the last of several without an opening: the hand may only relax."""
    if cycle.release is None:
        return len(motion.cycles) > 1 or motion.failed(cycle)
    return cycle.release - cycle.contact <= _BRIEF_S * motion.fps


def _is_repeated(cycle: Cycle, others: Sequence[Cycle], motion: ArmMotion) -> bool:
    """Tell whether a later grasp is at the same place: then this closing was meant to be one."""
    later = [other for other in others if other.contact > cycle.contact]
    near = _ELSEWHERE * motion.extent
    return any(motion.distance(other.contact, cycle.contact) <= near for other in later)


def _rests(cycle: Cycle, motion: ArmMotion) -> bool:
    closed = motion.closure(cycle)
    return bool((np.abs(closed - np.median(closed)) <= _ALIKE).mean() >= _RESTS)


def _on_a_thing(cycle: Cycle, sure: Sequence[Cycle], motion: ArmMotion) -> bool:
    """Tell whether the arm stands while the hand closes, about as far as in some `sure` grasp."""
    stands = motion.speed[cycle.grasp : cycle.contact + 1].mean() < _PASSES * motion.usual_speed
    level, others = np.median(motion.closure(cycle)), [np.median(motion.closure(other)) for other in sure]
    return bool(stands) and (not sure or any(abs(level - other) <= _ALIKE for other in others))


def has_reached(frame: int, motion: ArmMotion) -> bool:
    """Tell whether the arm has left the place where the recording begins: there it only prepares its hand."""
    return motion.distance(frame, 0) > _PREPARES * motion.extent


def _find_slipped(cycles: Sequence[Cycle], motion: ArmMotion) -> Cycle | None:
    """The last cycle whose object stayed behind: it was grasped again where it was.

    The hand must have opened in the air, and not above the target of the next grasp: what is dropped into a
    box is no slip. Without a height, it must have opened clearly elsewhere.
    """
    far = _ELSEWHERE * motion.extent
    for cycle, after in reversed(list(itertools.pairwise(cycles))):
        end, again = cycle.release, after.contact
        if end is None or motion.drives_between(cycle.contact, again):
            continue
        stayed = motion.distance(again, cycle.contact) / max(motion.distance(again, end), 1e-9)
        if motion.height is None:
            is_lost = stayed < _CLEARLY and motion.distance(cycle.contact, end) > far
        else:
            is_lost = stayed < 1 and in_the_air(cycle, motion)
        if is_lost and (after.release is None or motion.distance(after.release, end) > far):
            return cycle
    return None


def slips_unseen(cycle: Cycle, after: Cycle, motion: ArmMotion) -> bool:
    """Tell whether a slip cannot be seen: no height is known, and the next grasp may be at the old place."""
    if motion.height is not None or cycle.release is None:
        return False
    taken, opened = (motion.distance(after.contact, at) for at in (cycle.contact, cycle.release))
    return opened > _CLEARLY * taken


def in_the_air(cycle: Cycle, motion: ArmMotion) -> bool:
    """Tell whether the hand opens up where it has risen to; False without a height."""
    heights = motion.heights[cycle.contact : motion.release(cycle) + 1]
    rise, sinks = heights.max() - heights[0], heights.max() - heights[-1]
    is_up = rise > _TAKES_OFF * motion.height_range and sinks < _IN_THE_AIR * rise
    return cycle.release is not None and bool(is_up)


def _explain(
    clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion
) -> list[Cycle | Touch] | None:
    """One contact for each clause, in order, where some clause is an act and nothing else fits as well.

    A put, a pick or a fold needs a grasp, a pull a grasp or a touch, and a push or an opened door a touch, or
    a grasp that drags; None where there are more or fewer, and for what needs a tool.
    """
    if len(clauses) == len(grasps) == 1 and _is_worked(clauses[0], grasps[0], motion):
        along = clauses[0].means in ("push", "turn")
        return [_touch_of(grasps[0], motion) if along else grasps[0]]
    if all(c.kind != "act" for c in clauses) or not all(map(_is_plain, clauses)):
        return None
    pairs = list(zip(clauses, grasps, strict=False))
    if len(grasps) == len(clauses) and all(
        c.grasps or c.pulls or (c.means in ("push", "turn") and motion.drags(g, _DRAG)) for c, g in pairs
    ):
        return [g if c.grasps or c.pulls else _touch_of(g, motion) for c, g in pairs]
    if all(c.means == "press" for c in clauses):
        touches = _find_presses(motion, 0, len(motion))
        pokes = [g for g in motion.cycles if touches and (g.release is None or g.release >= touches[-1].end)]
        if len(touches) > len(clauses):  # an arm that stands to close its hand, with which it then presses
            touches = [t for t in touches if not any(_closes_in(g, t, motion) for g in pokes)]
        squeezed = all(g in pokes or any(_closes_in(g, t, motion) for t in touches) for g in grasps)
        return [*touches] if squeezed and len(touches) == len(clauses) else None
    if sum(clause.grasps for clause in clauses) != len(grasps):
        return None
    contacts: list[Cycle | Touch] = []
    rest, start = list(grasps), 0
    for is_grasp, run in itertools.groupby(clauses, lambda clause: clause.grasps):
        means: list[words.Means] = [clause.means for clause in run]
        if is_grasp:
            contacts += rest[: len(means)]
            start = motion.free(rest[len(means) - 1])
            del rest[: len(means)]
            continue
        end = rest[0].grasp if rest else len(motion)
        if "press" not in means:
            touches = _find_touches(motion, start, end, hooks="push" not in means)
        else:
            touches = _find_presses(motion, start, end) if set(means) == {"press"} else []
        if len(touches) != len(means):
            return None
        contacts += touches
    return contacts


def _find_earlier(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> Touch | None:
    """Find where an open hand drags a thing that it takes later, to drag it then; it rises in between."""
    if not len(clauses) == len(grasps) == 1 or not motion.drags(grasps[0], _DRAG):
        return None
    end = grasps[0].grasp
    touches = [(t, motion.rises(t.end, end, _TAKES_OFF)) for t in _find_touches(motion, 0, end)]
    left = [Touch(t.start, up) for t, up in touches if t.start is not None and up < end]
    return left[0] if len(left) == 1 else None


def _touch_of(grasp: Cycle, motion: ArmMotion) -> Touch:
    """The touch of a hand that pushes along with its fingers around the thing."""
    return Touch(grasp.contact + 1, motion.let_go(grasp))


def _is_worked(clause: Clause, grasp: Cycle, motion: ArmMotion) -> bool:
    """Tell whether an act may be what the only grasp does: it does not put a thing elsewhere."""
    is_one = clause.kind == "act" and clause.understood and not clause.several and " with " not in clause.name
    is_worked = is_one and clause.means != "press" and not clause.grasps
    return is_worked and (grasp.release is None or motion.height is None or in_the_air(grasp, motion))


def _closes_in(grasp: Cycle, touch: Touch, motion: ArmMotion) -> bool:
    """Tell whether a hand closes during a touch, or just before it."""
    start = touch.end if touch.start is None else touch.start
    return grasp.grasp < touch.end and start <= grasp.contact + round(_PRESS_S * motion.fps)


def _is_plain(clause: Clause) -> bool:
    """Tell whether a rule has read one thing to do, without a tool."""
    is_one = clause.understood and not (clause.unordered or clause.several or clause.kind == "many")
    return is_one and clause.means != "tool" and " with " not in clause.name


def _find_tool_touch(clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion) -> Touch | None:
    """Find where the tool in the hand meets a thing, and is worked with: "pull the cup with the hook".

    There the arm is held back and its way turns or stops, elsewhere than where the tool was taken.
    """
    if len(clauses) != 1 or len(grasps) != 1 or not clauses[0].understood or not clauses[0].takes_tool:
        return None
    if motion.drives or motion.closes_on_the_way(grasps[0]):
        return None
    taken, end = grasps[0].contact, motion.let_go(grasps[0])
    start = motion.held_back(taken + round(_APART_S * motion.fps))
    if start is None or not _works(motion, start, end) or not _bends_at(start, motion):
        return None
    return Touch(start, end) if motion.distance(start, taken) > _WAY * motion.extent else None


def _find_turn(clause: Clause, motion: ArmMotion) -> Touch | None:
    """Find the only touch of a recording where the hand is held back, and turns or stops at a thing there.

    A lift begins where the hand has come down to a thing and turns upwards, held back or not.
    """
    start = _turns_upwards(motion) if clause.means == "lift" else motion.held_back()
    if start is None or not _works(motion, start, len(motion)):
        return None
    at_a_thing = (_is_at_a_thing(motion, bend, 0, len(motion)) for bend in _bends_at(start, motion))
    return Touch(start, len(motion)) if clause.means == "lift" or any(at_a_thing) else None


def _turns_upwards(motion: ArmMotion) -> int | None:
    """The frame at which the hand has come down to a thing, and first turns upwards."""
    heights, least = motion.heights, 2 * _RISEN * motion.height_range
    rises = heights - np.minimum.accumulate(heights) > least
    turn = int(heights[: int(rises.argmax())].argmin()) if rises.any() else 0
    came_down = heights[: turn + 1].max() - heights[turn] > least
    return turn if came_down and _is_low(motion, turn, 0, len(motion)) else None


def _find_touches(motion: ArmMotion, start: int, end: int, hooks: bool = False) -> list[Touch]:
    """Find the touches within [start, end), which are apart where the arm rises in between.

    With `hooks` the hand comes down to a handle: it is also at it where it is first as low as it goes.
    """
    touches, first, last = list[Touch](), None, None
    bends = _find_bends(motion, start, end)
    if hooks and motion.height is not None and end > start:
        heights = motion.height[start:end]
        low = start + int((heights - heights.min() <= _RISEN * motion.height_range).argmax())
        if low > start and all(abs(low - bend) > _APART_S * motion.fps for bend in bends):
            bends = sorted((*bends, low))
    for frame in bends:
        if _comes_from_below(motion, start, frame) or (first is not None and _rises(motion, first, frame)):
            if first is not None and _works(motion, first, frame):
                touches.append(Touch(first, frame if last is None else last))
            first, last = frame if _is_at_a_thing(motion, frame, start, end) else None, None
        elif frame == bends[-1] and _leaves(motion, frame, end):
            is_start = first is not None and _works(motion, first, frame)
            return [*touches, Touch(first if is_start else None, frame)]
        elif first is not None:
            last = frame
        elif _is_at_a_thing(motion, frame, start, end):
            first = frame
    return [*touches, Touch(first, end)] if first is not None and _works_on(motion, first, end) else touches


def _find_presses(motion: ArmMotion, start: int, end: int) -> list[Touch]:
    """Find where the hand presses within [start, end): it stops away from where it began, and turns back.

    A hand that stays where it stops presses if its command goes on. The contact begins before the stop.
    """
    near, slow, way = _near(motion), _STOPS * motion.usual_speed, _WAY * motion.extent
    turns = _turns(motion, near)
    stops = [
        frame
        for frame in _find_bends(motion, start, end)
        if (motion.speed[frame] < slow or turns[frame] > 1) and not _comes_from_below(motion, start, frame)
        if motion.height is not None or _goes_back(motion, frame)
    ]
    moving = start + np.flatnonzero(motion.speed[start:end] > slow)
    rest = int(moving[-1]) + 1 if len(moving) else end
    if end == len(motion) >= rest + near and motion.strains(rest):
        stops.append(rest)
    touches: list[Touch] = []
    for stop in stops:
        if motion.distance(stop, start) <= way:
            continue
        last, previous_end = end if stop == rest else stop, touches[-1].end if touches else start
        is_near = motion.distance(stop, previous_end) <= 2 * way
        if touches and is_near and not _rises(motion, previous_end, stop):
            touches[-1] = Touch(touches[-1].start, last)
        else:
            touches.append(Touch(max(start, stop - round(_PRESS_S * motion.fps)), last))
    return touches


def _goes_back(motion: ArmMotion, frame: int) -> bool:
    """Tell whether the arm leaves a place to where it came from: within 60 degrees."""
    way = _WAY * motion.extent
    far = np.flatnonzero(motion.away(0, len(motion), frame) > way)
    before, after = far[far < frame], far[far > frame]
    return bool(len(before) and len(after)) and motion.distance(before[-1], after[0]) < way


def _works(motion: ArmMotion, start: int, end: int) -> bool:
    """Tell whether the hand goes some way from where it is at the thing."""
    return bool(motion.away(start, end, start).max(initial=0.0) > _WAY * motion.extent)


def _works_on(motion: ArmMotion, start: int, end: int) -> bool:
    """Tell whether the hand goes some way, and not just further down, until `end`."""
    away, sinks = motion.away(start, end, start), motion.heights[start] - motion.heights[start:end]
    return bool((away[sinks < _DOWNWARDS * away] > _WAY * motion.extent).any())


def _bends_at(frame: int, motion: ArmMotion) -> list[int]:
    """The frames near another at which the arm turns or stands."""
    return [b for b in _find_bends(motion, 0, len(motion)) if abs(b - frame) <= _REACH_S * motion.fps]


def _find_bends(motion: ArmMotion, start: int, end: int) -> list[int]:
    """The frames at which the arm turns or stands on its way through [start, end), in order."""
    slow, near = _STOPS * motion.usual_speed, _near(motion)
    moving = start + np.flatnonzero(motion.speed[start:end] > slow)
    if not len(moving):
        return []
    sharpness = np.maximum(_turns(motion, near), np.where(motion.speed < slow, 1.0, 0.0))
    sharpest = np.argsort(-sharpness, kind="stable")
    frames: list[int] = []
    for frame in sharpest[sharpness[sharpest] >= 1 - _TURN].tolist():
        is_inside = moving[0] + near <= frame < moving[-1] - 1
        if is_inside and all(abs(frame - other) > _APART_S * motion.fps for other in frames):
            frames.append(frame)
    return sorted(frames)


def _near(motion: ArmMotion) -> int:
    return max(2, math.ceil(_REACH_S * motion.fps))


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
    heights = motion.heights[max(start, frame - round(_APART_S * motion.fps)) : frame + 1]
    return bool(heights[-1] - heights.min() > _RISEN * motion.height_range)


def _rises(motion: ArmMotion, start: int, end: int) -> bool:
    """Tell whether the arm goes up and down again between two frames."""
    heights = motion.heights[start : end + 1]
    return bool(heights.max() - max(heights[0], heights[-1]) > 2 * _RISEN * motion.height_range)


def _is_at_a_thing(motion: ArmMotion, frame: int, start: int, end: int) -> bool:
    """Tell whether the hand is as low as it goes to work, and no longer on its way down."""
    heights, span = motion.heights, round(_APART_S * motion.fps)
    came = heights[max(0, frame - span) : frame + 1].max() - heights[frame]
    goes = heights[frame] - heights[frame : min(end, frame + span + 1)].min()
    comes_down = goes > max(_RISEN * motion.height_range, _STILL_DOWN * came)
    return not comes_down and _is_low(motion, frame, start, end)


def _is_low(motion: ArmMotion, frame: int, start: int, end: int) -> bool:
    """Tell whether the hand is among the lowest places of [start, end); False without a height."""
    heights = motion.heights[start:end]
    is_low = motion.heights[frame] - heights.min() <= _LOW * np.ptp(heights)
    return motion.height is not None and bool(is_low)


def _leaves(motion: ArmMotion, frame: int, end: int) -> bool:
    """Tell whether the arm goes up from a frame until `end`, more than along."""
    rises = motion.heights[frame:end] - motion.heights[frame]
    top = frame + int((rises >= 0.9 * rises.max()).argmax())
    stays_up = rises.min() > -_LOW * motion.height_range
    return bool(stays_up and rises.max() > max(_RISEN * motion.height_range, motion.distance(top, frame) / 2))
