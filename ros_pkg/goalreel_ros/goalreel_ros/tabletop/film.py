"""Pictures of a closed-loop run: a film of camera beside goal, and a strip of goals beside outcomes."""

from dataclasses import dataclass, field
from pathlib import Path

import av
import numpy as np

from goalreel.annotator.report.sheet import INK, MUTED, Cell, Line, lay_out
from goalreel.datasets.video import ffmpeg_url
from goalreel.image import Image

WIDTH, CELL = 720, 320
STRIP = 180
"""Minimal width of a picture of the strip."""


@dataclass(frozen=True)
class FilmFrame:
    """One camera frame and the active sub-goal: its number from 1 (0: none), name and picture.

    Without one, `message` is what the node says of its progress.
    """

    live: Image
    number: int = 0
    name: str = ""
    goal: Image | None = None
    message: str = ""


@dataclass
class Film:
    """Frames in order, `fps` a second. `reached` has the numbers of the completed steps."""

    task: str
    fps: int
    frames: list[FilmFrame] = field(default_factory=list)
    reached: frozenset[int] = frozenset()

    def write(self, path: Path) -> None:
        """Write the film as MP4 (H.264)."""
        pages = [self._page(frame).pixels for frame in self.frames]
        height = max(len(page) for page in pages) // 2 * 2
        with av.open(ffmpeg_url(path), "w", format="mp4") as file:
            stream = file.add_stream("h264", rate=self.fps, options={"crf": "20"})
            stream.width, stream.height, stream.pix_fmt = WIDTH, height, "yuv420p"
            for page in pages:
                fitted = np.full((height, WIDTH, 3), 255, np.uint8)
                fitted[: len(page)] = page[:height]
                file.mux(stream.encode(av.VideoFrame.from_ndarray(fitted, format="rgb24")))
            file.mux(stream.encode())

    def strip(self) -> Image:
        """Lay out each goal image beside the camera frame at the end of its sub-goal."""
        last = {frame.number: frame for frame in self.frames if frame.number}
        cells = []
        for number, frame in sorted(last.items()):
            goal = (Line(f"{number}. goal", 17, INK, 1), Line(frame.name, 15, MUTED, 3))
            end = f"{number}. {'reached' if number in self.reached else 'not reached'}"
            cells += [Cell(frame.goal, goal), Cell(frame.live, (Line(end, 17, INK, 1),))]
        return lay_out((Line(self.task, 20, INK, 5),), cells, 4 * (STRIP + 40), STRIP)

    def _page(self, frame: FilmFrame) -> Image:
        caption = f"goal {frame.number}: {frame.name}" if frame.number else frame.message
        camera = Cell(frame.live, (Line("camera", 17, INK, 1),))
        goal = Cell(frame.goal, (Line(caption, 17, INK, 2),), note=Line("no goal", 17, MUTED, 1))
        return lay_out((Line(self.task, 17, INK, 5),), (camera, goal), WIDTH, CELL)
