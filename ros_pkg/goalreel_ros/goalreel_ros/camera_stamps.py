"""What the stamps of a camera's frames say: how late they arrive, and how many never do."""

from collections import deque
from itertools import pairwise
from statistics import median

FRAMES = 60
"""Frames that are looked at: the last two seconds of most cameras."""
FEWEST = 20
"""Frames without which nothing is said of losses."""
AHEAD = 0.05
"""Seconds that a stamp may lie ahead of the node's clock, as between machines with synchronized clocks."""
DAY = 86400.0


class CameraStamps:
    """The newest frames: when each was taken and when it arrived, in ns. Written and read in any thread."""

    def __init__(self) -> None:
        self._frames: deque[tuple[int, int]] = deque(maxlen=FRAMES)

    def put(self, stamp: int, arrival: int) -> None:
        """Note a frame: its stamp, by the camera's clock, and its arrival, by the node's."""
        self._frames.append((stamp, arrival))

    def latency(self, max_age: float) -> str:
        """Give the median from stamp to arrival, in seconds; empty where the stamps do not tell it."""
        ages = self._ages()
        return "" if not ages or self.problem(max_age) else f"{median(ages):.3f}"

    def problem(self, max_age: float) -> str:
        """Say in one line what is wrong with the stamps; empty if they are at most `max_age` seconds old."""
        frames = tuple(self._frames)
        if not frames:
            return ""
        if frames[-1][1] <= 1:
            return "this node has no time (use_sim_time): nobody publishes /clock"
        if not any(stamp for stamp, _ in frames):
            return "its frames carry no stamps"
        age = min(self._ages())
        if age < -AHEAD:
            return f"its stamps are {_span(-age)} ahead of this node's clock: the two clocks differ"
        if age > max_age:
            return (
                f"its stamps are {_span(age)} old on arrival: the frames are late, or the two clocks differ"
            )
        return ""

    def lost_share(self) -> float | None:
        """Compute the share of frames that did not arrive, 0-1, from gaps between stamps; None if unknown.

        The camera's period is one that only a tenth of the gaps fall short of.
        """
        stamps = [stamp for stamp, _ in tuple(self._frames)]
        gaps = sorted(b - a for a, b in pairwise(stamps) if b > a)
        if len(gaps) < FEWEST - 1:
            return None
        period = gaps[len(gaps) // 10]
        missing = sum(round(gap / period) - 1 for gap in gaps if gap > period)
        return missing / (missing + len(gaps))

    def _ages(self) -> list[float]:
        return [(arrival - stamp) / 1e9 for stamp, arrival in tuple(self._frames)]


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < DAY else f"{seconds / DAY:,.0f} days"
