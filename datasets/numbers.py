"""Which features of a dataset hold the robot's state and its action, whatever they are called."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import Any

from goalreel.errors import InputError

type Features = Mapping[str, Mapping[str, Any]]

_ALIASES = {
    "state": ("observation.state", "state", "states", "observation.states", "qpos", "observation.qpos"),
    "action": ("action", "actions"),
}
"""Names by which a feature is found, the best first."""
_GROUPS = {
    "state": ("observation.state.", "observation.states.", "state.", "states."),
    "action": ("action.", "actions."),
}
"""Beginnings of the names of features that hold the parts."""
_RATE = re.compile(r"vel|force|torque|effort|current", re.IGNORECASE)
_OWN = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class NumberFeatures:
    """Names of features, whose dimensions are joined in this order; empty where there is none."""

    state: tuple[str, ...]
    action: tuple[str, ...]


def find_numbers(features: Features, state: Sequence[str] = (), action: Sequence[str] = ()) -> NumberFeatures:
    """Find the features of the state and the action; those that a person names are taken.

    Raises:
        InputError: the dataset has no such feature of numbers.
    """
    return NumberFeatures(_find(features, "state", tuple(state)), _find(features, "action", tuple(action)))


def number_features(features: Features) -> list[str]:
    """The names of all features of numbers, but for those that count frames and tell times."""
    return [n for n, f in features.items() if n not in _OWN and re.match(r"float|u?int", str(f.get("dtype")))]


def dimension_names(features: Features, chosen: Sequence[str]) -> tuple[str, ...]:
    """A name for each dimension of the joined features; empty where a lone feature has none.

    Of joined features it has what tells them apart, where their own names do not: `left_gripper` for the
    `gripper` of `observation.state.left`.
    """
    parts = [feature.split(".") for feature in chosen]
    levels = zip(*(part[:-1] for part in parts), strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len({*level}) == 1, levels))
    own_names = [_names(features[feature]) for feature in chosen]
    names: list[str] = []
    for feature, part, dims_names in zip(chosen, parts, own_names, strict=True):
        owner, dims = "_".join(part[shared:]), prod(features[feature]["shape"])
        if len(chosen) > 1 and len(dims_names) != dims:
            dims_names = (owner,) if dims == 1 else tuple(f"{owner}_{i}" for i in range(dims))
        elif sum(bool({*dims_names} & {*others}) for others in own_names) > 1:
            dims_names = tuple(f"{owner}_{name}" for name in dims_names)
        names += dims_names
    return tuple(names)


def _find(features: Features, role: str, chosen: tuple[str, ...]) -> tuple[str, ...]:
    numeric = number_features(features)
    if missing := [name for name in chosen if name not in numeric]:
        raise InputError(
            f"layout: {role}={missing[0]} is no feature of numbers: the dataset has {', '.join(numeric)}"
        )
    if chosen:
        return chosen
    for name in _ALIASES[role]:
        if name in numeric:
            return (name,)
    for prefix in _GROUPS[role]:
        if parts := tuple(n for n in numeric if n.startswith(prefix) and not _RATE.search(n)):
            return parts
    return ()


def _names(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Dimension names; lerobot datasets hold a list, a list in a list, or a dictionary of lists."""
    names = feature.get("names")
    if isinstance(names, dict):
        names = [n for group in names.values() for n in (group if isinstance(group, list) else [group])]
    flat = [n for group in names or [] for n in (group if isinstance(group, list) else [group])]
    return tuple(str(n) for n in flat)
