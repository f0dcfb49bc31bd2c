"""The names of mujoco that goalreel uses: its C modules bring no types."""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

type _Floats = NDArray[np.float64]

class _Named:
    id: int

class _Camera(_Named):
    pos: _Floats

class _Quality:
    offsamples: int
    shadowsize: int

class _Visual:
    quality: _Quality

class _Joint:
    qpos: _Floats
    qvel: _Floats

class _Body:
    xpos: _Floats
    xmat: _Floats

class _Option:
    timestep: float

class _Contact:
    geom: NDArray[np.int32]
    frame: _Floats

class MjModel:
    ngeom: int
    njnt: int
    nv: int
    nmat: int
    ntex: int
    opt: _Option
    vis: _Visual
    jnt_bodyid: NDArray[np.int32]
    jnt_qposadr: NDArray[np.int32]
    jnt_range: _Floats
    jnt_type: NDArray[np.int32]
    body_parentid: NDArray[np.int32]
    body_rootid: NDArray[np.int32]
    geom_bodyid: NDArray[np.int32]
    geom_rgba: NDArray[np.float32]
    geom_size: _Floats
    mat_texrepeat: NDArray[np.float32]
    site_bodyid: NDArray[np.int32]
    @staticmethod
    def from_xml_string(xml: str) -> MjModel: ...
    def body(self, name: str) -> _Named: ...
    def camera(self, name: str) -> _Camera: ...
    def geom(self, name: str) -> _Named: ...
    def site(self, name: str) -> _Named: ...

class MjData:
    qpos: _Floats
    qvel: _Floats
    ctrl: _Floats
    ncon: int
    contact: _Contact
    site_xpos: _Floats
    site_xmat: _Floats
    geom_xpos: _Floats
    def __init__(self, model: MjModel) -> None: ...
    def body(self, name: str) -> _Body: ...
    def joint(self, name: str) -> _Joint: ...

class MjrRect:
    def __init__(self, left: int, bottom: int, width: int, height: int) -> None: ...

class MjrContext:
    mat_texrepeat: NDArray[np.float32]
    def __init__(self, model: MjModel, fontscale: int) -> None: ...
    def free(self) -> None: ...

class MjvCamera:
    type: int
    fixedcamid: int

class MjvOption: ...

class MjvScene:
    flags: NDArray[np.uint8]
    def __init__(self, model: MjModel, maxgeom: int) -> None: ...

class Renderer:
    width: int
    scene: MjvScene
    def __init__(self, model: MjModel, height: int = 240, width: int = 320) -> None: ...
    def update_scene(self, data: MjData, camera: int | str = -1) -> None: ...
    def render(self) -> NDArray[np.uint8]: ...
    def close(self) -> None: ...

class mjtCamera(IntEnum):
    mjCAMERA_FIXED = ...

class mjtCatBit(IntEnum):
    mjCAT_ALL = ...

class mjtFontScale(IntEnum):
    mjFONTSCALE_50 = ...

class mjtFramebuffer(IntEnum):
    mjFB_OFFSCREEN = ...

class mjtJoint(IntEnum):
    mjJNT_FREE = ...

class mjtRndFlag(IntEnum):
    mjRND_SHADOW = ...
    mjRND_REFLECTION = ...

class mjtState(IntEnum):
    mjSTATE_INTEGRATION = ...

def mj_comPos(m: MjModel, d: MjData) -> None: ...
def mj_forward(m: MjModel, d: MjData) -> None: ...
def mj_getState(m: MjModel, d: MjData, state: _Floats, sig: int) -> None: ...
def mj_jacSite(m: MjModel, d: MjData, jacp: _Floats, jacr: _Floats, site: int) -> None: ...
def mj_kinematics(m: MjModel, d: MjData) -> None: ...
def mj_ray(
    m: MjModel,
    d: MjData,
    pnt: _Floats,
    vec: _Floats,
    geomgroup: NDArray[np.uint8] | None,
    flg_static: int,
    bodyexclude: int,
    geomid: NDArray[np.int32],
) -> float: ...
def mj_resetData(m: MjModel, d: MjData) -> None: ...
def mj_setState(m: MjModel, d: MjData, state: _Floats, sig: int) -> None: ...
def mj_stateSize(m: MjModel, sig: int) -> int: ...
def mj_step(m: MjModel, d: MjData) -> None: ...
def mju_mat2Quat(quat: _Floats, mat: _Floats) -> None: ...
def mju_quat2Vel(res: _Floats, quat: _Floats, dt: float) -> None: ...
def mjr_readPixels(
    rgb: NDArray[np.uint8], depth: NDArray[np.float32] | None, viewport: MjrRect, con: MjrContext
) -> None: ...
def mjr_render(viewport: MjrRect, scn: MjvScene, con: MjrContext) -> None: ...
def mjr_setBuffer(framebuffer: int, con: MjrContext) -> None: ...
def mjr_uploadTexture(m: MjModel, con: MjrContext, texid: int) -> None: ...
def mjv_updateScene(
    m: MjModel, d: MjData, opt: MjvOption, pert: Any, cam: MjvCamera, catmask: int, scn: MjvScene
) -> None: ...
