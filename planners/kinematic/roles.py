"""Tell what the dimensions of a robot are: by their names, and by how they move."""

import re
from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.planners.kinematic.layout import names_of, values_of
from goalreel.planners.kinematic.signals import arm_moves, smooth, two_levels, unwrap
from goalreel.planners.kinematic.words import words as word_set
from goalreel.types import Recording

_GRIPPER = re.compile(
    r"grip|finger|hand(?!le|over)|thumb|pinky|claw|jaw|pinch|suction|vacuum|(?:^|[^a-z])ee_?f?_?width",
    re.IGNORECASE,
)
_FINGER = re.compile(r"finger|knuckle|jaw|claw", re.IGNORECASE)
_DIGIT = re.compile(r"finger|thumb|pinky|index|middle|ring|little|knuckle|jaw|claw", re.IGNORECASE)
_RATE = re.compile(
    r"vel|force|torque|effort|current|temperature|voltage|load|pressure|tactile|touch|contact", re.IGNORECASE
)
"""Measures other than the place of a joint."""
_BODY = re.compile(r"wrist|shoulder|elbow|waist|hip|knee|ankle|head|neck|torso", re.IGNORECASE)
_JOINT = re.compile(rf"{_BODY.pattern}|joint_?pos", re.IGNORECASE)
_TURNS = word_set(
    "rot rotation rotvec quat quaternion q ori orient orientation angle euler rpy axisangle aa roll pitch "
    "yaw rx ry rz qx qy qz qw w"
)
_NOT_A_PLACE = _TURNS | word_set(
    "vel velocity speed rate linear angular twist omega force torque wrench ft acc accel acceleration imu "
    "gyro mag delta error"
)
"""Words before x, y and z of what is no place."""
_THINGS = word_set(
    "object obj cube block ball target goal camera cam marker tag base torso head odom chassis"
)
"""Whose place is not the hand's."""
_HAND = word_set("ee eef tcp tool end effector hand gripper wrist arm palm flange")
_PLAIN = word_set(
    "pos position place pose translation trans xyz cartesian state observation robot current actual measured "
    "left right l r follower motors"
)
"""Words before x, y and z that name no other thing."""
_FINGERS = ("index", "middle", "ring", "little")


def named_hands(names: Sequence[str], dims: int) -> list[list[int]]:
    """Dimensions that belong to a gripper or a hand, one list for each side."""
    if len(names) != dims:
        return []
    hands = [i for i, name in enumerate(names) if _is_hand(name)]
    if any(re.search("thumb|pinky", names[i], re.IGNORECASE) for i in hands):
        others = [i for i, name in enumerate(names) if any(word in _FINGERS for word in _words(name))]
        hands = sorted({*hands, *others})
    if not hands:
        return []
    arms_have_sides = any(side_of(name) for i, name in enumerate(names) if i not in hands)
    if not arms_have_sides and all(_FINGER.search(names[i]) for i in hands):
        return [hands]  # the left and the right finger of one gripper
    sides: dict[str, list[int]] = {}
    for i in hands:
        sides.setdefault(side_of(names[i]), []).append(i)
    return list(sides.values())


def is_of_arm(name: str) -> bool:
    """Tell whether a dimension is a joint of the arm, or tells where the hand is, by its name.

    >>> is_of_arm("wrist_roll"), is_of_arm("eef_x"), is_of_arm("motor_6")
    (True, True, False)
    """
    return bool(_BODY.search(name)) or _tells_place(name)


def side_of(name: str) -> str:
    """`l`, `r` or nothing, from `left_gripper`, `kRightHandIndex`, `l_finger`."""
    match = re.search(r"left|right|^[lr](?=[_.\-])", name, re.IGNORECASE)
    return match[0][0].lower() if match else ""


def find_position(
    names: Sequence[str],
    dims: int,
    hand: Sequence[int],
    base: Collection[int] = (),
    other: Sequence[int] = (),
) -> tuple[tuple[int, ...], int | None]:
    """(x, y, z) and z by name, else the joints of the arm with the hand, not the `other`, and no vertical."""
    joints = [i for i in range(dims) if i not in hand and i not in base]
    if len(names) != dims:
        return tuple(joints), None
    side = side_of(names[hand[0]]) if hand else ""
    near = [i for i in joints if not side or side_of(names[i]) in (side, "")]
    if hand and other and not side:
        near = _near_names(names, near, names[hand[0]], names[other[0]])
    if axes := _place(names, near, _words(names[hand[0]]) if hand else ()):
        return axes, axes[2]
    arm = [i for i in near if not _is_hand(names[i])]
    own = [i for i in arm if not _RATE.search(names[i]) and not _THINGS.intersection(_words(names[i]))]
    return tuple(own or arm or joints), None


def _near_names(names: Sequence[str], joints: Sequence[int], hand: str, other: str) -> list[int]:
    """The joints on the arm of a hand: `robot0_joint_1` with `robot0_gripper`, not with `robot1_gripper`."""
    own, others = {*_words(hand)} - {*_words(other)}, {*_words(other)} - {*_words(hand)}
    near = [i for i in joints if own.intersection(_words(names[i]))]
    return near or [i for i in joints if not others.intersection(_words(names[i]))]


def _place(names: Sequence[str], dims: Sequence[int], hand: Sequence[str]) -> tuple[int, int, int] | None:
    """The x, y and z of the hand: those named after it, or after nothing; others only if they are alone."""
    groups: dict[tuple[str, ...], dict[str, int]] = {}
    for i in dims:
        *owner, axis = _words(names[i]) or [""]
        if axis in ("x", "y", "z") and not _NOT_A_PLACE.intersection(owner):
            groups.setdefault(tuple(owner), {}).setdefault(axis, i)
    found = [
        (_rank(owner), -len({*owner} & {*hand}), (axes["x"], axes["y"], axes["z"]))
        for owner, axes in groups.items()
        if len(axes) == 3
    ]
    chosen = [item for item in found if item[0] < 2 or (item[0] == 2 and len(found) == 1)]
    return min(chosen, key=lambda item: item[:2])[2] if chosen else None


def _rank(owner: Collection[str]) -> int:
    words = {re.sub(r"\d+", "", word) for word in owner} - {""}
    if words & _HAND:
        return 0
    if words <= _PLAIN:
        return 1
    return 3 if words & _THINGS else 2


def _is_hand(name: str) -> bool:
    is_other = _JOINT.search(name) or _RATE.search(name) or _tells_place(name)
    return bool(_GRIPPER.search(name)) and not is_other


def _tells_place(name: str) -> bool:
    """Tell whether a name is of a place or an orientation; a finger's roll is a joint of its own."""
    words = _words(name)
    if words and words[-1] in ("x", "y", "z"):
        return True
    return not (_TURNS | {"pose"}).isdisjoint(words) and not _DIGIT.search(name)


def _words(name: str, pattern: str = "[a-z0-9]+") -> list[str]:
    return re.findall(pattern, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


_BASE = word_set("base chassis odom odometry wheel wheels")
_ALONG = word_set("x y vx vy linear forward lateral")
_TURN = word_set("theta yaw heading vtheta omega wz angular")
_VELOCITY = word_set("vel velocity speed linear angular vx vy vz vtheta omega wx wy wz")
_FREE = word_set("z vz roll pitch rx ry wx wy")  # axes of the velocity of a hand, and not of a base
_ARM = word_set("ee eef tcp tool end effector arm hand wrist gripper finger joint head camera object target")
"""No base, but the place of something as the base sees it: `base_ee_x`."""
# A robot type, the dimensions of its state or action, and how many of them, the last, are the base's.
# Sources: lerobot 0.6 (`lekiwi`: x.vel, y.vel, theta.vel), Mobile ALOHA (`base_action`).
_ROBOTS = ((r"lekiwi", 9, 3), (r"aloha", 16, 2))


def find_base(
    recording: Recording, robot_type: str | None
) -> tuple[tuple[int, ...], Literal["state", "action"], str]:
    """The dimensions of a mobile base, the feature that holds them, rather the state, and why."""
    sources: tuple[Literal["state", "action"], ...] = ("state", "action")
    for source in sources:
        names, dims = names_of(recording, source), values_of(recording, source).shape[1]
        if found := named_base(names):
            return found, source, f"named {', '.join(names[i] for i in found)}"
        for pattern, size, last in () if names else _ROBOTS:
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
    words = [{*_words(name, "[a-z]+")} for name in names]
    marked = [i for i, w in enumerate(words) if w & _BASE and not w & _ARM]
    if any(words[i] & (_ALONG | {"wheel", "wheels"}) for i in marked):
        return tuple(marked)
    rates = [i for i, w in enumerate(words) if w & _VELOCITY and not w & (_ARM | _BASE)]
    plane = [i for i in rates if words[i] - {"vel", "velocity", "speed"} <= _ALONG | _TURN]
    plane = [i for i in plane if words[i] & (_ALONG | _TURN)]
    both = any(words[i] & _ALONG for i in plane) and any(words[i] & _TURN for i in plane)
    return tuple(plane) if both and not any(words[i] & _FREE for i in rates) else ()


def is_rate(name: str) -> bool:
    """Tell whether a base's dimension is a velocity, by its name."""
    return not _VELOCITY.isdisjoint(_words(name, "[a-z]+"))


type Columns = Sequence[NDArray[np.floating]]
"""The dimensions of each episode, (n, dims)."""
# Mean deviations from 0, in 79 sets: places 4.7 at least in some dimension, as an arm goes forth and back and
# often stands; their changes 2.2 at most, and half of their dimensions 0.7 at most.
_AWAY, _USUALLY = 3.0, 1.0
_REST = 0.15  # share of the mean of its speeds below which an arm stands
_RESTS = 0.02  # share of the frames in which it stands on its way; places centred on 0: half of it at most
_STILL = 0.1  # share of its greatest speed below which a hand stands
_QUICK_S = 0.35  # seconds that speeds take to change by as much as they deviate; places take 0.25 to 3.7
_FEW = 50  # frames of episodes in which something moves, below which nothing is told
_FOLLOWS = 0.8  # correlation with another dimension's changes from which on one holds its speed
_SCALED = 0.05  # by how much the mean and deviation, or the ends, of scaled numbers miss 0 and 1
_SPEEDS = 3  # dimensions that do so, at least: in a short recording one may do so by chance


def find_rates(
    recordings: Sequence[Recording], hands: Sequence[Collection[int]] = (), base: Collection[int] = ()
) -> tuple[int, ...]:
    """The dimensions of the body that must be summed to be places.

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
    columns = [smooth(values_of(r, "body"), r.fps) for r in recordings if len(r.timestamps) > 2]
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
