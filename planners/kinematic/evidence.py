"""Reasons why the words of a plan may be untrue: the instruction and the motion do not explain each other."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from goalreel.planners.kinematic.clauses import Clause, Passing
from goalreel.planners.kinematic.contacts import HandContacts, Touch, has_reached, in_the_air, slips_unseen
from goalreel.planners.kinematic.layout import Layout, times_text
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.steps import ClauseSpan
from goalreel.planners.kinematic.words import NUMBERS, words

_COUNTS = NUMBERS | {"both": 2}
_PAIRS = words(
    "scissors glasses sunglasses goggles pants trousers jeans shorts pliers tweezers tongs headphones "
    "chopsticks earphones grapes"
)
"""Nouns in the plural of which a hand may take all at once."""
_PLACELESS = ("put ", "drop ", "pick up ")  # without a place, the thing may stay where it was
# Shares of the arm's extent:
_AT_HOME = 0.15  # the arm is back where the recording begins
_AGAIN = 0.1  # an object is taken again where it was set down
_SAME_PLACE = 0.03  # a thing is where it was taken
_ELSEWHERE = 0.2  # a thing is not where the hand let go of it
# Other shares:
_UPRIGHT = 0.5  # the least way up or down of a hand that takes a thing there, by that sideways; and reverse
_DRAG = 0.15  # the greatest rise, by the height's range, with a thing that goes along what it lies on
_STANDS = 0.4  # the arm rests below it, by its usual speed
_WORKS_S = 1.5  # seconds for which a hand works with a tool, at least
_AS_CLOSED = 0.1  # the difference of two holds of one thing, by the hand's range

_SLIPPED = "the object slipped and was grasped again: nothing shows that it stays where it was put"
_SLIPS_UNSEEN = "a thing is taken again, and no height tells if it had slipped: --layout vertical=N names one"
_WAITS_UNSEEN = (
    "only the hand's command is known, and nothing shows when its slow fingers have closed: name their "
    "number with --layout gripper=N, or label three episodes for --examples"
)
_AT_ONCE = "two hands hold something at once, and the words do not say which does what"


def gripper_warnings(motion: ArmMotion, layout: Layout, idle: bool = False) -> Iterator[str]:
    """Say why the hand's acts may be read wrongly; an `idle` hand grasps nothing, however it is read."""
    if motion.closed is None:
        if not (idle and layout.gripper):
            yield "no gripper is seen to move: name it with --layout gripper=..."
        return
    if motion.is_still and not motion.drives:
        yield "the arm is not seen to move: name its dimensions with --layout position=..."
    if motion.at_once:
        yield _AT_ONCE
    if not idle and any(hand.closed is None for hand in layout.hands):
        yield "which end of the gripper is closed is not known: say --layout closed=low or closed=high"


def handover_warnings(
    passings: Sequence[Passing], grasps: Sequence[Cycle], motion: ArmMotion
) -> Iterator[str]:
    """Say where hands hand over something else than the words say."""
    if motion.handovers and not passings:
        yield _AT_ONCE
    elif len(passings) != len(motion.handovers):
        seen, said = (times_text(len(items)) for items in (motion.handovers, passings))
        yield f"a hand takes what the other one holds {seen}, and the words say {said}"
    for passing, handover in zip(passings, motion.handovers, strict=False):
        sides = (motion.sides.get(handover.given, ""), motion.sides.get(handover.taken, ""))
        said = (passing.giver, passing.taker)
        if any(a and b and a != b for a, b in zip(sides, said, strict=True)):
            yield f'the {sides[0]} hand gives, and the words say "{passing.clause.name}"'
        if sum(grasp.contact < handover.at for grasp in grasps) != passing.grasps:
            yield f'the hands do not hand over when the words say "{passing.clause.name}"'


def word_warnings(
    clauses: Sequence[Clause], hand: HandContacts, motion: ArmMotion, gripper: Sequence[str] = ()
) -> list[str]:
    """Say why the words may be untrue; nothing where every grasp has a clause, and the reverse.

    `gripper` are the `gripper_warnings`.
    """
    is_shown = hand.explained or _takes_tool(clauses)
    reasons = [*_of_clauses(clauses, is_shown), *gripper]
    if is_shown or all(clause.kind != "act" for clause in clauses):
        reasons += _of_grasps(clauses, hand.grasps, motion, hand.explained)
    return list(dict.fromkeys(reasons))


def _of_clauses(clauses: Sequence[Clause], is_shown: bool) -> Iterator[str]:
    for clause in clauses:
        if not clause.understood:
            yield "no rule reads the whole instruction"
        elif clause.unordered:
            yield f'the instruction does not say when "{clause.name}" comes'
        elif clause.kind == "act" and not is_shown:
            yield _not_shown(clause)


def _takes_tool(clauses: Sequence[Clause]) -> bool:
    """Tell whether the only clause names what the hand takes to do it."""
    return len(clauses) == 1 and clauses[0].takes_tool


def _not_shown(clause: Clause) -> str:
    return f'the motion of a hand does not show "{clause.name}"'


def _of_grasps(
    clauses: Sequence[Clause], grasps: Sequence[Cycle], motion: ArmMotion, explained: bool
) -> Iterator[str]:
    carried, needed = len(grasps), sum(clause.grasps for clause in clauses)
    collective = [clause for clause in clauses if clause.kind == "many"]
    again = sum(motion.apart(a, b) <= _AGAIN * motion.extent for a, b in itertools.pairwise(grasps))
    if collective:
        if len(collective) > 1 or not _counts(collective[0], carried - needed + 1):
            yield f"the words do not tell what the hand takes in each of {carried} grasps"
    elif not explained and (carried < needed or (carried > needed and again != carried - needed)):
        yield f"the gripper carries an object {times_text(carried)}, and the words say {times_text(needed)}"
    elif carried > needed and any(slips_unseen(*pair, motion) for pair in itertools.pairwise(grasps)):
        yield _SLIPS_UNSEEN
    if grasps and motion.waits_unseen:
        yield _WAITS_UNSEEN
    if any(map(motion.failed, grasps)):
        yield "a grasp counts as a success in which the gripper carries nothing"
    # Without a height, a hand that takes a thing and goes on looks alike: no name was untrue in 21 episodes.
    if motion.height is not None and any(map(motion.closes_on_the_way, grasps)):
        yield "the hand closes on the way, where nothing is seen to be"
    if grasps and grasps[-1].release is None and not has_reached(grasps[-1].contact, motion):
        yield "the hand closes before the arm goes anywhere, and is not seen to let go"
    if motion.cycles and _brings_something(motion.cycles[0], motion):
        yield "the hand is closed at the start as on a thing, and opens elsewhere than where it grasps next"


def _counts(clause: Clause, grasps: int) -> bool:
    """Tell whether a clause about several objects asks for so many grasps: "the two cups", or any number.

    Of cups that are stacked one may stay where it is.
    """
    tokens = clause.object.lower().split()
    if tokens[-1] in _PAIRS:
        return False
    numbers = (int(word) if word.isdecimal() else _COUNTS.get(word) for word in tokens)
    number = next((n for n in numbers if n is not None), None)
    if number is not None and clause.name == f"stack {clause.object}":
        return False
    return clause.several and (grasps > 1 if number is None else grasps == number)


def _brings_something(first: Cycle, motion: ArmMotion) -> bool:
    """Tell whether the hand may hold a thing from the start, and set it down before its first grasp.

    It opens away from where it begins and from its grasp: down there or, where no height is known, with an
    arm that rests, and about as closed as in that grasp.
    """
    hold = float(np.median(motion.closure(first)))
    assert motion.closed is not None
    opens = int((motion.closed < hold / 2).argmax())
    if motion.closed[0] < hold / 2 or not 0 < opens < first.grasp:
        return False
    if motion.height is None:
        rests = motion.speed[opens] < _STANDS * motion.usual_speed
        sets_down = rests and abs(float(motion.closed[0]) - hold) <= _AS_CLOSED
    else:
        sets_down = motion.height[opens] < motion.height.min() + motion.height_range / 3
    away = min(motion.distance(opens, at) for at in (0, first.grasp))
    return bool(sets_down) and away > _AT_HOME * motion.extent


def direction_warnings(
    clauses: Sequence[Clause], contacts: Sequence[Cycle | Touch], motion: ArmMotion
) -> Iterator[str]:
    """Say where the hand does not go up, down or sideways with the thing, as the words of a clause say.

    There is a contact for each clause. Without a height nothing is said.
    """
    for clause, contact in zip(clauses, contacts, strict=False):
        if isinstance(contact, Touch):
            start, end = contact.start, contact.end
        else:
            start, end = contact.contact, motion.release(contact)
        if not clause.way or motion.height is None or start is None:
            continue
        span = slice(start, max(start + 1, end))
        rise = (motion.height[span] - motion.height[start]) * (-1 if clause.way == "down" else 1)
        away = motion.path[span] - motion.path[start]
        sideways = np.sqrt(np.maximum((away**2).sum(axis=1) - rise**2, 0)).max()
        along = clause.way == "sideways"
        is_shown = sideways >= _UPRIGHT * np.abs(rise).max() if along else rise.max() >= _UPRIGHT * sideways
        if along and isinstance(contact, Cycle) and not motion.drags(contact, _DRAG):
            yield f'the hand lifts the thing, and the words say "{clause.name}"'
        elif not is_shown:
            yield f'the hand does not go {clause.way} with the thing, and the words say "{clause.name}"'


def place_warnings(parts: Sequence[ClauseSpan], motion: ArmMotion) -> Iterator[str]:
    """Say where things are taken or set down elsewhere than the words let them be."""
    near = _SAME_PLACE * motion.extent
    grasped = [part for part in parts if part.cycles]
    for part in grasped:
        clause, first, last = part.clause, part.cycles[0], part.cycles[-1]
        has_place = clause.kind in ("put", "many") and (
            clause.name.partition(clause.object)[2] or not clause.name.startswith(_PLACELESS)
        )
        if clause.kind == "pick" and all(map(motion.drags, part.cycles)):
            yield f'the hand does not rise with the thing, and the words say "{clause.name}"'
        if has_place and motion.lets_go_at(last, first, near):
            yield f'the hand sets down a thing where it took it, and the words say "{clause.name}"'
    for part, following in itertools.pairwise(grasped):
        first, second, thing = part.cycles[-1], following.cycles[0], following.clause.object
        is_same = part.clause.object == thing and not following.clause.several
        if is_same and motion.apart(first, second) > _ELSEWHERE * motion.extent:
            yield f"the hand takes {thing} elsewhere than where it let go of it, if the words are true"
        elif not is_same and (motion.lets_go_at(first, second, near) or _loses(first, second, motion)):
            yield "the hand takes again what it had, and the words name another thing"


def _loses(first: Cycle, second: Cycle, motion: ArmMotion) -> bool:
    """Tell whether the first grasp opens in the air, if known, and the second is where it took hold."""
    is_lost = motion.height is None or in_the_air(first, motion)
    if not is_lost or motion.drives_between(first.contact, second.contact):
        return False
    return motion.distance(second.contact, first.contact) < _SAME_PLACE * motion.extent


def late_warnings(
    clauses: Sequence[Clause], hand: HandContacts, motion: ArmMotion
) -> Iterator[tuple[int, str]]:
    """Say why steps may be untrue from a frame on: nothing is done with a tool that is held only briefly, or
    a thing that has slipped once may not stay where it is put."""
    if hand.grasps and _takes_tool(clauses) and hand.tool_touch is None:
        start = hand.grasps[0].contact + 1
        if motion.let_go(hand.grasps[0]) - start < _WORKS_S * motion.fps:
            yield start, _not_shown(clauses[0])
    if not all(motion.failed(failed.cycle) for failed in hand.failed_grasps):
        yield hand.grasps[-1].contact + 1 if hand.grasps else 0, _SLIPPED
