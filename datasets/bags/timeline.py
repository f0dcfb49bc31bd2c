"""Messages of many rates on one time line. Pure numpy; all times are int64 nanoseconds.

A frame shows the newest picture of the leading camera half a period after its tick, so that a camera which
runs at the dataset's own rate gives every picture once although its times jitter. Its moment is that
picture's time. All else is held: the newest message at that moment. An action is the newest one at the
next frame's moment: the last command given on seeing this frame.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Stamps = NDArray[np.int64]
type Indices = NDArray[np.int64]

SECOND = 1_000_000_000
FOREVER = 2**62
"""Later than any time in a bag, ns."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each frame of an episode is, and which picture it shows; times in ns."""

    moments: Stamps
    """Ascending, (frames,)."""
    pictures: Indices
    """Which picture of the leading camera, (frames,)."""
    period: int
    end: int
    """When the episode was over."""

    def __len__(self) -> int:
        return len(self.moments)

    @property
    def next_moments(self) -> Stamps:
        """When each frame gave way to the next, (frames,)."""
        if not len(self):
            return self.moments
        after = np.append(self.moments[1:], self.moments[-1] + self.period)
        return np.minimum(after, self.end - 1)

    def since(self, first: int) -> "Timeline":
        """The same time line without the frames before number `first`."""
        return Timeline(self.moments[first:], self.pictures[first:], self.period, self.end)


def timeline(camera: Stamps, fps: int, start: int, end: int) -> Timeline:
    """Frames at `fps` from the first picture in [start, end) to the last; none where no picture is there.

    `camera` are the ascending times of the leading camera's pictures.
    """
    first, last = np.searchsorted(camera, (start, end), side="left")
    period, half = SECOND // fps, SECOND // (2 * fps)
    if first == last:
        return Timeline(np.zeros(0, np.int64), np.zeros(0, np.int64), period, end)
    origin = int(camera[first])
    count = (int(camera[last - 1]) - origin + half) * fps // SECOND + 1
    ticks = origin + np.arange(count, dtype=np.int64) * SECOND // fps
    pictures = as_of(camera[:last], ticks + half)
    # Where the camera paused, its last picture stands still but time goes on.
    return Timeline(np.maximum(camera[pictures], ticks - half), pictures, period, end)


def as_of(stamps: Stamps, moments: Stamps) -> Indices:
    """Which message was the newest at each moment (ns, inclusive); -1 before the first."""
    return np.searchsorted(stamps, moments, side="right").astype(np.int64) - 1


def common_rate(stamps: Stamps) -> int:
    """The whole number of messages a second that their median distance suggests, at least 1.

    Raises:
        ValueError: fewer than two messages, or all at one time.
    """
    distances = np.diff(stamps)
    distance = float(np.median(distances[distances > 0])) if (distances > 0).any() else 0.0
    if not distance:
        raise ValueError("fewer than two pictures in time: there is no rate to see, pass --fps")
    return max(1, round(SECOND / distance))


def staleness(stamps: Stamps, moments: Stamps) -> tuple[float, float]:
    """The greatest age of a message in use, and its time after the first moment, both in seconds."""
    age = moments - stamps[as_of(stamps, moments)]
    worst = int(age.argmax())
    return float(age[worst]) / SECOND, float(moments[worst] - moments[0]) / SECOND
