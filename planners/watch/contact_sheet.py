"""Contact sheets for watching models: frames of an episode on one picture, each with number and time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.planners.kinematic.description import Proposal
from goalreel.types import Recording

COLUMNS = 5
TILES = 20
"""Frames of each camera on one sheet: about 1.5 megapixels, which hosted models hardly shrink."""
_WIDE, _NARROW, _STRIP = 224, 96, 16
CONTACTS = ("closed", "opened")
"""The cues at which the hand may have grasped or released an object."""


def moments(length: int, fps: float, proposals: Sequence[Proposal]) -> tuple[int, ...]:
    """Pick the frames to show: the first, the last, those at proposals, and one a second between.

    At a contact the frame before it is shown too; where the arm only rests, both would look the same.
    """
    at = {p.frame for p in proposals} | {p.frame - 1 for p in proposals if p.cue in CONTACTS}
    fixed = np.array(sorted({0, length - 1, *at}))
    steady = np.arange(0, length, max(1.0, fps)).round().astype(int)
    far = [int(f) for f in steady if np.abs(fixed - f).min() > 0.3 * fps]
    return tuple(sorted({*fixed.tolist(), *far}))


def contact_sheet(recording: Recording, cameras: Sequence[str], frames: Sequence[int]) -> Image:
    """Draw `frames` in rows of COLUMNS, one row for each camera, each tile under `NUMBER  SECONDS`.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    start = recording.timestamps[0]
    labels = [f"{frame}  {recording.timestamps[frame] - start:.1f}s" for frame in frames]
    tiles = [
        [_tile(i.pixels, t) for i, t in zip(recording.frames(c, frames), labels, strict=True)]
        for c in cameras
    ]
    rows = [row[i : i + COLUMNS] for i in range(0, len(frames), COLUMNS) for row in tiles]
    width = max(sum(tile.shape[1] for tile in row) for row in rows)
    return Image(np.vstack([_row(row, width) for row in rows]))


def _row(tiles: Sequence[NDArray[np.uint8]], width: int) -> NDArray[np.uint8]:
    row = np.hstack(tiles)
    return np.pad(row, ((0, 0), (0, width - row.shape[1]), (0, 0)))


def _tile(pixels: NDArray[np.uint8], label: str) -> NDArray[np.uint8]:
    import cv2

    height, width = pixels.shape[:2]
    tile_width = min(max(width, _NARROW), _WIDE)
    method = cv2.INTER_AREA if tile_width < width else cv2.INTER_NEAREST
    tile = np.zeros((_STRIP + max(1, round(height * tile_width / width)), tile_width, 3), np.uint8)
    tile[_STRIP:] = cv2.resize(pixels, (tile_width, tile.shape[0] - _STRIP), interpolation=method)
    cv2.putText(tile, label, (3, _STRIP - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (255, 255, 255), 1, cv2.LINE_AA)
    return tile
