"""A robot's mobile base: which numbers tell of it, and when it drives while the arm stands."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.signals import Curve, moves, smooth, unwrap
from goalreel.types import Recording

_BASE = frozenset(("base", "chassis", "odom", "odometry", "wheel", "wheels"))
_ALONG = frozenset(("x", "y", "vx", "vy", "linear", "forward", "lateral"))
_TURN = frozenset(("theta", "yaw", "heading", "vtheta", "omega", "wz", "angular"))
_RATE_WORDS = "vel velocity speed linear angular vx vy vz vtheta omega wx wy wz"
_RATE = frozenset(_RATE_WORDS.split())
_FREE = frozenset(("z", "vz", "roll", "pitch", "rx", "ry", "wx", "wy"))
"""What a hand's velocity has and a base's has not."""
_ARM_WORDS = "ee eef tcp tool end effector arm hand wrist gripper finger joint head camera object target"
_ARM = frozenset(_ARM_WORDS.split())
"""No base, but the place of something as the base sees it: `base_ee_x`."""
_ROBOTS = ((r"lekiwi", 9, 3), (r"aloha", 16, 2))
"""A robot type, the dimensions of its state or action, and how many of them, the last, are the base's.

Sources: lerobot 0.6 (`lekiwi`: x.vel, y.vel, theta.vel), Mobile ALOHA (`base_action`).
"""
_TRAVEL = 0.05
"""Metres or radians that a drive covers, at least."""
_LEAST_S, _GAP_S = 1.0, 0.5
"""Seconds that a drive takes, at least, and seconds that part two drives."""
_DRIVES = 0.15
"""Share of its greatest speed above which a base drives."""
_STANDS = 0.2
"""Share of its greatest speed below which an arm stands."""


def find_base(
    recording: Recording, robot_type: str | None
) -> tuple[tuple[int, ...], Literal["state", "action"], str]:
    """The dimensions of a mobile base, the feature that holds them, and why; none where nothing tells.

    A state that holds a base is preferred to an action that does.
    """
    for source, names, values in (
        ("state", recording.state_names, recording.state),
        ("action", recording.action_names, recording.action),
    ):
        dims = values.shape[1]
        if len(names) == dims and (found := named_base(names)):
            return found, source, f"named {', '.join(names[i] for i in found)}"
        if names:
            continue
        for pattern, size, last in _ROBOTS:
            if dims == size and re.search(pattern, robot_type or "", re.IGNORECASE):
                return tuple(range(dims - last, dims)), source, f"the last {last} of a {robot_type}'s {size}"
    return (), "state", ""


def named_base(names: Sequence[str]) -> tuple[int, ...]:
    """The dimensions that are named after a mobile base, or that are the velocity of one in a plane.

    >>> named_base(["arm_gripper.pos", "x.vel", "y.vel", "theta.vel"]), named_base(["base_x", "base_vx"])
    ((1, 2, 3), (0, 1))
    >>> named_base(["x.vel", "y.vel", "z.vel"]), named_base(["base.pos", "shoulder.pos"])
    ((), ())
    """
    words = [_words(name) for name in names]
    marked = [i for i, w in enumerate(words) if w & _BASE and not w & _ARM]
    if any(words[i] & (_ALONG | {"wheel", "wheels"}) for i in marked):
        return tuple(marked)
    rates = [i for i, w in enumerate(words) if w & _RATE and not w & (_ARM | _BASE)]
    plane = [i for i in rates if words[i] - {"vel", "velocity", "speed"} <= _ALONG | _TURN]
    plane = [i for i in plane if words[i] & (_ALONG | _TURN)]
    both = any(words[i] & _ALONG for i in plane) and any(words[i] & _TURN for i in plane)
    return tuple(plane) if both and not any(words[i] & _FREE for i in rates) else ()


def _words(name: str) -> frozenset[str]:
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return frozenset(filter(None, re.split(r"[^a-z]+", parted)))


def find_drives(recording: Recording, layout: Layout, arm_speed: Curve) -> list[tuple[int, int]]:
    """Spans of frames [start, end) in which the base drives and the arm stands, in order.

    Args:
        recording: of the robot.
        layout: with the dimensions of the base.
        arm_speed: (n,), as `signals.arm_speed` computes it.
    """
    if not layout.base or len(recording.timestamps) < 2:
        return []
    from_state = layout.base_source == "state"
    values = recording.state if from_state else recording.action
    names = recording.state_names if from_state else recording.action_names
    rates = [
        bool(_words(names[i]) & _RATE) if len(names) == values.shape[1] else not from_state
        for i in layout.base
    ]
    drives = np.zeros(len(values), bool)
    speeds = [_speed(values[:, i], rate, recording.fps) for i, rate in zip(layout.base, rates, strict=True)]
    for speed in speeds:
        drives |= speed > _DRIVES * max(float(speed.max()), 1e-9)
    drives &= arm_speed <= _STANDS * arm_speed.max()
    gap, n = round(_GAP_S * recording.fps), len(values)
    spans = [(a if a >= gap else 0, b if n - b >= gap else n) for a, b in _spans(drives, gap)]
    return [
        (a, b)
        for a, b in spans
        if b - a >= _LEAST_S * recording.fps
        and max(float(speed[a:b].sum()) / recording.fps for speed in speeds) >= _TRAVEL
    ]


def _speed(values: NDArray[np.floating], rate: bool, fps: float) -> Curve:
    """How fast one dimension goes, (n,); 0 throughout for noise."""
    curve = values.astype(np.float64) if rate else unwrap(values)
    if not moves(curve):
        return np.zeros(len(curve))
    width = round(0.2 * fps)
    return np.abs(smooth(curve, width) if rate else smooth(np.gradient(smooth(curve, width)) * fps, width))


def _spans(mask: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Runs of frames of a mask; shorter gaps than `gap` are closed."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]]))).reshape(-1, 2)
    spans: list[tuple[int, int]] = []
    for start, end in edges.tolist():
        if spans and start - spans[-1][1] < gap:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans
