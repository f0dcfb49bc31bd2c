"""The fixed cameras, once for the renderer and once as pinhole geometry to read pictures back."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
        """Give the directions right, up and backward in the world as rows, (3, 3), orthonormal."""
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
NAMES = (*FIXED, "wrist")
