"""Checks a MarkerArray against what RViz drops or misdraws without saying so.

The rules are those of rviz_default_plugins (marker_common.cpp) and
movable_text.cpp. All but the one for `ns` ("rREVISION/...", which is ours) apply to any MarkerArray.
"""

import math
import re
from collections.abc import Iterator, Sequence

from visualization_msgs.msg import Marker, MarkerArray

type Key = tuple[str, int]

_ACTIONS = (Marker.ADD, Marker.DELETE, Marker.DELETEALL)


class MarkerRules:
    """The rules, applied to the arrays of one latched topic in order."""

    def __init__(self) -> None:
        self.live: set[Key] = set()
        """(ns, id) of what a viewer shows that has seen every array."""
        self._previous: MarkerArray | None = None

    def problems(self, array: MarkerArray) -> list[str]:
        """Everything wrong with the next array; empty when RViz will show it as meant."""
        problems = list(self._sequence(list(array.markers)))
        for marker in array.markers:
            if marker.action == Marker.ADD:
                problems += [f"{_name(marker)}: {problem}" for problem in _marker(marker)]
        if array == self._previous:
            problems.append("the same array again: publish on change only")
        self._previous = array
        return problems

    def _sequence(self, markers: Sequence[Marker]) -> Iterator[str]:
        """Problems with the order of actions, for a viewer of all arrays and for a late joiner."""
        keys: set[Key] = set()
        added: set[Key] = set()
        for index, marker in enumerate(markers):
            key = (marker.ns, marker.id)
            if key in keys:
                yield f"{_name(marker)}: twice in one array, which RViz reports as an error"
            keys.add(key)
            if marker.action not in _ACTIONS:
                yield f"{_name(marker)}: no such action as {marker.action}"
            elif marker.action == Marker.ADD:
                if key in self.live:
                    yield f"{_name(marker)}: ADD to a live id lays one texture over the other; DELETE first"
                self.live.add(key)
                added.add(key)
            elif marker.action == Marker.DELETE:
                self.live.discard(key)
                added.discard(key)
            else:
                if index:
                    yield "DELETEALL after other markers takes them away again"
                if marker.ns:
                    yield f"DELETEALL with ns {marker.ns!r}: some versions of RViz then delete everything"
                self.live.clear()
                added.clear()
        if added != self.live:
            count = len(self.live - added)
            yield f"{count} markers stay from arrays before, which a late joiner never sees"


def _name(marker: Marker) -> str:
    return f"{marker.ns}/{marker.id}"


def _marker(m: Marker) -> Iterator[str]:
    """Problems of one ADD."""
    if not re.match(r"r\d+/.", m.ns):
        yield f"ns {m.ns!r} carries no plan revision"
    if not m.header.frame_id:
        yield "no frame_id"
    if m.header.stamp.sec or m.header.stamp.nanosec:
        yield "a stamp: a late joiner's transforms do not reach back to it; leave 0"
    if m.lifetime.sec or m.lifetime.nanosec:
        yield "a lifetime: a latched marker would vanish"
    if m.frame_locked:
        yield "frame_locked: RViz transforms it again on every frame"
    p, q, s = m.pose.position, m.pose.orientation, m.scale
    colours = [m.color, *m.colors]
    numbers = [p.x, p.y, p.z, q.x, q.y, q.z, q.w, s.x, s.y, s.z]
    if not all(map(math.isfinite, numbers)):
        yield "a number that is not finite: RViz drops the marker"
        return
    if abs(math.hypot(q.x, q.y, q.z, q.w) - 1) > 1e-3:
        yield "an orientation that is not a unit quaternion"
    if not all(0 <= v <= 1 for c in colours for v in (c.r, c.g, c.b, c.a)):
        yield "a colour outside 0 to 1"
    if m.color.a == 0:
        yield "alpha 0: invisible"
    if m.type != Marker.TEXT_VIEW_FACING:
        yield f"a marker of type {m.type}, for which no rules are known here"
    else:
        yield from _text(m)


def _text(m: Marker) -> Iterator[str]:
    if not m.text.strip():
        yield "no text"
    if "\n" in m.text:
        yield "several lines: older RViz shifts them to the left; one marker a line"
    if not all(" " <= c <= "~" for c in m.text.replace("\n", "")):
        yield "text that is not printable ASCII"
    if m.scale.z <= 0:
        yield "scale.z is the height of the text and must be above 0"
    if m.scale.x or m.scale.y:
        yield "scale.x and scale.y mean nothing for text; leave 0"
