"""The background of an edited picture against its source's: measured, corrected or refused.

Corners of the source are followed into the picture and back (OpenCV's Lucas-Kanade optical flow). The
largest and widest group that moves alike is the background, where it spreads over more of the picture than a
moved object does. docs/results/models.md has the errors.
"""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.terms import Background
from goalreel.types import Registration

DEADBAND = 0.005
"""Up to this share of the longer side a corner's displacement is left as it is: warping blurs a little."""
LIMIT = 0.06
"""The largest displacement that is corrected, as a share of the longer side."""
_SIDE = 256
_CORNERS = 12
"""The fewest corners that agree."""
_SPREAD = 0.25
"""The smallest share of the picture within the hull of the corners that agree, as of a moved object."""
_THIN_SPREAD, _SPAN = 0.1, 0.6
"""Or a smaller share, where the corners lie along so much of the picture's width or height."""
_BETTER = 0.7
"""So much of a shift's squared error must be left, at most, for scale and rotation to count."""
_RANSAC = {"ransacReprojThreshold": 1.0, "maxIters": 500}
_FLOW = {"winSize": (11, 11), "maxLevel": 2, "flags": cv2.OPTFLOW_USE_INITIAL_FLOW}


def register(source: Image, picture: Image, background: Background = "correct") -> tuple[Registration, Image]:
    """Measure how the background of `picture` lies over its source's, and correct the picture if need be.

    What a correction uncovers at the borders is filled with the source's own pixels.
    """
    a, b = (_small(image, source.size) for image in (source, picture))
    matches = _background(a, b)
    if isinstance(matches, str):
        return Registration(reason=matches), picture
    size = b.shape[1], b.shape[0]
    moved = _displacement(matches, size)
    outcome = "kept"
    if background == "correct" and moved > DEADBAND:
        outcome = "corrected" if moved <= LIMIT else "rejected"
    centre = np.array([(size[0] - 1) / 2, (size[1] - 1) / 2])
    right, down = (matches[:, :2] @ centre + matches[:, 2] - centre) * source.size[0] / size[0]
    result = Registration(
        shift=(round(float(right), 2), round(float(down), 2)),
        scale=round(100 * (math.hypot(matches[0, 0], matches[1, 0]) - 1), 2),
        rotation=round(math.degrees(math.atan2(matches[1, 0], matches[0, 0])), 2),
        outcome=outcome,
    )
    return result, _warped_back(source, picture, matches, size) if outcome == "corrected" else picture


def _small(image: Image, source: tuple[int, int]) -> NDArray[np.uint8]:
    scale = min(1.0, _SIDE / max(source))
    size = max(1, round(source[0] * scale)), max(1, round(source[1] * scale))
    grey = cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8)


def _background(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.float64] | str:
    """The transform (2, 3) from `a` to `b`, or why there is none."""
    corners = cv2.goodFeaturesToTrack(a, 200, 0.002, 6)
    if corners is None or len(corners) < _CORNERS:
        return "the source has too few corners"
    corners = np.asarray(corners, np.float32)
    matches = _follow(a, b, corners, np.zeros(2, np.float32))
    if matches is None:
        half_a, half_b = (cv2.pyrDown(picture).astype(np.float32) for picture in (a, b))
        window = cv2.createHanningWindow((half_a.shape[1], half_a.shape[0]), cv2.CV_32F)
        shift, _ = cv2.phaseCorrelate(half_a, half_b, window)
        matches = _follow(a, b, corners, 2 * np.asarray(shift, np.float32))
    return "too little of the source's background is in the picture" if matches is None else matches


def _follow(
    a: NDArray[np.uint8], b: NDArray[np.uint8], corners: NDArray[np.float32], guess: NDArray[np.float32]
) -> NDArray[np.float64] | None:
    """The transform of the widest group of corners that move alike, from a guess at their shift."""
    end, tracked, _ = cv2.calcOpticalFlowPyrLK(a, b, corners, corners + guess, **_FLOW)
    back, seen_back, _ = cv2.calcOpticalFlowPyrLK(b, a, end, corners.copy(), **_FLOW)
    good = (tracked.ravel() > 0) & (seen_back.ravel() > 0) & (np.abs(back - corners).max(axis=(1, 2)) < 0.5)
    start, end = corners[good], end[good]
    best: tuple[float, NDArray[np.float64]] | None = None
    for _ in range(3):  # a moved object may have more corners than all of the background
        if len(start) < _CORNERS:
            break
        transform, agreeing = cv2.estimateAffinePartial2D(start, end, **_RANSAC)
        if transform is None or agreeing.sum() < _CORNERS:
            break
        agree = agreeing.ravel() > 0
        spread = cv2.contourArea(cv2.convexHull(start[agree])) / a.size
        span = (np.ptp(start[agree], axis=0).ravel() / (a.shape[1], a.shape[0])).max()
        wide = spread >= _SPREAD or (spread >= _THIN_SPREAD and span >= _SPAN)
        if wide and (best is None or spread * agree.sum() > best[0]):
            best = spread * agree.sum(), _simplest(transform, start[agree], end[agree])
        start, end = start[~agree], end[~agree]
    return None if best is None else best[1]


def _simplest(
    transform: NDArray[np.float64], start: NDArray[np.float32], end: NDArray[np.float32]
) -> NDArray[np.float64]:
    """The transform, or a shift alone where that fits about as well: scale errs far from the corners."""
    a, b = start.reshape(-1, 2), end.reshape(-1, 2)
    shift = np.column_stack([np.eye(2), (b - a).mean(axis=0)])
    errors = [float(((a @ t[:, :2].T + t[:, 2] - b) ** 2).sum()) for t in (transform, shift)]
    return transform if errors[0] < _BETTER * errors[1] else shift


def _displacement(transform: NDArray[np.float64], size: tuple[int, int]) -> float:
    """Displacement of the corner that moves most, as a share of the longer side."""
    width, height = size
    ends = np.array([(x, y) for x in (0, width - 1) for y in (0, height - 1)], np.float64)
    moved = ends @ transform[:, :2].T + transform[:, 2] - ends
    return float(np.hypot(*moved.T).max()) / max(size)


def _warped_back(
    source: Image, picture: Image, transform: NDArray[np.float64], size: tuple[int, int]
) -> Image:
    """The picture with its background where the source's is; `transform` holds in pictures of `size`."""
    width, height = picture.size
    across, down = width / size[0], height / size[1]
    # Pixel centres: x of the small picture is (x + 0.5) * scale - 0.5 of the large one.
    enlarge = np.array([[across, 0, (across - 1) / 2], [0, down, (down - 1) / 2], [0, 0, 1]])
    full = (enlarge @ np.vstack([transform, (0, 0, 1)]) @ np.linalg.inv(enlarge))[:2]
    options = {"flags": cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP}
    back = cv2.warpAffine(picture.pixels, full, picture.size, borderMode=cv2.BORDER_REPLICATE, **options)
    whole = np.full((height, width), 255, np.uint8)
    covered = cv2.warpAffine(whole, full, picture.size, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
    visible = (covered == 255)[..., None]
    return Image(np.where(visible, back, source.resized(picture.size).pixels).astype(np.uint8))
