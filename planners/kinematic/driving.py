"""Steps in which a mobile base drives: asked for in words, and cut out of the steps around them."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from goalreel.planners.kinematic.align import ClauseSpan
from goalreel.planners.kinematic.clause import Clause
from goalreel.planners.kinematic.clauses import read, whole
from goalreel.planners.kinematic.counts import times_text
from goalreel.planners.kinematic.nouns import is_noun
from goalreel.planners.kinematic.signals import Cycle
from goalreel.planners.kinematic.verbs import DIRECTIONS

_JOIN = r"(?:\s*[,;.]\s*(?:and\s+)?(?:then\s+)?|\s+and\s+(?:then\s+)?|\s+then\s+)"
_DRIVE = re.compile(
    rf"(?:^\s*(?:(?:please|first)\s+)*|{_JOIN})(?:drive|go|move|navigate|travel)(?:\s+back|\s+over)?\s+to\s+"
    rf"(?P<place>[^,;.]+?)(?={_JOIN}\S|[.!]?\s*$)",
    re.IGNORECASE,
)
UNNAMED_DRIVE = "the base drives, and the words do not say where"
"""The doubt of a step in which the base drives on its own."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A place that the words send the robot to, and what they ask for before."""

    place: str
    grasps: int
    """Grasps that come before it."""
    holds: bool
    """The last of them still holds its thing."""


def split_drives(instruction: str) -> tuple[str, list[Destination]]:
    """Take requests to drive somewhere out of an instruction.

    >>> text, (first, second) = split_drives("drive to the sink, pick up the cup and go to the table")
    >>> text, first.place, second.grasps, second.holds
    ('pick up the cup', 'the sink', 1, True)
    >>> split_drives("move the cup to the table")
    ('move the cup to the table', [])
    """
    rest, start = "", 0
    destinations: list[Destination] = []
    for match in _DRIVE.finditer(instruction):
        place = match["place"].strip()
        if not is_noun(place) or place.split()[-1].lower() in DIRECTIONS:
            continue
        rest, start = _joined(rest, instruction[start : match.start()]), match.end()
        clauses = read(rest)
        holds = bool(clauses) and clauses[-1].kind == "pick"
        destinations.append(Destination(place, sum(clause.grasps for clause in clauses), holds))
    return (_joined(rest, instruction[start:]), destinations) if destinations else (instruction, [])


def _joined(first: str, second: str) -> str:
    return ", then ".join(filter(None, (first, re.sub(rf"^{_JOIN}", "", second).strip(" .!"))))


def drive_doubts(
    destinations: Sequence[Destination], drives: Sequence[tuple[int, int]], grasps: Sequence[Cycle]
) -> Iterator[str]:
    """Say where the words send the base elsewhen than it drives; nothing where they send it nowhere."""
    if not destinations:
        return
    if len(destinations) != len(drives):
        yield f"the base drives {times_text(len(drives))}, and the words say {times_text(len(destinations))}"
    elif not all(map(_fits, destinations, drives, itertools.repeat(grasps))):
        yield "the base drives sooner or later than the words say"


def _fits(destination: Destination, drive: tuple[int, int], grasps: Sequence[Cycle]) -> bool:
    begun = [grasp for grasp in grasps if grasp.contact < drive[1]]
    if len(begun) != destination.grasps:
        return False
    last = begun[-1] if begun else None
    return last is None or (last.let_go is None or last.let_go > drive[0]) == destination.holds


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
