"""When to ask the Critic whether a sub-goal is reached, and when to give the plan up. Plain arithmetic."""

import math
from typing import Literal

from goalreel.streaming.settings import EngineSettings

type Decision = Literal["wait", "ask", "stalled", "left"]

STEP = 0.05
"""Gain in closeness that counts as progress. A view whose closeness changes by no more is at rest."""
REST = 1.0
"""Seconds at rest after which the Critic is asked, however far the view is from the goal: a drawn picture is
never matched, and of a small change it may hide most."""


class Tracker:
    """Follows one sub-goal. Times in seconds of any steady clock."""

    def __init__(self, settings: EngineSettings, now: float) -> None:
        self._settings = settings
        self._asked: float | None = None
        self.restart(now)

    def restart(self, now: float) -> None:
        """Start counting time anew, as after a pause."""
        self._best = -math.inf
        self._improved = now
        self._near = now
        self._last_word = False
        self._rest, self._rested = math.nan, now
        self._asked_at = 0.0

    def look(self, now: float, closeness: float) -> Decision:
        """Decide what to do about a live view. `closeness` is `vision.Closeness`'s, or NaN."""
        s = self._settings
        if closeness > self._best + STEP:
            self._best, self._improved, self._last_word = closeness, now, False
        if not closeness < s.leave:
            self._near = now
        if not abs(closeness - self._rest) <= STEP:
            self._rest, self._rested = closeness, now
        if now - self._near >= s.leave_timeout:
            return "left"
        may_ask = self._asked is None or now - self._asked >= s.critic_period
        if now - self._improved >= s.stall_timeout:
            if self._last_word:
                return "stalled"
            # A goal image that is a little off may never be matched: the Critic has the last word.
            return self._ask(now, last=True) if may_ask else "wait"
        elsewhere = now - self._rested >= REST and abs(self._rest - self._asked_at) > STEP
        if may_ask and (elsewhere or not closeness < s.gate):
            return self._ask(now, last=False)
        return "wait"

    def unanswered(self) -> None:
        """Forget the last question, which came to no verdict: about a view still at rest it is put again."""
        self._asked_at = 0.0

    def _ask(self, now: float, *, last: bool) -> Decision:
        self._asked, self._asked_at, self._last_word = now, self._rest, last
        return "ask"
