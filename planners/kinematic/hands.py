"""Which dimensions of a dataset's recordings are its grippers: by name, else by behaviour."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import Layout, named_hands, side_of
from goalreel.planners.kinematic.signals import hand_signal, moves, two_levels, unwrap
from goalreel.types import Recording

type Confidence = Literal["given", "certain", "likely", "unknown"]

_TWO_LEVELS = 0.85
"""The two levels of a gripper's signal explain at least this share of its variance."""
_SECOND_HAND = 1 / 3
"""A second hand moves by at least this share of the one that moves most."""
_TOGETHER = 0.95
"""Correlation from which two dimensions are fingers of one hand."""
_SIDES: dict[str, Literal["left", "right"]] = {"l": "left", "r": "right"}

type Hand = tuple[Layout, Confidence, str]
"""A layout with its gripper, how sure that is, and why."""


def find_hands(recordings: Sequence[Recording], hint: Layout, sample: str) -> list[Hand]:
    """The grippers, at most two, the one that moves most first: by name in the state, then in the action,
    else by behaviour."""
    hands: list[tuple[float, Layout, str]] = []
    for source in ("state", "action"):
        names, dims = names_of(recordings[0], source), values_of(recordings[0], source).shape[1]
        for hand in named_hands(names, dims):
            curves = [hand_signal(values_of(r, source)[:, hand]) for r in recordings]
            size = max((float(np.ptp(c)) for c in curves if moves(c)), default=0.0)
            side = _SIDES.get(side_of(names[hand[0]]))
            layout = hint.model_copy(update={"gripper": tuple(hand), "source": source, "side": side})
            hands.append((size, layout, ", ".join(names[i] for i in hand)))
        if any(size for size, _, _ in hands):
            break
    else:
        hands = hands[:1]
    greatest = max((size for size, _, _ in hands), default=0.0)
    hands = sorted(hands, key=lambda hand: -hand[0])[:2]
    if hands:
        return [
            (layout, "certain", f"named {text}")
            for size, layout, text in hands
            if size >= _SECOND_HAND * greatest and (size or not greatest)
        ]
    return _find_by_behaviour(recordings, hint, sample)


def _find_by_behaviour(recordings: Sequence[Recording], hint: Layout, sample: str) -> list[Hand]:
    """The last dimension whose signal has two levels, and the one in the same place of the other half."""
    for source in ("state", "action"):
        values = [values_of(r, source) for r in recordings]
        dims = values[0].shape[1]
        base = hint.base if hint.base_source == source else ()
        scores = [0.0 if i in base else _two_levels([v[:, i] for v in values]) for i in range(dims)]
        best = max(scores, default=0.0)
        if best < _TWO_LEVELS:
            continue
        last = max(i for i, score in enumerate(scores) if score >= max(_TWO_LEVELS, best - 0.1))
        hands = [last]
        if dims % 2 == 0 and scores[twin := (last + dims // 2) % dims] >= _TWO_LEVELS:
            hands.append(twin)
        reason = f"goes between two levels in {sample}"
        return [
            (hint.model_copy(update={"gripper": (i,), "source": source}), "likely", reason) for i in hands
        ]
    return []


def fingers(recordings: Sequence[Recording], layout: Layout) -> tuple[int, ...]:
    """The gripper's dimensions and those next to them that go along with them: they are no arm."""
    values = [values_of(recording, layout.source) for recording in recordings]
    hand = sorted(layout.gripper)
    for edge, step in ((hand[0], -1), (hand[-1], 1)):
        while 0 <= (other := edge + step) < values[0].shape[1] and _go_together(values, edge, other):
            hand.append(other)
            edge = other
    return tuple(sorted(hand))


def _go_together(values: Sequence[NDArray[np.floating]], first: int, second: int) -> bool:
    pairs = [v[:, (first, second)] for v in values if np.ptp(v[:, first]) and np.ptp(v[:, second])]
    return bool(pairs and abs(np.mean([np.corrcoef(p.T)[0, 1] for p in pairs])) >= _TOGETHER)


def _two_levels(columns: Sequence[NDArray[np.floating]]) -> float:
    """How much of a dimension's variance two levels explain, over the episodes in which it moves."""
    scores = [two_levels(column) for column in columns if moves(unwrap(column))]
    return float(np.mean(scores)) if 3 * len(scores) >= len(columns) and scores else 0.0


def values_of(recording: Recording, source: str) -> NDArray[np.float32]:
    """The numbers of the state or the action."""
    return recording.state if source == "state" else recording.action


def names_of(recording: Recording, source: str) -> tuple[str, ...]:
    """The names of their dimensions, or nothing."""
    return recording.state_names if source == "state" else recording.action_names
