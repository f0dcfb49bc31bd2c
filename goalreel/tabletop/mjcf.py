"""The scene as MuJoCo XML without asset files: cameras, a Panda-like arm, and the objects.

The arm's kinematics are the Franka Panda's (its published DH parameters); shapes and fingers are ours.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.scene import (
    BOWL_FLOOR,
    BOWL_HEIGHT,
    BOWL_LIP,
    BOWL_RADIUS,
    HALF,
    Look,
    Paint,
    Placed,
    TabletopScene,
)

type Vector = tuple[float, float, float]


@dataclass(frozen=True)
class PinholeCamera:
    """A pinhole camera for square pictures. World frame: x away from the robot, y to ITS left, z up (m).

    `fovy` is in degrees; `above` is the world direction that points up in the picture.
    """

    position: Vector
    target: Vector
    fovy: float
    above: Vector = (0.0, 0.0, 1.0)

    @cached_property
    def axes(self) -> NDArray[np.float64]:
        """The directions right, up and backward in the world as rows, (3, 3), orthonormal."""
        back = np.subtract(self.position, self.target)
        back /= np.linalg.norm(back)
        right = np.cross(self.above, back)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(back, right), back])

    def project(self, points: NDArray[np.float64], size: int) -> NDArray[np.float64]:
        """Project world points (n, 3) to pixels (n, 2) as (column, row) in a `size` x `size` picture."""
        in_camera = (np.asarray(points) - self.position) @ self.axes.T
        focal = size / 2 / np.tan(np.radians(self.fovy) / 2)
        return size / 2 + focal * np.stack([-in_camera[:, 0], in_camera[:, 1]], 1) / in_camera[:, 2:]

    def on_plane(self, pixel: NDArray[np.float64], height: float, size: int) -> NDArray[np.float64]:
        """Find where the ray through a (column, row) pixel meets the plane z = `height`, (3,)."""
        focal = size / 2 / np.tan(np.radians(self.fovy) / 2)
        ray = np.array([pixel[0] - size / 2, size / 2 - pixel[1], -focal]) @ self.axes
        return np.asarray(self.position) + ray * (height - self.position[2]) / ray[2]


FIXED = {
    "front": PinholeCamera((1.18, 0.0, 0.79), (0.44, 0.0, 0.09), 42),
    "side": PinholeCamera((0.44, -1.08, 0.62), (0.42, 0.0, 0.15), 43),
    "corner": PinholeCamera((0.98, -0.66, 0.72), (0.43, 0.0, 0.10), 44),
    "left": PinholeCamera((1.10, 0.46, 0.74), (0.43, 0.0, 0.10), 43),
    "top": PinholeCamera((0.52, 0.0, 1.25), (0.52, 0.0, 0.0), 34, above=(-1.0, 0.0, 0.0)),
}
CAMERAS = (*FIXED, "wrist")

WHITE, GREY, DARK = ".94 .94 .93 1", ".62 .64 .67 1", ".20 .21 .24 1"
TCP_OFFSET = 0.138
"""Hand to fingertip (m): 35 mm longer than the Panda's, so that the palm clears a tower of two."""
SEEN_ONLY = 'contype="0" conaffinity="0" mass="0"'

_LINKS = (
    # pos, quat, joint range, mass, ((size, from, to, colour), ...)
    ("0 0 .333", "1 0 0 0", "-2.9 2.9", 3, ((0.058, "0 0 -.2", "0 0 0", WHITE),)),
    (
        "0 0 0",
        "1 -1 0 0",
        "-1.76 1.76",
        3,
        ((0.058, "0 0 -.06", "0 0 .06", GREY), (0.055, "0 0 0", "0 -.2 0", WHITE)),
    ),
    ("0 -.316 0", "1 1 0 0", "-2.9 2.9", 3, ((0.052, "0 0 -.12", ".0825 0 0", WHITE),)),
    (
        ".0825 0 0",
        "1 1 0 0",
        "-3.07 -.07",
        2.5,
        ((0.054, "0 0 -.06", "0 0 .06", GREY), (0.05, "0 0 0", "-.0825 .1 0", WHITE)),
    ),
    (
        "-.0825 .384 0",
        "1 -1 0 0",
        "-2.9 2.9",
        2,
        ((0.048, "0 0 -.26", "0 .05 -.05", WHITE), (0.048, "0 .05 -.05", "0 0 0", WHITE)),
    ),
    (
        "0 0 0",
        "1 1 0 0",
        "0 3.75",
        1.5,
        ((0.045, "0 0 -.05", "0 0 .05", GREY), (0.042, "0 0 0", ".088 0 0", WHITE)),
    ),
    (".088 0 0", "1 1 0 0", "-2.9 2.9", 0.7, ()),
)
_GAINS = ((4000, 300, 180),) * 4 + ((2000, 120, 60),) * 3
"""kp, kv and force limit of every joint's position servo."""


def _servos() -> str:
    """Write a position servo for every joint and finger."""
    ranges = [(f"joint{i}", *gains, "-4 4") for i, gains in enumerate(_GAINS, 1)]
    ranges += [(f"finger_{side}", 600, 20, 30, "0 .04") for side in ("left", "right")]
    servos = "".join(
        f'<position joint="{joint}" kp="{kp}" kv="{kv}" ctrlrange="{span}" forcerange="-{limit} {limit}"/>'
        for joint, kp, kv, limit, span in ranges
    )
    return f"<actuator>{servos}</actuator>"


def _arm() -> str:
    """Write the arm with its hand, as the body `base` at the origin."""
    arm = (
        f'<body name="base" gravcomp="1">'
        f'<geom type="cylinder" size=".085 .012" pos="0 0 .012" rgba="{DARK}" {SEEN_ONLY}/>'
        f'<geom type="cylinder" size=".06 .07" pos="0 0 .07" rgba="{WHITE}" {SEEN_ONLY}/>'
    )
    for i, (pos, quat, span, mass, shapes) in enumerate(_LINKS, 1):
        inertia = mass / 30
        arm += (
            f'<body name="link{i}" pos="{pos}" quat="{quat}" gravcomp="1">'
            f'<joint name="joint{i}" axis="0 0 1" range="{span}"/>'
            f'<inertial pos="0 0 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>'
        )
        for size, a, b, rgba in shapes:
            arm += f'<geom class="seen" size="{size}" fromto="{a} {b}" rgba="{rgba}"/>'
    return f"{arm}{_hand()}{'</body>' * (len(_LINKS) + 1)}"


def _hand() -> str:
    finger = """<body name="{name}" pos="0 0 .0584" gravcomp="1">
 <joint name="{name}" type="slide" axis="0 {side} 0" range="0 .04" damping="10" armature=".05"/>
 <inertial pos="0 0 .03" mass=".05" diaginertia=".0001 .0001 .0001"/>
 <geom name="{name}" class="pad" size=".01 .006 .0425" pos="0 {y} .0455"/>
</body>"""
    return f"""<geom type="cylinder" size=".04 .04" pos="0 0 .07" rgba="{WHITE}" {SEEN_ONLY}/>
<body name="hand" pos="0 0 .107" quat="0.9238795 0 0 -0.3826834" gravcomp="1">
 <inertial pos="0 0 .03" mass=".7" diaginertia=".005 .005 .005"/>
 <geom name="palm" type="box" size=".025 .08 .022" pos="0 0 .036" rgba="{WHITE}" mass="0"/>
 <site name="tcp" pos="0 0 {TCP_OFFSET}" size=".005" rgba="0 0 0 0"/>
 <camera name="wrist" pos=".075 0 .01" xyaxes="0 -1 0 -.96 0 -.28" fovy="75"/>
 {finger.format(name="finger_left", side=1, y=0.006)}
 {finger.format(name="finger_right", side=-1, y=-0.006)}
</body>"""


WALLS = 20
TILT = 0.30
"""Outward lean of a bowl's walls (rad)."""


def build_xml(scene: TabletopScene) -> str:
    """Write the whole model, without shadows: they make a CPU ten times slower."""
    look = scene.look
    glow, sun = (_rgb(np.multiply(look.tint, share * look.brightness)) for share in (0.42, 0.34))
    return f"""<mujoco model="tabletop">
<compiler angle="radian" autolimits="true"/>
<option timestep=".004" integrator="implicitfast" cone="elliptic" impratio="10" noslip_iterations="4"/>
<visual>
 <quality shadowsize="0" offsamples="4"/>
 <headlight ambient="{glow}" diffuse="{sun}" specular=".1 .1 .1"/>
 <global offwidth="1024" offheight="1024"/>
</visual>
<default>
 <joint armature=".1" damping="1"/>
 <default class="pad">
  <geom type="box" friction="2 .05 .001" condim="4" solref=".004 1" rgba="{DARK}"/>
 </default>
 <default class="seen"><geom type="capsule" {SEEN_ONLY}/></default>
</default>
{_materials(look)}
<worldbody>
 <light pos="{look.light[0]} {look.light[1]} 1.8" dir="{0.45 - look.light[0]} {-look.light[1]} -1.8"
  diffuse="{sun}" specular=".15 .15 .15" castshadow="false"/>
 <geom name="table" type="box" size=".55 .62 .02" pos=".35 0 -.02" material="table"
  friction="1 .02 .001" condim="4"/>
 {"".join(_camera(name) for name in FIXED)}
 {_arm()}
 {"".join(_block(b) for b in scene.blocks)}
 {"".join(_bowl(b, look.glaze) for b in scene.bowls)}
</worldbody>
{_servos()}
</mujoco>"""


def _rgb(colour: Iterable[float]) -> str:
    return " ".join(f"{v:.4f}" for v in colour)


def _materials(look: Look) -> str:
    marks = f'mark="random" random="{look.speckle:.4f}" markrgb="{_rgb(look.shade)}"' if look.speckle else ""
    return f"""<asset>
 <texture name="sky" type="skybox" builtin="gradient" rgb1=".86 .88 .90" rgb2=".62 .66 .70"
  width="64" height="64"/>
 <texture name="table" type="2d" builtin="{look.pattern}" {marks}
  rgb1="{_rgb(look.table)}" rgb2="{_rgb(look.shade)}" width="256" height="256"/>
 <material name="table" texture="table" texrepeat="{look.repeat} {look.repeat}" reflectance="0"
  specular=".1"/>
</asset>"""


def _camera(name: str) -> str:
    camera = FIXED[name]
    axes = " ".join(f"{v:.6f}" for v in camera.axes[:2].ravel())
    return f'<camera name="{name}" pos="{_rgb(camera.position)}" xyaxes="{axes}" fovy="{camera.fovy}"/>'


def _block(block: Placed) -> str:
    c, s = math.cos(block.yaw / 2), math.sin(block.yaw / 2)
    return f"""<body name="{block.name}" pos="{block.x} {block.y} {block.z}" quat="{c} 0 0 {s}">
 <freejoint name="{block.name}"/>
 <geom name="{block.name}" type="box" size="{HALF} {HALF} {HALF}" mass=".05" rgba="{_rgb(block.rgb)} 1"
  friction="1.2 .02 .001" condim="4" solref=".004 1" priority="1"/>
</body>"""


def _bowl(bowl: Placed, glaze: Paint) -> str:
    """Build a round foot with a ring of leaning planks, pale inside so that its content stands out."""
    inside = f"{_rgb(glaze)} 1"
    foot = BOWL_RADIUS * 0.80
    lean = BOWL_HEIGHT / 2 * math.tan(TILT)
    parts = [
        f'<geom type="cylinder" size="{foot} {BOWL_FLOOR / 2}" pos="0 0 {BOWL_FLOOR / 2}" rgba="{inside}"/>'
    ]
    for k in range(WALLS):
        angle = 2 * math.pi * k / WALLS
        half_width = math.pi * BOWL_RADIUS / WALLS * 1.06
        for inset, thick, rgba, extra in (
            (0.0, 0.0035, f"{_rgb(bowl.rgb)} 1", ""),
            (0.0042, 0.001, inside, SEEN_ONLY),
        ):
            low = BOWL_LIP / 2 if inset else 0.0
            r = BOWL_RADIUS - lean - 0.0035 - inset - low * math.tan(TILT)
            at = f"{r * math.cos(angle):.5f} {r * math.sin(angle):.5f} {BOWL_HEIGHT / 2 - low:.5f}"
            parts.append(
                f'<geom type="box" size="{thick} {half_width:.5f} {BOWL_HEIGHT / 2 - low:.5f}" pos="{at}"'
                f' quat="{_plank(angle)}" rgba="{rgba}" {extra}/>'
            )
    return f'<body name="{bowl.name}" pos="{bowl.x} {bowl.y} 0">{"".join(parts)}</body>'


def _plank(yaw: float) -> str:
    """Write the quaternion of a turn by `yaw` about z after leaning by TILT about y."""
    (c, s), (d, t) = ((math.cos(half), math.sin(half)) for half in (yaw / 2, TILT / 2))
    return " ".join(f"{v:.6f}" for v in (c * d, -s * t, c * t, s * d))
