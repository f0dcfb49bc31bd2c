"""Checks a MarkerArray against what RViz drops or misdraws without saying so.

The rules are those of rviz_default_plugins (marker_common.cpp) and movable_text.cpp. All but the one for `ns`
("rREVISION/...", which is ours) apply to any MarkerArray.
"""

import math
import re
from collections.abc import Iterator, Sequence

from visualization_msgs.msg import Marker, MarkerArray


class MarkerRules:
    """The rules, applied to the arrays of one latched topic in order."""

    def __init__(self) -> None:
        self.live: set[tuple[str, int]] = set()
        """(ns, id) of what a viewer shows that has seen every array."""
        self._previous: MarkerArray | None = None

    def problems(self, array: MarkerArray) -> list[str]:
        """Everything wrong with the next array; empty when RViz will show it as meant."""
        problems = [*self._sequence(array.markers)]
        for marker in array.markers:
            if marker.action == Marker.ADD:
                problems += [f"{marker.ns}/{marker.id}: {problem}" for problem in _marker(marker)]
        if array == self._previous:
            problems.append("the same array again: publish on change only")
        self._previous = array
        return problems

    def _sequence(self, markers: Sequence[Marker]) -> Iterator[str]:
        """Problems with the order of actions, for a viewer of all arrays and for a late joiner."""
        keys = [(marker.ns, marker.id) for marker in markers]
        added: set[tuple[str, int]] = set()
        if len(set(keys)) < len(keys):
            yield "one twice in one array, which RViz reports as an error"
        for index, (key, marker) in enumerate(zip(keys, markers, strict=True)):
            if marker.action == Marker.ADD:
                if key in self.live:
                    yield f"{key}: ADD to a live id lays one texture over the other; DELETE first"
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
            yield f"{len(self.live - added)} markers stay from before, which a late joiner never sees"


def _marker(m: Marker) -> Iterator[str]:
    """Problems of one ADD."""
    p, q, s = m.pose.position, m.pose.orientation, m.scale
    if not re.match(r"r\d+/.", m.ns):
        yield f"ns {m.ns!r} carries no plan revision"
    if not m.header.frame_id:
        yield "no frame_id"
    if m.header.stamp.sec or m.header.stamp.nanosec or m.lifetime.sec or m.lifetime.nanosec or m.frame_locked:
        yield "a stamp, a lifetime or a locked frame: a late joiner would not see it"
    if not all(map(math.isfinite, (p.x, p.y, p.z, q.x, q.y, q.z, q.w, s.x, s.y, s.z))):
        yield "a number that is not finite: RViz drops the marker"
    elif abs(math.hypot(q.x, q.y, q.z, q.w) - 1) > 1e-3:
        yield "an orientation that is not a unit quaternion"
    if m.color.a == 0:
        yield "alpha 0: invisible"
    if m.type != Marker.TEXT_VIEW_FACING or not m.text.strip():
        yield f"no text, but a marker of type {m.type}"
    if not all(" " <= c <= "~" for c in m.text):
        yield "text that is not one line of printable ASCII"
    if m.scale.z <= 0 or m.scale.x or m.scale.y:
        yield "scale.z is the height of the text; leave x and y 0"
