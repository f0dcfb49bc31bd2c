"""Evidence that an episode is of another task, or not whole, beside that among the labelled ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.examples.warp import Numbers

# An episode is refused if it is unlike the examples, which are alike:
_UNLIKE = (0.14, 0.08)  # costs, plain and weighed: both must be exceeded,
_OWN = (1.1, 0.8)  # and so must both of so many times the examples' own
_ALONE = 3.0  # so many times the share of the motion that nothing goes with, among the examples
_LITTLE = 0.05  # added to that share, the episode's and theirs
_MISSED, _TIMES = 0.12, 1.3  # by how much, and how many times, a boundary costs more than any of theirs
_REACHED, _LESS = 0.9, 0.1  # share of an example that it reaches, and by how much less than they do
_BACK = 0.75  # the same from its end back, where it starts no further from them than they from each other
_ELSEWHERE = 0.03  # by how much it starts further from them
_WAY_LEFT = 0.65  # share of the shortest first step's way, if it is in those of each of theirs
_LEAST = 1 / 3  # share of a dimension's change at a boundary, if each of theirs is at least
_OWN_LEAST = 0.5  # so much of that of the others
_LEAPS = 0.08  # share of the dimensions that leap at once

_APART = 6  # samples before and after a boundary between which a dimension changes
_NEARBY = np.arange(-5, 6)  # samples around a boundary in which the change is looked for
_WAY, _RANGE = 0.5, 0.1  # shares of its whole way, and of its scale, by which a dimension must change
_LEAP, _STEP = 3.0, 0.03  # times the examples' longest step, and the least such step in its scale


@dataclass(frozen=True, eq=False)
class Evidence:
    """The likeness of an episode to examples."""

    costs: tuple[float, float, float]
    """Distances along the path, of all features alike and weighed, and `Warp.alone`."""
    reached: tuple[float, float]
    """Share of an example that it reaches from its start, and from its end back."""
    start: float
    """Distance of its first place from that of the nearest example."""
    way: float
    """The way to its first boundary, by that in the example where it is shortest."""
    paid: NDArray[np.float64]
    """The price of each sample that was found for a boundary."""
    others: NDArray[np.float64]
    """Its distance from the boundary of theirs, other than this one, that is most like it."""
    moved: Numbers
    """Its changes at the boundaries (`moved`)."""
    leaps: float
    """Share of the dimensions that leap at once (`leaps`)."""


def refusal(found: Evidence, tests: Sequence[Evidence]) -> str | None:
    """Give the reason why an episode is none of the task, or not whole; None where there is none.

    `tests` holds the evidence of each example beside the others, and nothing where there is one example.
    """
    ends, begins = (min((t.reached[i] + _LESS for t in tests), default=1.0) for i in (0, 1))
    if found.reached[0] < min(_REACHED, ends):
        return f"it ends where the labelled episodes are {found.reached[0]:.0%} through"
    if not tests:
        return None
    *among, alone = (max(test.costs[i] for test in tests) for i in range(3))
    limits = (max(least, own * usual) for least, own, usual in zip(_UNLIKE, _OWN, among, strict=True))
    is_far = all(cost > limit for cost, limit in zip(found.costs, limits, strict=False))
    if is_far or found.costs[2] + _LITTLE > _ALONE * (alone + _LITTLE):
        return "it is unlike the labelled episodes"
    if found.way < min(_WAY_LEFT, *(test.way for test in tests)):
        return f"its first step lacks {1 - found.way:.0%} of the way that it has in the labelled episodes"
    is_elsewhere = found.start > max(test.start for test in tests) + _ELSEWHERE
    if found.reached[1] < min(_REACHED if is_elsewhere else _BACK, begins):
        return f"it begins where the labelled episodes are {1 - found.reached[1]:.0%} through"
    if found.leaps > _LEAPS:
        return "a part of it is missing: it leaps to another place"
    alike = [test for test in tests if len(test.paid) == len(found.paid)]
    if alike:
        least = np.fmin.reduce([test.moved for test in alike])
        if ((found.moved < _LEAST) & ~(least < _OWN_LEAST)).any():
            return "it does not do at a boundary what the labelled episodes do"
    return None


def is_dear(found: Evidence, tests: Sequence[Evidence]) -> NDArray[np.bool_]:
    """Tell which boundaries cost more than in those of the `tests` that have as many.

    Much more, or so that another boundary is more alike, as where steps come in another order.
    """
    same = [test.paid for test in tests if len(test.paid) == len(found.paid)]
    usual = np.max(same, axis=0, initial=0.0)
    is_another = (found.others < found.paid) & (found.paid > usual)
    return is_another | (found.paid > np.maximum(usual + _MISSED, usual * _TIMES))


def moved(
    episode: Numbers, samples: Sequence[int], examples: Sequence[Numbers], marks: Sequence[Sequence[int]]
) -> Numbers:
    """Measure the change of each dimension at boundaries, as a share of the change in the examples.

    NaN where it is less in an example than half of the dimension's way, or not to the same side: so it is
    with an arm, and not with a hand that closes or opens.

    Args:
        episode: places in their scale, (samples, dimensions).
        samples: its boundaries.
        examples: places of each example that has as many boundaries.
        marks: their boundaries.

    Returns:
        Shares, (boundaries, dimensions).
    """
    shares = np.full((len(samples), episode.shape[1]), np.nan)
    least = np.array([np.maximum(_RANGE, _WAY * np.ptp(places, axis=0)) for places in examples])
    for at, sample in enumerate(samples):
        theirs = np.array(
            [_change(e, np.array([its[at]]))[0] for e, its in zip(examples, marks, strict=True)]
        )
        usual = np.median(theirs, axis=0)
        counts = (theirs * np.sign(usual) >= least).all(axis=0)
        own = (_change(episode, sample + _NEARBY) * np.sign(usual)).max(axis=0)
        shares[at, counts] = own[counts] / np.abs(usual[counts])
    return shares


def way_to(places: Numbers, sample: int) -> float:
    """Measure the way that an episode makes until a sample."""
    return float(np.linalg.norm(np.diff(places[: sample + 1], axis=0), axis=1).sum())


def leaps(episode: Numbers, examples: Sequence[Numbers]) -> float:
    """Measure the greatest share of dimensions that at once make a much longer step than in the examples.

    All are places in their scale, (samples, dimensions). What is odd at an episode's ends is no leap.
    """
    longest = np.max([np.abs(np.diff(places, axis=0)).max(axis=0) for places in examples], axis=0)
    far = np.abs(np.diff(episode[1:-1], axis=0)) > _LEAP * np.maximum(longest, _STEP)
    return float(far.mean(axis=1).max(initial=0.0)) if far.size else 0.0


def _change(places: Numbers, samples: NDArray[np.int64]) -> Numbers:
    """The change from some samples before to some after each of `samples`: (samples, dimensions)."""
    last = len(places) - 1
    return places[np.clip(samples + _APART, 0, last)] - places[np.clip(samples - _APART, 0, last)]
