"""Tell what the numbers of a recording are: places, or changes and speeds that become places when summed."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import values_of
from goalreel.planners.kinematic.signals import arm_moves, smooth, two_levels, unwrap
from goalreel.types import Recording

type Columns = Sequence[NDArray[np.floating]]
"""The dimensions of each episode, (n, dims)."""

_AWAY, _USUALLY = 3.0, 1.0
"""Places lie so many mean deviations from 0 in some dimension: 4.7 at least in 79 sets, their changes 2.2 at
most, as an arm goes forth and back and often stands; half of their dimensions 0.7 at most."""
_REST, _RESTS = 0.15, 0.02
"""An arm whose speeds are below this share of their mean stands. It does so on its way in this share of the
frames; places that are centred on 0 seem to do so in half of it at most."""
_STILL = 0.1  # share of its greatest speed below which a hand stands
_QUICK_S = 0.35  # seconds that speeds take to change by as much as they deviate; places take 0.25 to 3.7
_FEW = 50  # frames of episodes in which something moves, below which nothing is told
_FOLLOWS = 0.8  # correlation with another dimension's changes from which on one holds its speed
_SCALED = 0.05  # by how much the mean and deviation, or the ends, of scaled numbers miss 0 and 1
_SPEEDS = 3  # dimensions that do so, at least: in a short recording one may do so by chance


def find_rates(
    recordings: Sequence[Recording], hands: Sequence[Collection[int]] = (), base: Collection[int] = ()
) -> tuple[int, ...]:
    """The dimensions of the state, or of the action without one, that must be summed to be places.

    Those of `hands`, which may hold places though the arm does not, that have two levels when summed, and are
    mostly 0.
    """
    hand = {i for each in hands for i in each}
    columns = [unwrap(values_of(recording, "body")) for recording in recordings]
    arm = [i for i in range(columns[0].shape[1]) if i not in hand and i not in base]
    rates = [arm[i] for i in _rates([column[:, arm] for column in columns], recordings[0].fps)]

    def levels(of: Collection[int], *, summed: bool) -> float:
        curves = (column[:, i] for column in columns for i in of)
        return float(np.mean([two_levels(np.cumsum(c) if summed else c) for c in curves]))

    def is_still(of: Collection[int]) -> bool:
        sizes = np.abs(np.concatenate([column[:, [*of]] for column in columns]))
        return bool((sizes <= _STILL * sizes.max(axis=0)).mean() >= 0.5)

    if rates:
        hands = [of for of in hands if is_still(of)]
        rates += [i for of in hands if levels(of, summed=True) > levels(of, summed=False) for i in of]
    return tuple(sorted({*rates}))


def find_speeds(recordings: Sequence[Recording]) -> set[int]:
    """The dimensions of the body that hold the speed of another one."""
    columns = [smooth(values_of(r, "body"), round(0.2 * r.fps)) for r in recordings if len(r.timestamps) > 2]
    if not columns:
        return set()
    dims = columns[0].shape[1]
    total = np.zeros((dims, dims))
    for column in columns:
        both = np.concatenate([np.gradient(column, axis=0), column], axis=1)
        both -= both.mean(axis=0)
        both /= np.maximum(np.linalg.norm(both, axis=0), 1e-9)
        total += both[:, :dims].T @ both[:, dims:]
    follows = (total / len(columns) >= _FOLLOWS) & ~_away(columns)
    speeds, places = np.flatnonzero(follows.any(axis=0)), follows.any(axis=1)
    return {*speeds.tolist()} if min(len(speeds), places.sum()) >= _SPEEDS else set()


def are_scaled(recordings: Sequence[Recording]) -> bool:
    """Tell whether each dimension was scaled by itself, to a deviation of 1 about 0, or to -1 to 1: it cannot
    be compared to the action's."""
    body = np.concatenate([values_of(recording, "body") for recording in recordings])
    body = body[:, np.ptp(body, axis=0) > 0]
    ends = np.stack([body.min(axis=0) + 1, body.max(axis=0) - 1])
    moments = np.stack([body.mean(axis=0), body.std(axis=0) - 1])
    return body.shape[1] >= _SPEEDS and any((np.abs(miss) < _SCALED).all() for miss in (ends, moments))


def are_places(columns: Columns) -> bool:
    """Tell whether some dimension moves away from 0, as changes and speeds never do."""
    return any(arm_moves(column[:, [i]]) for i in np.flatnonzero(_away(columns)) for column in columns)


def _rates(columns: Columns, fps: float) -> list[int]:
    """All dimensions that are not constant but for noise, if they are rates, else none.

    Rates are centred on 0, and are all near it where the arm stands on its way, or change quickly.
    """
    columns = [column.astype(np.float64) for column in columns if np.ptp(column, axis=0).any()]
    if sum(map(len, columns)) < _FEW or are_places(columns):
        return []
    steps = np.mean([np.abs(np.diff(c, axis=0)).mean(axis=0) for c in columns], axis=0)
    deviation = _deviation(columns)
    live = np.flatnonzero((deviation > 0) & (steps > 0) & ~_away(columns))
    if not len(live) or np.median(_offset(columns)[live] / deviation[live]) > _USUALLY:
        return []
    size = np.sqrt(np.mean(np.concatenate(columns)[:, live] ** 2, axis=0))
    rests = frames = 0
    for column in columns:
        still = np.sqrt(((column[:, live] / size) ** 2).mean(axis=1)) < _REST
        moving = np.flatnonzero(~still)
        rests += int(still[moving[0] : moving[-1]].sum()) if len(moving) else 0
        frames += len(column)
    is_quick = float(np.median(deviation[live] / steps[live])) < _QUICK_S * fps
    return live.tolist() if rests >= _RESTS * frames or is_quick else []


def _away(columns: Columns) -> NDArray[np.bool_]:
    deviation = _deviation(columns)
    return (_offset(columns) >= _AWAY * deviation) & (deviation > 0)


def _offset(columns: Columns) -> NDArray[np.float64]:
    return np.abs(np.median(np.concatenate(columns), axis=0))


def _deviation(columns: Columns) -> NDArray[np.float64]:
    return np.mean([np.abs(c - np.median(c, axis=0)).mean(axis=0) for c in columns], axis=0)
