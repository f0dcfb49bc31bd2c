"""The newest camera frame, and nothing older. Writing never waits for a reader."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from goalreel.image import Image
from goalreel.streaming.board import Frame
from goalreel.streaming.settings import MAX_IMAGE_SIDE

SPACED_FRAMES = 4
"""Frames whose arrival times tell how far apart a camera's frames come."""


@dataclass(frozen=True, slots=True)
class FrameCounts:
    """Counts of the frames of a slot. `age` is that of the newest in seconds, None before the first."""

    received: int = 0
    read: int = 0
    unreadable: int = 0
    backwards: int = 0
    """Frames whose stamp is earlier than that of the frame before."""
    age: float | None = None
    spacing: float = 0.0
    """Seconds, as in Frame."""
    problem: str = ""
    """Why the newest frame could not be read, or empty."""

    @property
    def dropped(self) -> int:
        """Frames that were overwritten before they were read, as most frames are."""
        return self.received - self.read - self.unreadable


class FrameSlot[Raw]:
    """Holds one message. `put` replaces it; `newest` decodes it once, when it is first read.

    Age is measured from arrival here, so that a camera's wrong clock does not matter. Pictures are scaled to
    `longest` pixels on their longer side at most.
    """

    def __init__(
        self,
        decode: Callable[[Raw], Image],
        clock: Callable[[], float] = time.monotonic,
        longest: int = MAX_IMAGE_SIDE,
    ) -> None:
        self.longest = longest
        self._decode = decode
        self._clock = clock
        self._lock = threading.Lock()
        self._raw: tuple[int, Raw, int, str, float] | None = None
        self._arrivals: deque[float] = deque(maxlen=SPACED_FRAMES)
        self._decoded: tuple[int, Frame | ValueError] | None = None
        self._counts = FrameCounts()

    def put(self, raw: Raw, stamp: int, frame_id: str) -> None:
        """Replace the message. `stamp` is in ns."""
        received = self._clock()
        with self._lock:
            self._arrivals.append(received)
            counts, backwards = self._counts, self._raw is not None and stamp < self._raw[2]
            self._counts = replace(
                counts, received=counts.received + 1, backwards=counts.backwards + backwards
            )
            self._raw = (self._counts.received, raw, stamp, frame_id, received)

    def newest(self) -> Frame | None:
        """Give the newest frame, however old; None before the first.

        Raises:
            ValueError: it cannot be read; the text says why.
        """
        with self._lock:
            if self._raw is None:
                return None
            number, raw, stamp, frame_id, received = self._raw
            spacing = self._spacing()
            if self._decoded is not None and self._decoded[0] == number:
                return _or_raise(self._decoded[1])
        try:
            image = self._decode(raw)
            small = image.within(self.longest)
            result: Frame | ValueError = Frame(small, stamp, frame_id, received, image.size, spacing)
        except ValueError as e:
            result = e
        with self._lock:
            if self._decoded is None or self._decoded[0] < number:
                self._decoded = (number, result)
                if isinstance(result, ValueError):
                    unreadable = self._counts.unreadable + 1
                    self._counts = replace(self._counts, unreadable=unreadable, problem=str(result))
                else:
                    self._counts = replace(self._counts, read=self._counts.read + 1, problem="")
        return _or_raise(result)

    def clear(self) -> None:
        """Forget the frame, but not the counts."""
        with self._lock:
            self._raw = self._decoded = None
            self._arrivals.clear()

    def counts(self) -> FrameCounts:
        """Give the counts, and the age of the newest frame."""
        with self._lock:
            age = None if self._raw is None else self._clock() - self._raw[4]
            return replace(self._counts, age=age, spacing=self._spacing())

    def _spacing(self) -> float:
        return max((later - earlier for earlier, later in pairwise(self._arrivals)), default=0.0)


def _or_raise(result: Frame | ValueError) -> Frame:
    if isinstance(result, ValueError):
        raise result
    return result
