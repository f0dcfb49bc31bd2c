"""A cue from labelled episodes: whether the robot has done a step, which the Critic is then asked."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from goalreel.annotator.examples import read_examples
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.planners.examples.carry import Example
from goalreel.planners.examples.live import LiveSteps
from goalreel.planners.examples.slots import find_slots

_LONGEST_SILENCE = 1.0
"""Seconds without numbers of the robot after which they tell nothing."""


class ExamplesCue:
    """Says which steps a robot has done, by its state and labelled episodes. Safe from any thread."""

    def __init__(self, labelled: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the labelled episodes of a dataset. `clock` times the robot's numbers, in s.

        Raises:
            UserError: there are none, or the dataset names no numbers of its state.
        """
        source = Source.open(labelled)
        self._examples: dict[str, list[Example]] = {}
        for example in read_examples(labelled, source):
            self._examples.setdefault(example.instruction, []).append(example)
        self.names = tuple(_short(name) for name in source.episode(source.indices[0]).state_names)
        if not self.names:
            raise InputError(f"{labelled}: its state has no names, so that no robot can be compared with it")
        self._lock, self._clock = threading.Lock(), clock
        self._steps: dict[str, LiveSteps] = {}
        self._live: LiveSteps | None = None
        self._problem = "there is no task"
        self._newest: dict[str, tuple[float, float]] = {}
        """The time and the value of each number, by its name."""

    def enter(self, step: int) -> None:
        """Take it from the Critic that a step begins."""
        with self._lock:
            if self._live is not None:
                self._live.enter(step)

    def begin(self, task: str, steps: int, step: int = 0) -> None:
        """Follow a task of so many steps from `step` on. The first time takes a moment."""
        found = {text: find_slots(text, task) for text in self._examples}
        alike = sorted((len(slots), text) for text, slots in found.items() if slots is not None)
        live, problem = None, "no labelled episode has such an instruction"
        if alike:
            text, problem = alike[0][1], ""
            live = self._steps.get(text) or LiveSteps(self._examples[text], action=False)
            self._steps[text] = live
            if (known := len(live.examples[0].steps)) != steps:
                live, problem = None, f"the plan has {steps} steps and the labelled episodes {known}"
        with self._lock:
            self._live, self._problem = live, problem
            if live is not None:
                live.restart(step)

    def push(self, numbers: Mapping[str, float]) -> None:
        """Take the state of the robot, whole or in parts; `numbers` may hold more than the state."""
        now = self._clock()
        with self._lock:
            own = ((_short(name), value) for name, value in numbers.items())
            self._newest.update({name: (now, value) for name, value in own if name in self.names})
            if self._live is not None and not self._missing(now):
                self._live.push(now, np.array([self._newest[name][1] for name in self.names]))

    def is_left(self, step: int) -> bool | None:
        """True if the robot has done that step; None where nothing can be said."""
        with self._lock:
            if self._live is None or self._missing(self._clock()):
                return None
            return self._live.is_left(step)

    def describe(self, step: int) -> str:
        """Say in a line what is known of that step."""
        done = self.is_left(step)
        if done is not None:
            return f"step {step + 1} {'is done' if done else 'is under way'}"
        with self._lock:
            if self._live is None:
                return f"no cue: {self._problem}"
            if missing := self._missing(self._clock()):
                return f"no cue: the robot sends no {', '.join(missing[:3])}"
            if self._live.is_unlike:
                return "no cue: the robot moves unlike them"
        return "no cue: they do not find its end in each other"

    def _missing(self, now: float) -> list[str]:
        """The numbers that have not come for a while."""
        return [n for n in self.names if now - self._newest.get(n, (-np.inf, 0))[0] > _LONGEST_SILENCE]


def _short(name: str) -> str:
    """A number's name as drivers have it: LeRobot's positions end with .pos."""
    return name.removesuffix(".pos")
