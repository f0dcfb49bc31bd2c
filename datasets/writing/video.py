"""The sub-goal camera as an mp4, at the constant rate lerobot's loader expects; most pictures stand still.

Measured at 320x192 (ten real goals of 60 frames each, one thread): lerobot's own AV1 default (g=2, crf 30)
takes 4.0 ms and 3.7 KB a frame, is 1.8 levels from the picture, and is read at random in 3.5 ms (torchcodec)
or 5.8 ms (pyav); this takes 0.16 ms, 1.5 KB, 1.4 levels, 1.8 and 4.3 ms.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.logging import ERROR, set_libav_level
from av.video.frame import PictureType
from numpy.typing import NDArray

from goalreel.datasets.video import ffmpeg_url
from goalreel.datasets.writing.encoder import EncoderSettings
from goalreel.files import atomic

type Encode = Callable[[NDArray[np.uint8], int, bool], None]
"""Called with a picture, for how many frames it stands still, and whether the first must be a keyframe."""
type PictureRun = tuple[int, NDArray[np.uint8], bool]
"""So many frames of one (height, width, 3) picture, and whether the first must be a keyframe."""


def write_video(
    path: Path, settings: EncoderSettings, runs: Iterable[PictureRun], size: tuple[int, int], fps: Fraction
) -> None:
    """Encode runs of pictures of `size` (width, height), frame i shown at i / fps seconds.

    Raises:
        DatasetError: the disk is full.
    """
    with encoding(path, settings, size, fps) as encode:
        for count, picture, cut in runs:
            encode(picture, count, cut)


@contextmanager
def encoding(
    path: Path, settings: EncoderSettings, size: tuple[int, int], fps: Fraction, first: int = 0
) -> Iterator[Encode]:
    """Write an mp4 of pictures of `size` (width, height) with the yielded function, from frame `first` on.

    One thread, so the same pictures give the same bytes.

    Raises:
        DatasetError: the disk is full.
    """
    set_libav_level(ERROR)  # x264 reports on every file otherwise
    with atomic(path) as tmp, av.open(ffmpeg_url(tmp), "w", format="mp4") as container:
        stream = container.add_stream(settings.vcodec, rate=fps, options=settings.codec_options())
        stream.width, stream.height = size
        stream.pix_fmt = settings.pix_fmt
        at = first

        def encode(picture: NDArray[np.uint8], count: int, cut: bool) -> None:
            nonlocal at
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=settings.pix_fmt)
            for i in range(count):
                frame.pts = at
                frame.pict_type = PictureType.I if cut and i == 0 else PictureType.NONE
                container.mux(stream.encode(frame))
                at += 1

        yield encode
        container.mux(stream.encode())
