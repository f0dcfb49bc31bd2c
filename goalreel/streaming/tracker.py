"""When to ask the Critic whether a sub-goal is reached, and when to re-plan. Plain arithmetic."""

import math
from typing import Literal

from goalreel.streaming.settings import EngineSettings

type Decision = Literal["wait", "ask", "stalled", "off_plan"]

PROGRESS = 0.05
"""Gain in closeness that counts as progress. A view whose closeness changes by no more is at rest."""
REST_SECONDS = 1.0
"""Seconds at rest after which the Critic is asked, however far the view is from the goal. A drawn picture is
never matched exactly, and most of a small change may be hidden."""


class Tracker:
    """Follows one sub-goal. Times are in seconds of any steady clock."""

    def __init__(self, settings: EngineSettings, now: float) -> None:
        self._settings = settings
        self._question_time: float | None = None
        self.restart(now)

    def restart(self, now: float) -> None:
        """Count time from now, as after a pause."""
        self._best = -math.inf
        self._best_time = now
        self._on_plan_time = now
        self._final_question = False
        self._rest, self._rest_time = math.nan, now
        self._question_closeness = 0.0

    def decide(self, now: float, closeness: float) -> Decision:
        """Decide what to do about a live view. `closeness` comes from `Closeness.measure`; it may be NaN."""
        s = self._settings
        if closeness > self._best + PROGRESS:
            self._best, self._best_time, self._final_question = closeness, now, False
        if not closeness < s.leave:
            self._on_plan_time = now
        if not abs(closeness - self._rest) <= PROGRESS:
            self._rest, self._rest_time = closeness, now
        if now - self._on_plan_time >= s.leave_timeout:
            return "off_plan"
        may_ask = self._question_time is None or now - self._question_time >= s.critic_period
        if now - self._best_time >= s.stall_timeout:
            if self._final_question:
                return "stalled"
            # A goal image that is slightly wrong may never be matched: the Critic decides.
            return self._ask(now, final=True) if may_ask else "wait"
        rests = now - self._rest_time >= REST_SECONDS
        is_new = abs(self._rest - self._question_closeness) > PROGRESS
        if may_ask and ((rests and is_new) or not closeness < s.gate):
            return self._ask(now, final=False)
        return "wait"

    def forget_question(self) -> None:
        """Forget the last question, which got no verdict: it is asked again about a view still at rest."""
        self._question_closeness = 0.0

    def _ask(self, now: float, *, final: bool) -> Decision:
        self._question_time, self._question_closeness, self._final_question = now, self._rest, final
        return "ask"
