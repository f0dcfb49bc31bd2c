"""A scene as MuJoCo XML, without any asset file: blocks, bowls, table, light, cameras, and the arm."""

import math

from goalreel.tabletop.sim import panda
from goalreel.tabletop.sim.cameras import FIXED
from goalreel.tabletop.sim.scene import (
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

WALLS = 20
TILT = 0.30
"""How far a bowl's walls lean outward (rad)."""


def build_xml(scene: TabletopScene, shadows: bool = False) -> str:
    """Write the whole model. `shadows` reserves a shadow map: pretty, and ten times slower on a CPU."""
    look = scene.look
    glow, sun = (_rgb(_times(look.tint, share * look.brightness)) for share in (0.42, 0.34))
    return f"""<mujoco model="tabletop">
<compiler angle="radian" autolimits="true"/>
<option timestep=".004" integrator="implicitfast" cone="elliptic" impratio="10" noslip_iterations="4"/>
<visual>
 <quality shadowsize="{2048 if shadows else 0}" offsamples="4"/>
 <headlight ambient="{glow}" diffuse="{sun}" specular=".1 .1 .1"/>
 <global offwidth="1024" offheight="1024"/>
</visual>
<default>
 <joint armature=".1" damping="1"/>
 <default class="pad">
  <geom type="box" friction="2 .05 .001" condim="4" solref=".004 1" rgba="{panda.DARK}"/>
 </default>
 <default class="seen"><geom type="capsule" {panda.SEEN_ONLY}/></default>
</default>
{_materials(look)}
<worldbody>
 <light pos="{look.light[0]} {look.light[1]} 1.8" dir="{0.45 - look.light[0]} {-look.light[1]} -1.8"
  diffuse="{sun}" specular=".15 .15 .15" castshadow="{str(shadows).lower()}"/>
 <geom name="table" type="box" size=".55 .62 .02" pos=".35 0 -.02" material="table"
  friction="1 .02 .001" condim="4"/>
 {"".join(_camera(name) for name in FIXED)}
 {panda.body()}
 {"".join(_block(b) for b in scene.blocks)}
 {"".join(_bowl(b, look.glaze) for b in scene.bowls)}
</worldbody>
{panda.servos()}
</mujoco>"""


def _rgb(colour: Paint) -> str:
    return " ".join(f"{v:.4f}" for v in colour)


def _times(colour: Paint, factor: float) -> Paint:
    red, green, blue = colour
    return red * factor, green * factor, blue * factor


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
            (0.0042, 0.001, inside, panda.SEEN_ONLY),
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
    """Compute the quaternion of a turn by `yaw` about z after leaning by TILT about y."""
    a, b = yaw / 2, TILT / 2
    q = (
        math.cos(a) * math.cos(b),
        -math.sin(a) * math.sin(b),
        math.cos(a) * math.sin(b),
        math.sin(a) * math.cos(b),
    )
    return " ".join(f"{v:.6f}" for v in q)
