"""Pictures of many scenes from one renderer: making one takes twenty times as long as a picture."""

from typing import Self

import numpy as np

from goalreel.image import Image
from goalreel.tabletop.env import Tabletop

# isort: split
import mujoco
from mujoco.gl_context import GLContext

_MAX_GEOMS = 2000


class Studio:
    """Takes pictures with each scene's own camera; equal to `Tabletop.render`, bit for bit.

    All tabletop scenes have the same textures and materials in number and size, so a renderer made for one
    draws another as soon as that one's are uploaded.

    Raises:
        ValueError: a size that is not from 1 to 1024.
    """

    def __init__(self, size: int) -> None:
        if not 1 <= size <= 1024:
            raise ValueError(f"a picture has 1 to 1024 px a side, got {size}")
        self.size = size
        self._rect = mujoco.MjrRect(0, 0, size, size)
        self._gl: GLContext | None = None
        self._context: mujoco.MjrContext | None = None
        self._model: mujoco.MjModel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self, env: Tabletop) -> Image:
        """Take the picture of a tabletop as it is now, (size, size) px."""
        if self._context is None or self._gl is None:
            self._gl = GLContext(self.size, self.size)
            self._gl.make_current()
            self._context = mujoco.MjrContext(env.model, mujoco.mjtFontScale.mjFONTSCALE_50)
            self._scene = mujoco.MjvScene(env.model, _MAX_GEOMS)
        self._gl.make_current()
        if self._model is not env.model:
            self._furnish(self._context, env.model)
        return Image(self._draw(self._context, env))

    def _furnish(self, context: mujoco.MjrContext, model: mujoco.MjModel) -> None:
        for texture in range(model.ntex):
            mujoco.mjr_uploadTexture(model, context, texture)
        context.mat_texrepeat[: 2 * model.nmat] = model.mat_texrepeat.ravel()
        self._model = model

    def _draw(self, context: mujoco.MjrContext, env: Tabletop) -> np.ndarray:
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        camera.fixedcamid = env.model.camera(env.scene.camera).id
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(env.model, env.data, mujoco.MjvOption(), None, camera, everything, self._scene)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, context)
        mujoco.mjr_render(self._rect, self._scene, context)
        picture = np.empty((self.size, self.size, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, self._rect, context)
        return np.flipud(picture).copy()

    def close(self) -> None:
        """Free the renderer; it comes back with the next picture."""
        if self._context is not None and self._gl is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
        self._gl = self._context = self._model = None
