"""The sub-goal camera as an mp4, at the constant rate lerobot's loader expects; most pictures stand still.

Measured at 320x192 (ten real goals of 60 frames each, one thread): lerobot's own AV1 default (g=2, crf 30)
takes 4.0 ms and 3.7 KB a frame, is 1.8 levels from the picture, and is read at random in 3.5 ms (torchcodec)
or 5.8 ms (pyav); this takes 0.16 ms, 1.5 KB, 1.4 levels, 1.8 and 4.3 ms.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.video import ffmpeg_url
from goalreel.files import atomic

if TYPE_CHECKING:
    from lerobot.configs.video import RGBEncoderConfig

type Encode = Callable[[NDArray[np.uint8], int, bool], None]
"""Called with a picture, for how many frames it stands still, and whether the first must be a keyframe."""
type PictureRun = tuple[int, NDArray[np.uint8], bool]
"""So many frames of one (height, width, 3) picture, and whether the first must be a keyframe."""


def encoder(size: tuple[int, int]) -> "RGBEncoderConfig":
    """H.264, a keyframe at least every 10 frames, no B-frames: what info.json will say of the camera.

    Half the colour resolution, as players expect; all of it where `size` (width, height) is odd, which half
    does not divide.

    At a constant quantiser: x264's rate control (crf) gave other bytes in 3 of 55 runs on a loaded machine,
    this in none of 322; and there is no rate to control in a still picture.
    """
    from lerobot.configs.video import RGBEncoderConfig

    options = {"qp": "18", "bf": "0", "x264-params": "rc-lookahead=0:weightp=0"}
    return RGBEncoderConfig(
        vcodec="h264", pix_fmt=_pixels(size), g=10, crf=None, preset="ultrafast", extra_options=options
    )


def recording_encoder(size: tuple[int, int] = (0, 0)) -> "RGBEncoderConfig":
    """H.264 for pictures that move: nearer and encoded sooner than lerobot's default, AV1, at about its size
    (dev/LOG.md, 2026-11-21). All of the colour resolution where `size` (width, height) is odd.

    And safe: SVT-AV1 gives the calling thread real-time priority (SCHED_FIFO 99) when it runs as root, and
    never takes it back. Every thread and process started from there inherits it, and starves the machine.
    """
    from lerobot.configs.video import RGBEncoderConfig

    options = {"qp": "20", "bf": "0"}
    return RGBEncoderConfig(
        vcodec="h264", pix_fmt=_pixels(size), g=10, crf=None, preset="veryfast", extra_options=options
    )


def _pixels(size: tuple[int, int]) -> str:
    return "yuv444p" if size[0] % 2 or size[1] % 2 else "yuv420p"


def fit(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Scale to (width, height), with black borders where the shape differs."""
    import cv2

    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    scale = min(size[0] / width, size[1] / height)
    inner = (max(round(width * scale), 1), max(round(height * scale), 1))
    canvas = np.zeros((size[1], size[0], 3), np.uint8)
    left, top = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    canvas[top : top + inner[1], left : left + inner[0]] = cv2.resize(picture, inner, interpolation=how)
    return canvas


def write_video(
    path: Path,
    config: "RGBEncoderConfig",
    runs: Iterable[PictureRun],
    size: tuple[int, int],
    fps: Fraction,
) -> None:
    """Encode runs of pictures of `size` (width, height), frame i shown at i / fps seconds.

    Raises:
        DatasetError: the disk is full.
    """
    with encoding(path, config, size, fps) as encode:
        for count, picture, cut in runs:
            encode(picture, count, cut)


@contextmanager
def encoding(
    path: Path, config: "RGBEncoderConfig", size: tuple[int, int], fps: Fraction, first: int = 0
) -> Iterator[Encode]:
    """Write an mp4 of pictures of `size` (width, height) with the yielded function, from frame `first` on.

    One thread, so the same pictures give the same bytes.

    Raises:
        DatasetError: the disk is full.
    """
    import av
    from av.logging import ERROR, set_libav_level
    from av.video.frame import PictureType

    options = config.get_codec_options(encoder_threads=1, as_strings=True)
    set_libav_level(ERROR)  # x264 reports on every file otherwise
    with atomic(path) as tmp, av.open(ffmpeg_url(tmp), "w", format="mp4") as container:
        stream = container.add_stream("h264", rate=fps, options=options)
        stream.width, stream.height = size
        stream.pix_fmt = config.pix_fmt
        at = first

        def encode(picture: NDArray[np.uint8], count: int, cut: bool) -> None:
            nonlocal at
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=config.pix_fmt)
            for i in range(count):
                frame.pts = at
                frame.pict_type = PictureType.I if cut and i == 0 else PictureType.NONE
                container.mux(stream.encode(frame))
                at += 1

        yield encode
        container.mux(stream.encode())
