"""Find the numbers of a recording that are the gripper and those that are the end-effector's position.

The names decide, else the behaviour (a gripper's signal has two levels and steps between them). A layout of
the user overrides both.
"""

import re
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, NonNegativeInt

from goalreel.errors import InputError
from goalreel.planners.kinematic.signals import hand_signal, moves, two_levels
from goalreel.types import Recording

_GRIPPER = re.compile(r"grip|finger|hand|thumb|pinky|claw|jaw|pinch|(?:^|[^a-z])ee_?f?_?width", re.IGNORECASE)
_TWO_LEVELS = 0.85
"""The two levels of a gripper's signal explain at least this share of its variance."""
_RATE = re.compile(r"vel|force|torque|effort|current", re.IGNORECASE)
_NOT_A_PLACE = frozenset(
    ("rot", "rotation", "quat", "q", "ori", "orientation", "angle", "vel", "velocity", "force")
)
_JOINT = re.compile(r"wrist|shoulder|elbow|waist|hip|knee|ankle|head|neck|torso|joint_?pos", re.IGNORECASE)


class Unsegmentable(ValueError):
    """An episode cannot be cut into segments; the message is one line."""


class Layout(BaseModel):
    """Dimensions by index. An empty or None field is found automatically.

    >>> Layout.parse("gripper=6,position=0:3,closed=high")
    Layout(gripper=(6,), position=(0, 1, 2), vertical=None, closed='high', source='state')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gripper: tuple[NonNegativeInt, ...] = ()
    """Dimensions of `source`: one, or all the finger joints of one hand."""
    position: tuple[NonNegativeInt, ...] = ()
    """Dimensions of `observation.state`, or of `action` without one: the end-effector in metres, or arm
    joints."""
    vertical: NonNegativeInt | None = None
    """The dimension that grows upwards, when there is one."""
    closed: Literal["low", "high"] | None = None
    """Which end of the gripper's range is closed."""
    source: Literal["state", "action"] = "state"
    """The feature that holds the gripper."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `gripper=6,position=0:3,vertical=2,closed=high,source=action`; `+` joins spans.

        Raises:
            InputError: the text is no layout; the message shows how to write one.
        """
        fields: dict[str, object] = {}
        try:
            for item in filter(None, text.replace(" ", "").split(",")):
                key, _, value = item.partition("=")
                fields[key] = _indices(value) if key in ("gripper", "position") else value
            return cls.model_validate(fields)
        except ValueError as e:
            raise InputError(
                f"layout {text!r} is not understood: write it like "
                "'gripper=6,position=0:3,vertical=2,closed=high,source=state'"
            ) from e


def _indices(text: str) -> tuple[int, ...]:
    indices: list[int] = []
    for part in text.split("+"):
        first, colon, last = part.partition(":")
        indices += range(int(first), int(last)) if colon else [int(first)]
    return tuple(indices)


def find_layout(recording: Recording, hint: Layout | None = None) -> Layout:
    """Find the fields that `hint` leaves open.

    Raises:
        Unsegmentable: an index of `hint` lies outside the recording.
    """
    hint = hint or Layout()
    body, body_names = _body(recording)
    layout = hint if hint.gripper else _find_gripper(recording, hint)
    source = recording.state if layout.source == "state" else recording.action
    _check(layout.gripper, source.shape[1], f"gripper (in {layout.source})")
    _check((*layout.position, *_optional(layout.vertical)), body.shape[1], "position")
    if layout.position:
        return layout
    position, vertical = _find_position(body_names, body.shape[1], layout.gripper if source is body else ())
    return layout.model_copy(
        update={"position": position, "vertical": vertical if hint.vertical is None else hint.vertical}
    )


def _body(recording: Recording) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The numbers of the arm's place: the state, or the action where there is no state."""
    if recording.state.shape[1]:
        return recording.state, recording.state_names
    return recording.action, recording.action_names


def _optional(index: int | None) -> tuple[int, ...]:
    return () if index is None else (index,)


def _check(indices: Sequence[int], dims: int, what: str) -> None:
    if any(i >= dims for i in indices):
        raise Unsegmentable(
            f"layout: {what} names dimension {max(indices)}, the recording has {dims} (from 0)"
        )


def _find_gripper(recording: Recording, layout: Layout) -> Layout:
    """Find the gripper: by name the hand that moves most, the state first; else by behaviour."""
    sources = (
        ("state", recording.state, recording.state_names),
        ("action", recording.action, recording.action_names),
    )
    hands = [
        (source, hand, hand_signal(values[:, hand]))
        for source, values, names in sources
        for hand in _named_hands(names, values.shape[1])
    ]
    moving = [hand for hand in hands if moves(hand[2])]
    pool = [hand for hand in moving if hand[0] == moving[0][0]] or hands[:1]
    if pool:
        source, hand, _ = max(pool, key=lambda h: float(np.ptp(h[2])))
        return layout.model_copy(update={"gripper": tuple(hand), "source": source})
    for source, values, _ in sources:
        scores = [two_levels(column) for column in values.T]
        best = max(scores, default=0.0)
        if best >= _TWO_LEVELS:  # of nearly equal ones the last: by custom the gripper comes last
            last = max(i for i, score in enumerate(scores) if score >= max(_TWO_LEVELS, best - 0.1))
            return layout.model_copy(update={"gripper": (last,), "source": source})
    return layout


def moving_hands(recording: Recording) -> int:
    """Count the named hands that move, by at least a third of the one that moves most."""
    hands = _named_hands(recording.state_names, recording.state.shape[1])
    signals = [hand_signal(recording.state[:, hand]) for hand in hands]
    ranges = [float(np.ptp(signal)) for signal in signals if moves(signal)]
    return sum(3 * size >= max(ranges) for size in ranges)


def _named_hands(names: Sequence[str], dims: int) -> list[list[int]]:
    """Dimensions that belong to a gripper or a hand, one list for each side."""
    if len(names) != dims:
        return []
    sides: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        if _is_hand(name):
            sides.setdefault(_side(name), []).append(i)
    return list(sides.values())


def _is_hand(name: str) -> bool:
    return bool(_GRIPPER.search(name) and not _JOINT.search(name) and not _RATE.search(name))


def _side(name: str) -> str:
    """`l`, `r` or nothing, from `left_gripper`, `kRightHandIndex`, `l_finger`."""
    match = re.search(r"left|right|^[lr](?=[_.\-])", name, re.IGNORECASE)
    return match[0][0].lower() if match else ""


def _axis(name: str) -> str | None:
    """`x` of `x`, `ee_x`, `eef.pos.x`, `tcp_pos_x`; None for `wx`, `dx`, `rot_x` and the rest."""
    parts = re.split(r"[_.\-\s/]+", name.lower())
    return parts[-1] if parts[-1] in ("x", "y", "z") and not _NOT_A_PLACE & set(parts) else None


def _find_position(
    names: Sequence[str], dims: int, hand: Sequence[int]
) -> tuple[tuple[int, ...], int | None]:
    """(x, y, z) and z by name, else the joints of the arm with the hand and no vertical."""
    joints = [i for i in range(dims) if i not in hand]
    if len(names) != dims:
        return tuple(joints), None
    side = _side(names[hand[0]]) if hand else ""
    near = [i for i in joints if not side or _side(names[i]) in (side, "")]
    axes = {_axis(names[i]): i for i in reversed(near)}
    if {"x", "y", "z"} <= axes.keys():
        return (axes["x"], axes["y"], axes["z"]), axes["z"]
    arm = [i for i in near if not _is_hand(names[i])]
    return tuple(arm or joints), None
