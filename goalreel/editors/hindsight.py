"""The Editor of the `hindsight` preset: the goal image of a segment is one of its own last frames."""

from collections.abc import Sequence
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.concurrency import map_threaded
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.types import Edit, Failure, Recordings, Segment, opener

CANDIDATES = 6
"""Frames of a segment to choose from, evenly spread."""
THREADS = 2
"""Edits answered at once: decoding and measuring a picture leave Python's lock to others."""


class HindsightEditor:
    """Answers an edit of a recorded segment with a real frame of its end: attempt k gets the k-th best.

    A good frame is sharp (variance of the Laplacian), without moving objects (close to the window's median
    picture) and, among equals, late.
    """

    def __init__(self, recordings: Recordings, camera: str, window: float = 0.5) -> None:
        """
        Args:
            recordings: the episodes by id; read in several threads.
            camera: the camera of the frames.
            window: seconds before the segment's end to choose from, at least 3 frames; see `Segment.goal`.
        """
        self._open = opener(recordings)
        self._camera, self._window = camera, window
        self._rank = lru_cache(32)(self._read_ranked)  # for retries

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i is a frame of recording `edits[i].task_id`, named `CAMERA#INDEX`, or a Failure."""
        return map_threaded(self._edit, edits, THREADS)

    def _edit(self, edit: Edit) -> Image | Failure:
        step = f"{edit.task_id} step {edit.step}"
        if edit.segment is None:
            return Failure(
                stage="edit", message=f"{step} has no segment: hindsight needs a plan read off a recording"
            )
        try:
            ranked = self._rank(edit.task_id, edit.segment)
        except KeyError:
            return Failure(stage="edit", message=f"no recording {edit.task_id!r}")
        except (DatasetError, IndexError) as e:
            return Failure(stage="edit", message=str(e))
        if edit.attempt >= len(ranked):
            return Failure(stage="edit", message=f"{step}: all {len(ranked)} frames have been tried")
        return ranked[edit.attempt]

    def _read_ranked(self, task_id: str, segment: Segment) -> list[Image]:
        """Rank frames that are evenly spread over `segment.goal`, or over the segment's end."""
        recording = self._open(task_id)
        last = segment.end - max(3, round(self._window * recording.fps))
        first, end = segment.goal or (max(segment.start, last), segment.end)
        spread = np.linspace(end - 1, first, min(CANDIDATES, end - first))
        return rank(recording.frames(self._camera, sorted({round(i) for i in spread})))


def rank(images: Sequence[Image]) -> list[Image]:
    """Sort frames, given in order of time and of one size, from the best to the worst.

    Score: sharpness as a share of the sharpest (weight 1), minus the distance from the window's median
    picture in tenths of the grey range (weight 1), plus a little for lateness (weight 0.1).
    """
    greys = [np.asarray(cv2.cvtColor(image.pixels, cv2.COLOR_RGB2GRAY), np.uint8) for image in images]
    small = np.stack([_thumbnail(grey) for grey in greys])
    distance = np.abs(small - np.median(small, axis=0)).mean(axis=(1, 2)) / 25.5
    sharp = np.array([cv2.Laplacian(grey, cv2.CV_64F).var() for grey in greys])
    late = np.linspace(0, 0.1, len(images)) if len(images) > 1 else np.zeros(1)
    score = sharp / max(float(sharp.max()), 1e-9) - np.minimum(distance, 1) + late
    return [images[i] for i in sorted(range(len(images)), key=lambda i: (-score[i], -i))]


def _thumbnail(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Shrink a grey picture to 32 pixels across, 0-255: enough to see an arm pass, too coarse for blur."""
    height, width = grey.shape
    size = (min(32, width), max(1, round(height * min(32, width) / width)))
    return cv2.resize(grey, size, interpolation=cv2.INTER_AREA).astype(np.float32)
