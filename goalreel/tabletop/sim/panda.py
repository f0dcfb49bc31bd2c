"""A Panda-like arm as MuJoCo XML, drawn with capsules and boxes.

Kinematics are the Franka Panda's (its published DH parameters); shapes, masses and fingers are ours.
"""

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


def servos() -> str:
    """Write a position servo for every joint and finger."""
    arm = "".join(
        f'<position joint="joint{i}" kp="{kp}" kv="{kv}" ctrlrange="-4 4" forcerange="-{limit} {limit}"/>'
        for i, (kp, kv, limit) in enumerate(_GAINS, 1)
    )
    fingers = "".join(
        f'<position joint="finger_{side}" kp="600" kv="20" ctrlrange="0 .04" forcerange="-30 30"/>'
        for side in ("left", "right")
    )
    return f"<actuator>{arm}{fingers}</actuator>"


def body() -> str:
    """Write the arm with its hand, as the body `base` at the origin."""
    opening, closing = [], []
    for i, (pos, quat, span, mass, shapes) in enumerate(_LINKS, 1):
        inertia = mass / 30
        geoms = "".join(
            f'<geom class="seen" size="{size}" fromto="{a} {b}" rgba="{rgba}"/>'
            for size, a, b, rgba in shapes
        )
        opening.append(
            f'<body name="link{i}" pos="{pos}" quat="{quat}" gravcomp="1">'
            f'<joint name="joint{i}" axis="0 0 1" range="{span}"/>'
            f'<inertial pos="0 0 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>{geoms}'
        )
        closing.append("</body>")
    base = (
        f'<geom type="cylinder" size=".085 .012" pos="0 0 .012" rgba="{DARK}" {SEEN_ONLY}/>'
        f'<geom type="cylinder" size=".06 .07" pos="0 0 .07" rgba="{WHITE}" {SEEN_ONLY}/>'
    )
    return f'<body name="base" gravcomp="1">{base}{"".join(opening)}{_hand()}{"".join(closing)}</body>'


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
