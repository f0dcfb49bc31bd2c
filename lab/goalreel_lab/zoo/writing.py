"""One of the many ways in which people write the numbers and the pictures of a robot down."""

import io
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture
from scipy.spatial.transform import Rotation

from goalreel_lab.zoo.episode import CAMERAS, EVERY, HZ, Numbers, SimulatedEpisode
from goalreel_lab.zoo.tasks import ROBOTS

type Role = Literal[
    "place", "height", "turn", "joint", "rate", "height rate", "gripper", "gripper rate", "other arm", "dead"
]
type Kind = Literal["places", "changes", "velocities", "with velocities", "with torques"]
type Gripper = Literal["metres", "share", "ticks", "fingers", "command", "changes", "none"]

_RATES = (5, 10, 15, 20, 25, 30, 50)
_LEAD = 0.1
"""Seconds by which a commanded joint is ahead, or a delayed action is behind."""
_STILL = ("front", "side")
_NAMES = ("top", "front", "wrist", "cam_0", "image", "hand_cam", "exterior_1_left", "gripper_view", "base")
_FULL = 4096 / (2 * np.pi)
"""Ticks of an encoder for a radian."""


@dataclass(frozen=True)
class Writing:
    """Way in which the recordings of a robot and a task are written."""

    robot: str
    task: str
    starts_closed: bool
    fps: int
    arm: Literal["pose", "joints", "both"]
    kind: Kind
    unit: Literal["radians", "degrees", "ticks"]
    gripper: Gripper
    closed: Literal["low", "high"]
    action: Literal["command", "next state", "delayed state", "changes"]
    names: Literal["honest", "untrue", "motors", "none"]
    """Untrue: those of places, for what is none."""
    turn: Literal["angles", "quaternion", "none"]
    other_arm: Literal["", "before", "after"]
    """A second arm that rests."""
    dead: bool
    """A column that never changes."""
    cameras: tuple[tuple[str, str], ...]
    """The camera of `CAMERAS`, and the name that it is given."""

    def __str__(self) -> str:
        values = {key: value for key, value in asdict(self).items() if key != "cameras"}
        cameras = "+".join(f"{source} as {name}" for source, name in self.cameras)
        return " ".join(f"{key}={value}" for key, value in values.items()) + f" cameras={cameras}"


def draw(seed: int, robots: Sequence[str] = tuple(ROBOTS), tasks: Sequence[str] = ()) -> Writing:
    """Draw one of the combinations.

    >>> draw(1) == draw(1), draw(1) == draw(2)
    (True, False)
    """
    chance = random.Random(f"zoo {seed}")
    robot = chance.choice(list(robots))
    sources = chance.sample(CAMERAS, chance.choice((1, 2, 2, 3)))
    names = [s if chance.random() < 0.4 else chance.choice(_NAMES) for s in sources]
    gripper: Gripper = chance.choice(("metres", "share", "ticks", "fingers", "command", "none"))
    kind: Kind = chance.choice(("places", "places", "places", "changes", "velocities", "with velocities"))
    if kind == "with velocities":
        kind = chance.choice(("with velocities", "with torques"))
    if kind in ("changes", "velocities") and gripper in ("metres", "share", "ticks", "fingers"):
        gripper: Gripper = chance.choice((gripper, "changes"))
    return Writing(
        robot=robot,
        task=chance.choice([t for t in ROBOTS[robot].tasks if not tasks or t in tasks]),
        starts_closed=chance.random() < 0.25,
        fps=chance.choice(_RATES),
        arm=chance.choice(("pose", "joints", "both")),
        kind=kind,
        unit=chance.choice(("radians", "degrees", "ticks")),
        gripper=gripper,
        closed=chance.choice(("low", "high")),
        action=chance.choice(("command", "command", "next state", "delayed state", "changes")),
        names=chance.choice(("honest", "untrue", "motors", "none")),
        turn=chance.choice(("angles", "quaternion", "none")),
        other_arm=chance.choice(("", "", "", "", "before", "after")),
        dead=chance.random() < 0.2,
        cameras=tuple(
            (source, name if names.index(name) == i else f"{name}_{i}")
            for i, (source, name) in enumerate(zip(sources, names, strict=True))
        ),
    )


@dataclass(frozen=True)
class Column:
    """One dimension of a state or an action."""

    name: str
    role: Role
    values: Numbers


@dataclass(frozen=True)
class WrittenEpisode:
    """One episode in a writing."""

    state: tuple[Column, ...]
    action: tuple[Column, ...]
    frames: NDArray[np.int64]
    """The simulator's frame of each."""

    def picture(self, episode: SimulatedEpisode, camera: str, frame: int) -> NDArray[np.uint8]:
        """Decode what a camera saw last: (size, size, 3), RGB."""
        file = episode.pictures[camera][int(self.frames[frame]) // EVERY]
        return np.array(Picture.open(io.BytesIO(file)))


def write(episode: SimulatedEpisode, writing: Writing, seed: int) -> WrittenEpisode:
    """Write an episode's numbers; `seed` is of the noise of an arm that rests."""
    count = int((len(episode.command) - 1) * writing.fps / HZ) + 1
    frames = np.minimum(np.round(np.arange(count) * HZ / writing.fps).astype(int), len(episode.command) - 1)
    arm, hand = _arm(episode, writing, frames), _hand(episode, writing, frames)
    state = _arranged([*_told(arm, writing), *hand], episode, writing, frames, seed)
    if writing.action == "changes":
        later = _arm(episode, writing, frames, lead=True)
        moves = [Column(f"d{a.name}", "rate", b.values - a.values) for a, b in zip(arm, later, strict=True)]
        action = [*moves, _command(episode, writing, frames)]
    elif writing.action == "command":
        action = [*_arm(episode, writing, frames, lead=True), _command(episode, writing, frames)]
    else:
        shift = 1 if writing.action == "next state" else -max(1, round(_LEAD * writing.fps))
        shifted = np.clip(np.arange(count) + shift, 0, count - 1)
        action = [Column(c.name, c.role, c.values[shifted]) for c in state]
        if writing.gripper == "none":
            action.append(_command(episode, writing, frames))
    return WrittenEpisode(_named(state, writing), _named(action, writing), frames)


def _arm(
    episode: SimulatedEpisode, writing: Writing, frames: NDArray[np.int64], lead: bool = False
) -> list[Column]:
    """The places of an arm, or, with `lead`, those that it is told."""
    later = np.minimum(frames + round(_LEAD * HZ), len(episode.command) - 1) if lead else frames
    angle = {"radians": 1.0, "degrees": 180 / np.pi, "ticks": _FULL}[writing.unit]
    zero = 2048 if writing.unit == "ticks" else 0
    columns: list[Column] = []
    if writing.arm != "joints":
        places = (episode.target if lead else episode.eef)[frames] * (
            1 if writing.unit == "radians" else 1000
        )
        columns += [
            Column(n, "height" if n == "z" else "place", v) for n, v in zip("xyz", places.T, strict=True)
        ]
        if writing.turn == "angles":
            turn = Rotation.from_quat(episode.quaternion[later]).as_euler("xyz")  # near +-pi: it wraps
            columns += [
                Column(n, "turn", v * angle) for n, v in zip(("roll", "pitch", "yaw"), turn.T, strict=True)
            ]
        elif writing.turn == "quaternion":
            columns += [
                Column(f"q{n}", "turn", v) for n, v in zip("xyzw", episode.quaternion[later].T, strict=True)
            ]
    if writing.arm != "pose":
        joints = episode.joints[later] * angle + zero
        joints = np.round(joints) if zero else joints
        columns += [Column(f"joint_{i}", "joint", v) for i, v in enumerate(joints.T)]
        if writing.kind == "with torques":
            torques = episode.torques[frames].T
            columns += [Column(f"joint_{i}_torque", "rate", v) for i, v in enumerate(torques)]
    return columns


def _told(arm: Sequence[Column], writing: Writing) -> list[Column]:
    """List what the state holds of an arm."""
    if writing.kind in ("places", "with torques"):
        return list(arm)
    scale = 1 if writing.kind == "changes" else writing.fps
    ending = "delta" if writing.kind == "changes" else "vel"
    roles: dict[Role, Role] = {"height": "height rate"}
    rates = [Column(f"{c.name}_{ending}", roles.get(c.role, "rate"), scale * _change(c.values)) for c in arm]
    return [*arm, *rates] if writing.kind == "with velocities" else rates


def _change(values: Numbers) -> Numbers:
    return np.diff(values, prepend=values[:1])


def _hand(episode: SimulatedEpisode, writing: Writing, frames: NDArray[np.int64]) -> list[Column]:
    if writing.gripper == "none":
        return []
    if writing.gripper == "fingers":
        sign = 1 if writing.closed == "low" else -1
        fingers = sign * episode.fingers[frames].T
        return [Column(f"finger_joint_{i}", "gripper", v) for i, v in enumerate(fingers)]
    width = episode.width[frames]
    least, most = float(episode.width.min()), float(episode.width.max())
    opening = (width - least) / (most - least)
    if writing.gripper == "command":
        opening = (episode.command[frames] < 0).astype(float)
    value = opening if writing.closed == "low" else 1 - opening
    if writing.gripper == "metres":
        value = value * (most - least)
    elif writing.gripper == "ticks":
        value = np.round(1500 + 1000 * value)
    elif writing.gripper == "changes":
        return [Column("gripper_delta", "gripper rate", _change(value))]
    return [Column("gripper", "gripper", value)]


def _command(episode: SimulatedEpisode, writing: Writing, frames: NDArray[np.int64]) -> Column:
    closes = episode.command[frames]
    return Column("gripper", "gripper", closes if writing.closed == "high" else -closes)


def _arranged(
    columns: list[Column], episode: SimulatedEpisode, writing: Writing, frames: NDArray[np.int64], seed: int
) -> list[Column]:
    """Add an arm that rests, and a column that never changes."""
    if writing.other_arm:
        noise = np.random.default_rng(seed)
        other = []
        for c in columns:
            spread = 0 if "rate" in c.role else float(c.values[0])
            shake = 1e-3 * float(np.ptp(c.values)) * noise.standard_normal(len(frames))
            still = spread + (0 if "gripper" in c.role else shake)
            other.append(Column(f"arm2_{c.name}", "other arm", np.broadcast_to(still, frames.shape)))
        own = [Column(f"arm1_{c.name}", c.role, c.values) for c in columns]
        columns = [*own, *other] if writing.other_arm == "after" else [*other, *own]
    if writing.dead:
        columns = [*columns, Column("status", "dead", np.ones(len(frames)))]
    return columns


def _named(columns: Sequence[Column], writing: Writing) -> tuple[Column, ...]:
    def name(index: int, column: Column) -> str:
        if writing.names == "motors":
            return f"motor_{index}"
        if writing.names == "untrue" and writing.kind in ("changes", "velocities"):
            return column.name.removesuffix("_delta").removesuffix("_vel")
        return "" if writing.names == "none" else column.name

    return tuple(Column(name(i, c), c.role, c.values) for i, c in enumerate(columns))
