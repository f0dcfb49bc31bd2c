"""Which camera stands still: its background stays while the arm moves."""

import itertools
from functools import partial

import numpy as np
from numpy.typing import NDArray

from goalreel.concurrency import map_threaded
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.planners.kinematic.finding import Confidence, Finding

THREADS = 3
"""Cameras read at once: decoding leaves Python's lock to others."""
EPISODES = 3
"""The first ones, so that a dataset that grows keeps its camera."""
FRAMES = 4
"""Of each episode, from its first to its last."""
_CHANGED = 12.0
"""Grey levels (of 255) by which a place in the picture has changed."""
_STILL, _MOVING = 0.35, 0.45
"""A camera stands still of whose picture less than the first changes, and moves if more than the second."""


def find_still_camera(source: Source) -> Finding:
    """Choose the camera of the goal images: one that stands still, by its pictures and then by its name.

    Raises:
        DatasetError: the dataset has no camera.
    """
    preferred = source.camera(None)
    cameras = [preferred, *(c for c in source.views(preferred) if c != preferred)]
    if len(cameras) == 1:
        return _finding(preferred, "likely", "the only camera")
    try:
        shares = map_threaded(partial(changed_share, source), cameras, THREADS)
    except DatasetError:
        return _finding(preferred, "likely", "by its name: pictures cannot be read")
    changes = dict(zip(cameras, shares, strict=True))
    changes_text = ", ".join(f"{share:.0%} of {_short(camera)}" for camera, share in changes.items())
    reason = f"from frame to frame changes {changes_text}"
    for limit in (_STILL, _MOVING):
        for camera in cameras:
            if changes[camera] < limit:
                return _finding(camera, "certain" if limit == _STILL else "likely", reason)
    return _finding(None, "unknown", f"no camera stands still; {reason}")


def changed_share(source: Source, camera: str) -> float:
    """Measure the share of a camera's picture that changes from one frame to another, of a few.

    Raises:
        DatasetError: frames that cannot be read.
    """
    shares: list[float] = []
    for index in source.indices[:EPISODES]:
        episode = source.episode(index)
        indices = sorted({round(at * (len(episode) - 1)) for at in np.linspace(0, 1, FRAMES)})
        greys = [_small(image.pixels) for image in episode.frames(camera, indices)]
        shares += [float((np.abs(b - a) > _CHANGED).mean()) for a, b in itertools.pairwise(greys)]
    return float(np.quantile(shares, 0.25)) if shares else 0.0


def _small(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """A small grey picture, about 48 pixels high, whose median is 0: the light may change."""
    size = max(1, pixels.shape[0] // 48)
    height, width = (length - length % size for length in pixels.shape[:2])
    red, green, blue = np.moveaxis(pixels[:height, :width].astype(np.uint16), 2, 0)
    grey = (red + green + blue).astype(np.float32) / np.float32(3)  # mean(axis=2) takes ten times as long
    small = grey.reshape(height // size, size, width // size, size).mean(axis=(1, 3))
    return small - np.median(small)


def _finding(camera: str | None, confidence: Confidence, reason: str) -> Finding:
    return Finding(field="camera", value=camera, confidence=confidence, reason=reason)


def _short(camera: str) -> str:
    return camera.removeprefix("observation.images.")
