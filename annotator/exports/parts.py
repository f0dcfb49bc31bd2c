"""Find the parts of a robot, as the left arm or the gripper, by the names of a vector's dimensions."""

import re
from itertools import groupby
from typing import Any

WHOLE = "all"
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PARTS = {
    "gripper": {"gripper", "grip", "claw", "jaw"},
    "hand": {"hand", "finger", "thumb", "index", "middle", "ring", "pinky", "little", "palm"},
    "leg": {"leg", "hip", "knee", "ankle", "foot"},
    "arm": {"arm", "shoulder", "elbow", "forearm", "wrist"},
    "neck": {"neck", "head"},
    "waist": {"waist", "torso"},
}
_UNSIDED = {"neck", "waist"}
"""With a side, these names mean a joint of an arm, as ALOHA's `left_waist`."""


def parts(names: Any, dims: int) -> dict[str, tuple[int, int]]:
    """Map each part to its dimensions, from and to (exclusive), of a vector whose feature has these `names`.

    A dictionary of several lists names the parts. Else each name does, by what is known of joints and sides.
    A name that is not known is the arm where others are, as `x` beside `gripper`. Where nothing is known, or
    a part lies in two places, all is one part.

    >>> parts(["x", "y", "z", "gripper"], 4)
    {'arm': (0, 3), 'gripper': (3, 4)}
    """
    groups = _groups(names)
    if sum(len(group) for _, group in groups) != dims:
        return {WHOLE: (0, dims)}
    if len(groups) == 1:
        groups = [(part, list(group)) for part, group in groupby(groups[0][1], _part)]
        if all(part is None for part, _ in groups):
            return {WHOLE: (0, dims)}
        named_parts = [(part or "arm", name) for part, group in groups for name in group]
        groups = [(part, list(group)) for part, group in groupby(named_parts, lambda pair: pair[0])]
    ranges: dict[str, tuple[int, int]] = {}
    at = 0
    for part, group in groups:
        if part in ranges:
            return {WHOLE: (0, dims)}
        ranges[part] = (at, at + len(group))
        at += len(group)
    return ranges


def _groups(names: Any) -> list[tuple[str, list[str]]]:
    """Group names as lerobot's datasets hold them: a list, a list in a list, or a dictionary of lists."""
    if isinstance(names, dict):
        return [
            (str(key), list(group) if isinstance(group, list) else [str(group)])
            for key, group in names.items()
        ]
    flat = [name for group in names or () for name in (group if isinstance(group, list) else [group])]
    return [("", [str(name) for name in flat])]


def _part(name: str) -> str | None:
    tokens = {word.lower() for word in _WORD.findall(name)}
    side = next((side for side in ("left", "right") if side in tokens), None)
    part = next((part for part, part_tokens in _PARTS.items() if tokens & part_tokens), None)
    if side is None:
        return part
    return f"{side}_{'arm' if part is None or part in _UNSIDED else part}"
