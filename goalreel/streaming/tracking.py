"""Measure how far the live view has come to the goal; decide when to ask the Critic, and when to re-plan."""

import math
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.critics.difference import differing
from goalreel.image import Image
from goalreel.streaming.settings import EngineSettings

WIDTH = 160
"""Pictures are compared at this width at most, which also smooths camera noise."""
LEVEL = 20
"""Grey levels (of 255) by which a pixel must differ to count."""

THIN = 3
"""Differences fewer pixels wide do not count, such as edges that a drawn picture has slightly elsewhere
(dev/LOG.md, 2026-11-26)."""

type SmallPixels = NDArray[np.int16]


def shrink(image: Image, size: tuple[int, int] | None = None) -> SmallPixels:
    """Make the picture for comparison, (h, w, 3): of `size` (w, h), or at most WIDTH pixels wide."""
    if size is None:
        width = min(WIDTH, image.size[0])
        size = width, max(1, round(image.size[1] * width / image.size[0]))
    small = cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA)
    return cv2.GaussianBlur(small, (0, 0), 1.0).astype(np.int16)


def changed_share(first: Image, second: Image) -> float:
    """Measure the share of the picture, 0-1, that differs, apart from a global shift in brightness.

    Pictures of different sizes are compared at the size of `first`.
    """
    a = shrink(first)
    return _share(a, shrink(second, (a.shape[1], a.shape[0])))


def _share(a: SmallPixels, b: SmallPixels) -> float:
    """Share of the pixels, 0-1, in which two pictures of one size differ, without thin differences."""
    differs = differing(a, b, LEVEL).astype(np.uint8)
    return float(cv2.morphologyEx(differs, cv2.MORPH_OPEN, np.ones((THIN, THIN), np.uint8)).mean())


class Closeness:
    """Places a live view between a start (0) and a goal (1).

    Below 0 the view is farther from the goal than the start is. NaN where start and goal look the same.
    """

    def __init__(self, start: Image, goal: Image) -> None:
        self._goal = shrink(goal)
        self._size = self._goal.shape[1], self._goal.shape[0]
        self._distance = _share(self._goal, shrink(start, self._size))

    def measure(self, live: Image) -> float:
        """Measure one live view."""
        if self._distance == 0:
            return math.nan
        return 1 - _share(self._goal, shrink(live, self._size)) / self._distance


type Decision = Literal["wait", "ask", "stalled"]

PROGRESS = 0.05
"""Gain in closeness that counts as progress. A view whose closeness changes by no more is at rest."""
REST_SECONDS = 1.0
"""Seconds at rest after which the Critic is asked, however far the view is from the goal. A drawn picture is
never matched exactly, and most of a small change may be hidden."""
CUE_SECONDS = 10.0
"""Seconds after which the Critic is asked against a cue: labelled episodes may miss the end of a step."""


class Tracker:
    """Follows one sub-goal. Times are in seconds of any steady clock."""

    def __init__(self, settings: EngineSettings, now: float) -> None:
        self._settings = settings
        self._question_time: float | None = None
        self.restart(now)

    def restart(self, now: float) -> None:
        """Count time from now, as after a pause."""
        self._start = now
        self._best = -math.inf
        self._best_time = now
        self._final_question = False
        self._rest, self._rest_time = math.nan, now
        self._question_closeness = 0.0

    def decide(self, now: float, closeness: float, cue: bool | None = None) -> Decision:
        """Decide what to do about a live view.

        `closeness` comes from `Closeness.measure`; it may be NaN. `cue` says that the step seems done, or
        not yet; None says nothing.
        """
        s = self._settings
        if closeness > self._best + PROGRESS:
            self._best, self._best_time, self._final_question = closeness, now, False
        if not abs(closeness - self._rest) <= PROGRESS:
            self._rest, self._rest_time = closeness, now
        may_ask = self._question_time is None or now - self._question_time >= s.critic_period
        if now - self._best_time >= s.stall_timeout:
            if self._final_question:
                return "stalled"
            # A goal image that is slightly wrong may never be matched: the Critic decides.
            return self._ask(now, final=True) if may_ask else "wait"
        rests = now - self._rest_time >= REST_SECONDS
        is_new = abs(self._rest - self._question_closeness) > PROGRESS
        seems_done = (rests and is_new) or not closeness < s.gate
        if cue is not None:
            waits = now - max(self._start, self._question_time or -math.inf)
            seems_done = cue or (seems_done and waits >= CUE_SECONDS)
        if may_ask and seems_done:
            return self._ask(now, final=False)
        return "wait"

    def forget_question(self) -> None:
        """Forget the last question, which got no verdict: it is asked again about a view still at rest."""
        self._question_closeness = 0.0

    def _ask(self, now: float, *, final: bool) -> Decision:
        self._question_time, self._question_closeness, self._final_question = now, self._rest, final
        return "ask"
