"""Moments at which rules see a hand close and open, where labelled episodes agree with them.

They place boundaries to the frame, and show what no example has: an attempt in vain.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import cast

from goalreel.planners.examples.carry import TOLERANCE_S, Carried, Example, Shape, boundaries, shape
from goalreel.planners.kinematic.description import proposals
from goalreel.planners.kinematic.layout import Layout, Unsegmentable
from goalreel.types import Recording

type Cue = tuple[int, str]
"""A frame where the hand has closed ("closed") or opens ("opened")."""
type Cues = Callable[[Recording | Example], Sequence[Cue]]

SEEN_S = TOLERANCE_S  # seconds within which a cue is a labelled boundary
SNAP_S = 1.0  # seconds within which a cue takes a carried boundary to it
SNAP_IN_ORDER_S = 2.0  # the same where the hand closes and opens as often as in the labelled episodes


class HandCues:
    """The cues of a task: they count if two examples have a boundary at each, and none has another."""

    def __init__(self, examples: Sequence[Example], cues: Cues) -> None:
        self._cues = cues
        self._kinds: dict[tuple[Shape, int], str] = {}
        seen: Counter[tuple[Shape, int, str]] = Counter()
        agreeing = 0
        for example in examples:
            marks = boundaries(example)
            seen_at = [(_nearest(frame, marks, example.fps), kind) for frame, kind in cues(example)]
            kinds = {at: kind for at, kind in seen_at if at is not None}
            if any(at is None for at, _ in seen_at):
                return
            agreeing += bool(kinds)
            seen.update((shape(example), at, kind) for at, kind in kinds.items())
        if agreeing > 1:
            self._kinds = {(steps, at): kind for (steps, at, kind), count in seen.items() if count > 1}

    def join(self, carried: Carried, steps: Shape, recording: Recording) -> Carried:
        """Move the boundaries of `steps` to their cues, and find attempts in vain.

        Where the hand closes and opens as often as in the labelled episodes, what both find is not in doubt.
        """
        if not self._kinds:
            return carried
        cues, frames, doubts = list(self._cues(recording)), list(carried.frames), list(carried.doubts)
        expected = [kind for at in range(len(frames)) if (kind := self._kinds.get((steps, at)))]
        as_often = [kind for _, kind in cues] == expected
        reach = (SNAP_IN_ORDER_S if as_often else SNAP_S) * recording.fps
        for at in range(len(frames)):
            kind = self._kinds.get((steps, at))
            near = [f for f, k in cues if k == kind and abs(f - frames[at]) <= reach]
            if near:
                frames[at] = min(near, key=lambda frame: abs(frame - frames[at]))
                cues.remove((frames[at], str(kind)))
                if as_often and abs(frames[at] - carried.frames[at]) <= SNAP_S * recording.fps:
                    doubts[at] = None
            elif kind:
                doubts[at] = f"the hand has not {kind} near here, as it has in the labelled episodes"
        if any(a >= b for a, b in pairwise(frames)):
            return carried
        attempts: list[tuple[int, int]] = []
        cues = [(f, k) for f, k in cues if _nearest(f, frames, recording.fps) is None]
        while cues:
            (frame, kind), *cues = cues
            after = next((i for i, mark in enumerate(frames) if mark > frame), len(frames))
            limit = frames[after] if after < len(frames) else len(recording.timestamps)
            is_pair = bool(cues) and cues[0][1] != kind and cues[0][0] < limit
            if is_pair and kind == "closed" and self._kinds.get((steps, after)) == "closed":
                attempts.append((frame, cues.pop(0)[0]))
            elif is_pair and kind == "opened" and self._kinds.get((steps, after - 1)) == "closed":
                attempts.append((frames[after - 1], frame))
                frames[after - 1] = cues.pop(0)[0]
            else:
                for edge in {after - 1, after} & set(range(len(doubts))):
                    doubts[edge] = f"the hand has {kind} beside it, as in no labelled episode"
        return replace(carried, frames=tuple(frames), doubts=tuple(doubts), attempts=tuple(attempts))


def cues_of(layout: Layout | None) -> Cues:
    """Read the cues of a robot; there are none where it has no hand that the rules know."""

    def cues(recording: Recording | Example) -> list[Cue]:
        try:
            found = proposals(cast("Recording", recording), layout)
        except Unsegmentable:
            found = ()
        hand = [(p.frame, p.cue) for p in found if p.cue in ("closed", "opened")]
        # A hand begins to open, and lets go a little later.
        return [cue for cue, after in zip_longest(hand, hand[1:]) if not after or after[1] != cue[1]]

    return cues


def _nearest(frame: int, marks: Sequence[int], fps: float) -> int | None:
    """Find the boundary that a cue belongs to; None where it is near none."""
    near = [(abs(frame - mark), at) for at, mark in enumerate(marks) if abs(frame - mark) <= SEEN_S * fps]
    return min(near)[1] if near else None
