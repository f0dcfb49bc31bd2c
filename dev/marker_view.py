"""Draws markers in software the way RViz draws them, without RViz, a GPU or a display.

It reads messages only. It has the parts of RViz that decide whether a storyboard is readable: textures with
v = 0 at the top, light from the viewer, vertex colours, text that faces the viewer, and depth.
"""

import functools
import itertools
from typing import Final

import numpy as np
import PIL.Image
import PIL.ImageDraw
from numpy.typing import NDArray
from visualization_msgs.msg import Marker, MarkerArray

from goalreel.annotator.report.sheet import Typeface
from goalreel.image import Image

type _Array = NDArray[np.floating]

_GROUND: Final = 48 / 255
_FINE: Final = 2
"""Pixels drawn to a side of a pixel shown."""
_EM: Final = 0.85
"""RViz's font is this large a share of a text's height; the rest is above and below its letters."""


class MarkerScene:
    """The markers that a viewer keeps of a topic, array by array."""

    def __init__(self) -> None:
        self._markers: dict[tuple[str, int], Marker] = {}

    def apply(self, array: MarkerArray) -> None:
        """Carry out an array's actions in order."""
        for marker in array.markers:
            if marker.action == Marker.DELETEALL:
                self._markers.clear()
            elif marker.action == Marker.DELETE:
                self._markers.pop((marker.ns, marker.id), None)
            else:
                self._markers[marker.ns, marker.id] = marker

    def render(self, width: int) -> Image:
        """Everything, seen from the front of an optical frame (x right, y down), `width` pixels wide."""
        corners = [_extent(m) for m in self._markers.values()]
        if not corners:
            return Image(np.full((width // 4, width, 3), round(255 * _GROUND), np.uint8))
        canvas = _Canvas(np.concatenate(corners), width * _FINE)
        markers = sorted(self._markers.values(), key=lambda m: m.type == Marker.TEXT_VIEW_FACING)
        for marker in markers:
            _DRAW[marker.type](canvas, marker)
        return canvas.picture(width)


class _Canvas:
    """A pinhole camera in front of the points it is made for, its picture and its depth."""

    def __init__(self, points: _Array, width: int) -> None:
        low, high = points.min(axis=0), points.max(axis=0)
        wide, tall = 1.04 * np.maximum(high - low, 1e-3)[:2] + 0.01
        self._away = 2.0 * wide
        self._focal = width * self._away / wide
        self._eye = np.array([*(low + high)[:2] / 2, low[2] - self._away])
        self._middle = np.array([width, width * tall / wide]) / 2
        size = (max(1, round(2 * self._middle[1])), width)
        self.colour = np.full((*size, 3), _GROUND, np.float32)
        self.depth = np.full(size, np.inf)

    def project(self, point: _Array) -> tuple[float, float, float]:
        """Column, row and depth of a point (3,) of the markers' frame."""
        x, y, z = point - self._eye
        return (*(self._middle + self._focal * np.array([x, y]) / z), z)

    def scale(self, z: float) -> float:
        """Pixels a metre at a depth."""
        return self._focal / z

    def triangle(self, points: _Array, values: _Array, texture: _Array | None) -> None:
        """`points` (3, 3) in metres; `values` (3, 5) are red, green, blue, u, v at each."""
        seen = np.array([self.project(p) for p in points])
        (rows, columns), weights = self._covered(seen[:, :2])
        if not rows.size:
            return
        weights = weights / seen[:, 2]
        z = 1 / weights.sum(axis=1)
        at = (weights * z[:, None]) @ values
        colour = at[:, :3]
        if texture is not None:
            colour = colour * _sample(texture, at[:, 3:])
        near = z < self.depth[rows, columns]
        self.colour[rows[near], columns[near]] = colour[near]
        self.depth[rows[near], columns[near]] = z[near]

    def _covered(self, seen: _Array) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], _Array]:
        """Pixels whose middle is inside a triangle (3, 2), and their weights (n, 3)."""
        height, width = self.depth.shape
        left, top = np.clip(np.floor(seen.min(axis=0)).astype(int), 0, (width, height))
        right, bottom = np.clip(np.ceil(seen.max(axis=0)).astype(int), 0, (width, height))
        rows, columns = (g.ravel() for g in np.mgrid[top:bottom, left:right])
        a, b = seen[1] - seen[0], seen[2] - seen[0]
        area = a[0] * b[1] - a[1] * b[0]
        if area == 0:
            return (rows[:0], columns[:0]), np.zeros((0, 3))
        x, y = columns + 0.5 - seen[0, 0], rows + 0.5 - seen[0, 1]
        second, third = (x * b[1] - y * b[0]) / area, (y * a[0] - x * a[1]) / area
        weights = np.stack([1 - second - third, second, third], axis=1)
        inside = (weights >= 0).all(axis=1)
        return (rows[inside], columns[inside]), weights[inside]

    def picture(self, width: int) -> Image:
        fine = PIL.Image.fromarray((np.clip(self.colour, 0, 1) * 255 + 0.5).astype(np.uint8))
        size = width, max(1, fine.height // _FINE)
        return Image(np.array(fine.resize(size, PIL.Image.Resampling.BOX)))


def _triangles(canvas: _Canvas, m: Marker) -> None:
    points = _placed(m)
    textured = m.texture_resource.startswith("embedded://") and len(m.uv_coordinates) == len(points)
    texture = _decoded(bytes(m.texture.data)) if textured else None
    coloured = len(m.colors) == len(points)
    colours = [[c.r, c.g, c.b] for c in (m.colors if coloured else [m.color] * len(points))]
    uv = [[c.u, c.v] for c in m.uv_coordinates] if textured else [[0.0, 0.0]] * len(points)
    for i in range(0, len(points), 3):
        a, b, c = points[i : i + 3]
        normal = np.cross(b - a, c - a)
        # The light shines where the viewer looks, +z, and there is no other: a back is black.
        lit = max(0.0, -normal[2] / np.linalg.norm(normal)) if textured or not coloured else 1.0
        values = np.hstack([np.array(colours[i : i + 3]) * lit, uv[i : i + 3]])
        canvas.triangle(points[i : i + 3], values, texture)


def _line(canvas: _Canvas, m: Marker) -> None:
    points, half = _placed(m), m.scale.x / 2
    values = np.tile([m.color.r, m.color.g, m.color.b, 0.0, 0.0], (3, 1))
    for a, b in itertools.pairwise(points):
        along = half * (b - a) / np.linalg.norm(b - a)
        across = np.array([-along[1], along[0], 0.0])
        corners = np.array([a - along - across, b + along - across, b + along + across, a - along + across])
        canvas.triangle(corners[:3], values, None)
        canvas.triangle(corners[[0, 2, 3]], values, None)


def _text(canvas: _Canvas, m: Marker) -> None:
    x, y, z = canvas.project(_position(m))
    font = Typeface.of(m.text, max(1, round(_EM * m.scale.z * canvas.scale(z)))).font
    height, width = canvas.depth.shape
    mask = PIL.Image.new("L", (width, height))
    PIL.ImageDraw.Draw(mask).text((x, y), m.text, fill=255, font=font, anchor="mm", align="left")
    alpha = np.asarray(mask, np.float32)[..., None] / 255 * (z <= canvas.depth)[..., None]
    canvas.colour += alpha * (np.array([m.color.r, m.color.g, m.color.b], np.float32) - canvas.colour)


_DRAW = {Marker.TRIANGLE_LIST: _triangles, Marker.LINE_STRIP: _line, Marker.TEXT_VIEW_FACING: _text}


def _extent(m: Marker) -> _Array:
    """Points that are in the picture when the marker is, (n, 3)."""
    if m.type != Marker.TEXT_VIEW_FACING:
        return _placed(m)
    half = np.array([Typeface.of(m.text, 100).getlength(m.text) / 100 * _EM, 1.2, 0.0]) * m.scale.z / 2
    return np.stack([_position(m) - half, _position(m) + half])


def _position(m: Marker) -> _Array:
    p = m.pose.position
    return np.array([p.x, p.y, p.z])


def _placed(m: Marker) -> _Array:
    """The marker's points in its frame: scaled (but for lines), turned and moved, (n, 3)."""
    q, points = m.pose.orientation, points_of(m)
    if m.type == Marker.TRIANGLE_LIST:
        points = points * (m.scale.x, m.scale.y, m.scale.z)
    axis = np.array([q.x, q.y, q.z])
    across = 2 * np.cross(axis, points)
    return points + q.w * across + np.cross(axis, across) + _position(m)


def points_of(m: Marker) -> _Array:
    """Its points, (n, 3), in metres."""
    return np.array([[p.x, p.y, p.z] for p in m.points], np.float64).reshape(-1, 3)


def _sample(texture: _Array, uv: _Array) -> _Array:
    """Colours (n, 3) between the pixels of a picture (h, w, 3) at (n, 2), v = 0 at the top."""
    high, wide = texture.shape[:2]
    at = np.clip(uv * (wide, high) - 0.5, 0, (wide - 1, high - 1))
    low = at.astype(int)
    x, y = (at - low).T[..., None]
    (left, top), (right, bottom) = low.T, np.minimum(low + 1, (wide - 1, high - 1)).T
    upper = texture[top, left] * (1 - x) + texture[top, right] * x
    lower = texture[bottom, left] * (1 - x) + texture[bottom, right] * x
    return upper * (1 - y) + lower * y


@functools.lru_cache(maxsize=16)
def _decoded(data: bytes) -> _Array:
    return Image.decode(data).pixels.astype(np.float32) / 255
