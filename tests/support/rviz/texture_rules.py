"""What RViz asks of a textured TRIANGLE_LIST (triangle_list_marker.cpp), as problems in words."""

import io
import re
from collections.abc import Iterator

import numpy as np
import PIL.Image
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker

type _Array = NDArray[np.float64]

_FORMATS = {"png": "PNG", "jpeg": "JPEG", "jpg": "JPEG"}
_MAX_TEXTURE = 512


def textured(m: Marker) -> Iterator[str]:
    """Problems of a TRIANGLE_LIST with a texture; its points are whole triangles."""
    n = len(m.points)
    if not re.match(r"embedded://.", m.texture_resource):
        yield f"texture_resource {m.texture_resource!r}: only embedded://NAME is loaded"
    yield from _picture(m.texture.format, bytes(m.texture.data))
    if not all(map(_white, [m.color, *m.colors])):
        yield "colour and vertex colours must be opaque white: they are multiplied with the texture"
    if len(m.colors) != n:
        yield f"{len(m.colors)} vertex colours for {n} points: one white colour a point"
    if len(m.uv_coordinates) != n:
        yield f"{len(m.uv_coordinates)} uv_coordinates for {n} points: the texture is not shown"
        return
    uv = np.array([[c.u, c.v] for c in m.uv_coordinates], np.float64)
    if not ((uv >= 0) & (uv <= 1)).all():
        yield "uv_coordinates outside 0 to 1"
        return
    yield from _orientation(m, uv)


def _orientation(m: Marker, uv: _Array) -> Iterator[str]:
    """The picture's right and down, as the triangles lay them out, against the normals that RViz lights."""
    corners = points_of(m).reshape(-1, 3, 3)
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normals = np.cross(a, b)
    if (np.linalg.norm(normals, axis=1) == 0).any():
        yield "a triangle without an area"
        return
    if (normals @ normals[0] <= 0).any():
        yield "triangles that face different ways: some are black"
        return
    t = uv.reshape(-1, 3, 2)
    (ua, va), (ub, vb) = (t[0, 1] - t[0, 0]), (t[0, 2] - t[0, 0])
    determinant = ua * vb - ub * va
    if determinant == 0:
        yield "uv_coordinates without an area"
        return
    right, down = (vb * a[0] - va * b[0]) / determinant, (ua * b[0] - ub * a[0]) / determinant
    if np.cross(right, down) @ normals[0] > 0:
        yield "the picture is mirrored on the side that is lit (v = 0 is the top)"
    elif _optical(m) and down[1] <= 0:
        yield "the picture is upside down: v = 0 is the top, and y points down in an optical frame"


def _picture(form: str, data: bytes) -> Iterator[str]:
    if form not in _FORMATS:
        yield f"texture.format {form!r}: anything but png, jpg or jpeg can end RViz"
        return
    try:
        with PIL.Image.open(io.BytesIO(data)) as picture:
            picture.load()
    except (OSError, SyntaxError, PIL.Image.DecompressionBombError) as e:
        yield f"the texture cannot be read: {e}"
        return
    if picture.format != _FORMATS[form]:
        yield f"the texture is {picture.format}, texture.format says {form}"
    if max(picture.size) > _MAX_TEXTURE:
        yield f"a texture of {picture.size[0]}x{picture.size[1]}: at most {_MAX_TEXTURE} pixels"


def _optical(m: Marker) -> bool:
    """Whether its points are in an optical frame (REP 103), not turned."""
    return m.header.frame_id.endswith("optical_frame") and abs(m.pose.orientation.w) == 1


def points_of(m: Marker) -> _Array:
    """Its points, (n, 3), in metres."""
    return np.array([[p.x, p.y, p.z] for p in m.points], np.float64).reshape(-1, 3)


def _white(c: ColorRGBA) -> bool:
    return (c.r, c.g, c.b, c.a) == (1.0, 1.0, 1.0, 1.0)
