"""The camera as a task sees it: the newest frame while it is fresh, or a reason why there is none."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from goalreel.image import Image
from goalreel.streaming.board import ErrorCode, Frame, GoalReason
from goalreel.streaming.request import TaskEnded
from goalreel.streaming.settings import MAX_IMAGE_SIDE, EngineSettings

ORDERED_FRAMES, JUMP = 12, 10**9
"""Frames whose stamps tell whether two sources alternate, such as a camera and a bag of earlier: twice forth
and twice back by more than JUMP, in ns. No picture is taken for the scene then."""


@dataclass(frozen=True, slots=True)
class FrameCounts:
    """Counts of the frames of a slot."""

    received: int = 0
    read: int = 0
    unreadable: int = 0
    repeated: int = 0
    """Messages since the newest frame that have its stamp: the driver sends it again and again."""
    age: float | None = None
    """Seconds since the newest arrived; None before the first."""
    spacing: float = 0.0
    """Seconds, as in Frame."""
    problem: str = ""
    """The reason why the newest frame could not be read."""

    @property
    def dropped(self) -> int:
        """Frames that were overwritten before they were read, as most frames are."""
        return self.received - self.read - self.unreadable


@dataclass(eq=False, slots=True)
class _Message[Raw]:
    raw: Raw
    stamp: int
    frame_id: str
    received: float
    spacing: float
    alternates: bool
    result: Frame | ValueError | None = None
    """None until it is read."""


class FrameSlot[Raw]:
    """Holds one message. `put` replaces it; `newest` decodes it once, when it is first read.

    Age is measured from arrival here by `clock`, so that a camera's wrong clock does not matter. A message
    that is sent again, with its stamp, is no new frame; without a stamp that cannot be told. Pictures are
    scaled to `longest` pixels on their longer side at most.
    """

    def __init__(
        self,
        decode: Callable[[Raw], Image],
        clock: Callable[[], float] = time.monotonic,
        longest: int = MAX_IMAGE_SIDE,
    ) -> None:
        self.longest, self.clock = longest, clock
        self._decode = decode
        self._lock = threading.Lock()
        self._message: _Message[Raw] | None = None
        self._arrivals: deque[float] = deque(maxlen=4)  # tell how far apart frames come
        self._jumps: deque[int] = deque(maxlen=ORDERED_FRAMES)
        self._counts = FrameCounts()

    def put(self, raw: Raw, stamp: int, frame_id: str) -> bool:
        """Replace the message and return True, unless it is no new frame. `stamp` is in ns."""
        received = self.clock()
        with self._lock:
            counts, last = self._counts, self._message
            if last is not None and stamp == last.stamp != 0 and raw == last.raw:
                self._counts = replace(counts, repeated=counts.repeated + 1)
                return False
            step = 0 if last is None else stamp - last.stamp
            self._counts = replace(counts, received=counts.received + 1, repeated=0)
            self._arrivals.append(received)
            self._jumps.append((step > JUMP) - (step < -JUMP))
            alternates = min(map(self._jumps.count, (-1, 1))) > 1
            self._message = _Message(raw, stamp, frame_id, received, self._spacing(), alternates)
            return True

    def newest(self) -> Frame | None:
        """Give the newest frame, however old; None before the first.

        Raises:
            ValueError: it cannot be read; the text says why.
        """
        if (message := self._message) is None:
            return None
        if message.result is None:
            self._read(message)
        if isinstance(message.result, ValueError):
            raise message.result
        return message.result

    def _read(self, m: _Message[Raw]) -> None:
        try:
            if m.alternates:
                raise ValueError("two sources send them in turn, by their stamps: stop one, such as a bag")
            image = self._decode(m.raw)
            small = image.within(self.longest)
            result = Frame(small, m.stamp, m.frame_id, m.received, image.size, m.spacing)
        except ValueError as e:
            result = e
        with self._lock:
            if m.result is not None:  # another thread was faster, and has counted it
                return
            m.result, counts = result, self._counts
            if isinstance(result, ValueError):
                self._counts = replace(counts, unreadable=counts.unreadable + 1, problem=str(result))
            else:
                self._counts = replace(counts, read=counts.read + 1, problem="")

    def counts(self) -> FrameCounts:
        """Give the counts, and the age of the newest frame."""
        with self._lock:
            age = None if self._message is None else self.clock() - self._message.received
            return replace(self._counts, age=age, spacing=self._spacing())

    def _spacing(self) -> float:
        return max((later - earlier for earlier, later in pairwise(self._arrivals)), default=0.0)


SILENCE = "no camera frame has arrived"
_GOAL_REASONS: Mapping[ErrorCode, GoalReason] = {ErrorCode.NONE: "active", ErrorCode.STALE_IMAGE: "stale"}


def explain_spacing(spacing: float, max_image_age: float) -> str:
    """Say in one line that frames come too far apart to stay fresh; nothing where they do not."""
    if spacing <= 0.9 * max_image_age:  # farther apart, they may be too old at any moment
        return ""
    return (
        f"frames come up to {spacing:.1f} s apart, too far for max_image_age, {max_image_age:g} s: "
        f"set it to {2 * spacing:.1f} or more"
    )


class LiveCamera:
    """Gives the newest frame while it is fresh, which means no older than `max_image_age`.

    `explain_silence` says why no frame has arrived at all, where that ends a task. `clock` is the task's own.
    """

    def __init__(
        self,
        newest: Callable[[], Frame | None],
        settings: EngineSettings,
        explain_silence: Callable[[], str] = lambda: SILENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._newest, self._settings, self.clock = newest, settings, clock
        self._explain_silence = explain_silence
        self.goal_reason: GoalReason = "active"
        """The reason why the policy has to hold for want of a frame, as of the last poll, or `active`."""
        self._polled_since: float | None = None
        self._last_poll = -math.inf
        self._last_usable = -math.inf
        """Arrival of the newest frame that could be read."""
        self._last_fresh = -math.inf
        """Time at which `poll` gave a frame last."""

    def poll(self, *, steady: bool = False) -> tuple[Frame | None, str]:
        """Give a fresh frame and an empty text, or None and the reason.

        With `steady`, a camera that was stale is fresh again once its frames come fast enough to stay so.

        Raises:
            TaskEnded: there has been none for `image_timeout` seconds. They count from the newest frame, but
                from the first poll at the earliest; after a stop of this process polling begins anew. Or
                frames have come too far apart for `stall_timeout` seconds.
        """
        now, steady_now = self.clock(), time.monotonic()
        pause = steady_now - self._last_poll
        # Whoever has not polled for five periods was stopped, with the whole process.
        if self._polled_since is None or pause > 5 / self._settings.track_rate:
            self._polled_since = now
        self._last_poll = steady_now
        frame, error, reason = self._read()
        since, limit = self._last_usable, self._settings.image_timeout
        if steady and frame is not None and self.goal_reason == "stale":
            reason = explain_spacing(frame.spacing, self._settings.max_image_age)
            frame, error = (None, ErrorCode.STALE_IMAGE) if reason else (frame, error)
            since, limit = self._last_fresh, self._settings.stall_timeout
        self.goal_reason = _GOAL_REASONS.get(error, "blind")
        if frame is not None:
            self._last_fresh = now
            return frame, ""
        if now - max(self._polled_since, since) >= limit:
            raise TaskEnded(error, self._explain_silence() if error is ErrorCode.NO_IMAGE else reason)
        return None, reason

    def fresh_frame(self) -> Frame | None:
        """Give a fresh frame if there is one."""
        return self._read()[0]

    def restart_timeout(self) -> None:
        """Count the time without frames from the next poll on: nobody has polled for a while."""
        self._polled_since = None

    def _read(self) -> tuple[Frame | None, ErrorCode, str]:
        try:
            frame = self._newest()
        except ValueError as e:
            return None, ErrorCode.BAD_IMAGE, f"the camera's frames cannot be read: {e}"
        if frame is None:
            return None, ErrorCode.NO_IMAGE, SILENCE
        self._last_usable = max(self._last_usable, frame.received)
        age = self.clock() - frame.received
        if age > self._settings.max_image_age:
            return None, ErrorCode.STALE_IMAGE, f"the camera stopped: its newest frame is {age:.1f} s old"
        return frame, ErrorCode.NONE, ""
