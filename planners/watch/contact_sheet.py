"""Contact sheets for models that watch: frames of an episode on one picture, each with number and time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.planners.kinematic.proposals import Proposal
from goalreel.types import Recording

COLUMNS = 5
TILES = 20
"""Frames on one sheet, of each camera: about 1.5 megapixels, which no hosted model shrinks much."""
_WIDE, _NARROW, _STRIP = 224, 96, 16
CONTACTS = ("closed", "opened")
"""The cues at which the hand may have taken or left a thing."""


def moments(length: int, fps: float, proposals: Sequence[Proposal]) -> tuple[int, ...]:
    """Pick the frames worth a look: the first and the last, those at proposals, and one a second between.

    At a contact also the frame before it; where the arm only rests, the two would show the same.
    """
    at = {p.frame for p in proposals} | {p.frame - 1 for p in proposals if p.cue in CONTACTS}
    known = np.array(sorted({0, length - 1, *at}))
    steady = np.arange(0, length, max(1.0, fps)).round().astype(int)
    far = [int(f) for f in steady if np.abs(known - f).min() > 0.3 * fps]
    return tuple(sorted({*known.tolist(), *far}))


def contact_sheet(recording: Recording, cameras: Sequence[str], frames: Sequence[int]) -> Image:
    """Draw `frames` in rows of COLUMNS, each row once a camera, each tile under `NUMBER  SECONDS`.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    began = recording.timestamps[0]
    labels = [f"{frame}  {recording.timestamps[frame] - began:.1f}s" for frame in frames]
    tiles = [
        [_tile(i.pixels, t) for i, t in zip(recording.frames(c, frames), labels, strict=True)]
        for c in cameras
    ]
    rows = [row[i : i + COLUMNS] for i in range(0, len(frames), COLUMNS) for row in tiles]
    wide = max(sum(tile.shape[1] for tile in row) for row in rows)
    return Image(np.vstack([_row(row, wide) for row in rows]))


def _row(tiles: Sequence[NDArray[np.uint8]], wide: int) -> NDArray[np.uint8]:
    row = np.hstack(tiles)
    return np.pad(row, ((0, 0), (0, wide - row.shape[1]), (0, 0)))


def _tile(pixels: NDArray[np.uint8], label: str) -> NDArray[np.uint8]:
    import cv2

    height, width = pixels.shape[:2]
    wide = min(max(width, _NARROW), _WIDE)
    way = cv2.INTER_AREA if wide < width else cv2.INTER_NEAREST
    tile = np.zeros((_STRIP + max(1, round(height * wide / width)), wide, 3), np.uint8)
    tile[_STRIP:] = cv2.resize(pixels, (wide, tile.shape[0] - _STRIP), interpolation=way)
    cv2.putText(tile, label, (3, _STRIP - 4), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (255, 255, 255), 1, cv2.LINE_AA)
    return tile
