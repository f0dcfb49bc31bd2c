"""Recordings of robots without pictures, whose numbers a test may write in any form."""

import numpy as np

from support.arms import Motions

HOME = np.array([0.3, 0.0, 0.3])


def made_by(state, action, state_names=(), action_names=(), fps=20.0, **more):
    """A recording of somebody's robot."""
    words = more.pop("instruction", "put the cup in the box")
    return Motions(words, state, state_names, action_names, fps, commands=action, **more)


def pick_and_place(rng, fps=20.0, *, starts_closed=False, width=0.4):
    """The arm's place (n, 3), how open the hand is (n,), and how open it is told to be.

    The hand moves on its way where it holds nothing, and with the arm standing where it takes or leaves.
    """
    rows = [[*HOME, 0.0 if starts_closed else 1.0, 0.0 if starts_closed else 1.0]]

    def go(to, seconds, hand, command):
        here, there = np.array(rows[-1]), np.array([*to, hand, command])
        for t in np.linspace(0, 1, max(2, round(seconds * fps)) + 1)[1:]:
            rows.append(here + (there - here) * (3 * t**2 - 2 * t**3))

    a, b = (np.array([*rng.uniform((0.4, -0.3), (0.7, 0.3)), 0.02]) for _ in range(2))
    up = np.array([0, 0, 0.15])
    go(a + up, 1.0, 1.0, 1.0)
    go(a, 0.6, 1.0, 1.0)
    go(a, 0.4, width, 0.25 * width)
    go(a + up, 0.6, width, 0.25 * width)
    go(b + up, 1.2, width, 0.25 * width)
    go(b, 0.6, width, 0.25 * width)
    go(b, 0.4, 1.0, 1.0)
    go(b + up, 0.5, 1.0, 1.0)
    rest = 0.0 if starts_closed else 1.0
    go(HOME, 0.8, rest, rest)
    go(HOME, 0.5, rest, rest)
    return np.array(rows)


def cuts(fps):
    """Frames at which the hand of `pick_and_place` has closed and has opened, and its length."""
    seconds = (1.0, 0.6, 0.4, 0.6, 1.2, 0.6, 0.4, 0.5, 0.8, 0.5)
    ends = 1 + np.cumsum([max(2, round(s * fps)) for s in seconds])
    return [int(ends[at]) for at in (2, 6, 9)]


def joints(path):
    """Five joint angles for places, as an arm's: each depends on all axes."""
    return 60 * np.sin(path @ np.random.default_rng(7).normal(size=(3, 5)) + 0.3)
