"""A video file as a recording: pictures alone, without the robot's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.video import VideoIndex, decode
from goalreel.image import Image

CAMERA = "video"
"""The name of a video's only camera."""


@dataclass(frozen=True)
class VideoRecording:
    """One video with what was asked for in it. State and action have no dimension.

    Raises:
        DatasetError: from whatever looks at the video, where it is missing or cannot be read.
    """

    id: str
    path: Path
    instruction: str
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    @cached_property
    def _index(self) -> VideoIndex:
        return VideoIndex.read(self.path)

    @property
    def fps(self) -> float:
        """Give the frames a second, by the median of their distances."""
        return self._index.rate() or 1.0

    @cached_property
    def timestamps(self) -> NDArray[np.float32]:
        """Give the seconds since the first frame, (n,)."""
        return (self._index.times - self._index.times[0]).astype(np.float32)

    @property
    def state(self) -> NDArray[np.float32]:
        return np.zeros((len(self.timestamps), 0), np.float32)

    @property
    def action(self) -> NDArray[np.float32]:
        return np.zeros((len(self.timestamps), 0), np.float32)

    @property
    def length_s(self) -> float:
        """Give the seconds from the first frame's beginning to the last one's end."""
        return float(self.timestamps[-1]) + 1 / self.fps

    def frames(self, camera: str, indices: Sequence[int]) -> list[Image]:
        """Decode frames; each `Image.frame` is `CAMERA#INDEX`.

        Raises:
            DatasetError: a frame cannot be decoded.
            IndexError: an index outside the video.
        """
        if any(not 0 <= i < len(self.timestamps) for i in indices):
            raise IndexError(f"{self.path} has {len(self.timestamps)} frames, asked for {list(indices)}")
        pts = [int(self._index.pts[i]) for i in indices]
        pictures = decode(self._index, pts)
        return [Image(pictures[p], frame=f"{camera}#{i}") for p, i in zip(pts, indices, strict=True)]
