"""A video file as a recording: pictures alone, without the robot's numbers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from rich.table import Table

from goalreel.annotator.statistics import Measurement
from goalreel.datasets.video import VideoIndex, decode
from goalreel.image import Image
from goalreel_lab.statistics import json_line

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


type Published = dict[str, dict[str, float]]
"""System -> measure -> its published value."""


@cache
def published_values(benchmark: str) -> Published:
    """Read what others published on a benchmark, with where it is from in the names of the systems."""
    import yaml

    text = (files(__package__ or __name__.rpartition(".")[0]) / "published.yaml").read_text()
    return yaml.safe_load(text)[benchmark]


class VideoBenchReport(BaseModel, frozen=True):
    """Report on a benchmark of videos."""

    benchmark: str
    models: dict[str, str]
    """By what they did."""
    counts: dict[str, int]
    values: dict[str, Measurement]
    notes: tuple[str, ...]
    """Notes on what must be known to compare the numbers with the published ones, or forbids it."""

    def as_json(self) -> str:
        """Write one line: values as KEY, KEY_low and KEY_high, and `published` by system."""
        settings = {"benchmark": self.benchmark, "models": self.models, **self.counts}
        settings |= {"published": published_values(self.benchmark), "notes": list(self.notes)}
        return json_line(settings, self.values)

    def table(self) -> Table:
        """Make a table of ours beside the published values."""
        systems = published_values(self.benchmark)
        title = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        table = Table("measure", "ours", "95 % interval", *systems, box=None, title=title)
        for key, m in self.values.items():
            ours = "-" if m.value is None else f"{m.value:.3f}"
            others = (json.dumps(values[key]) if key in values else "" for values in systems.values())
            table.add_row(key, ours, m.interval(), *others)
        return table
