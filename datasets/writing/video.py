"""The sub-goal camera as an mp4, at the rate of the rows or at their own times; most pictures stand still.

Measured at 320x192 (ten real goals of 60 frames each, one thread): lerobot's own AV1 default (g=2, crf 30)
takes 4.0 ms and 3.7 KB a frame, is 1.8 levels from the picture, and is read at random in 3.5 ms (torchcodec)
or 5.8 ms (pyav); this takes 0.16 ms, 1.5 KB, 1.4 levels, 1.8 and 4.3 ms.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
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
TICKS = 90_000
"""Units a second of a video whose frames have times of their own."""
LEAD = np.cumsum([0, *(900 + int(2700 * (i * 0.618034 % 1)) for i in range(31))])
"""Times of the frames before the first episode of such a video, in ticks; torchcodec counts from the first.

They fit no frame rate. FFmpeg would take the nearest common rate for that of the file otherwise; now it takes
the rate of the clock.
"""
LEAD_S = 1.0
"""Where the first episode may begin (s)."""
_ANY_TIME = {"movflags": "frag_custom+delay_moov+default_base_moof"}
"""An mp4 in one fragment, whose header does not count its frames.

torchcodec, as lerobot uses it, looks for the frame number `rate * time`, the rate being that of the clock. It
refuses numbers from the count of frames on, which the header of another mp4 tells.
"""


def write_video(
    path: Path,
    settings: EncoderSettings,
    runs: Iterable[PictureRun],
    size: tuple[int, int],
    fps: Fraction,
    ticks: NDArray[np.int64] | None = None,
) -> None:
    """Encode runs of pictures of `size` (width, height), frame i shown at i / fps seconds or at `ticks[i]`.

    `ticks`, (frames,), come after LEAD.

    Raises:
        DatasetError: the disk is full.
    """
    times = None if ticks is None else np.concatenate([LEAD, ticks]).tolist()
    unit = None if ticks is None else Fraction(1, TICKS)
    with encoding(path, settings, size, fps, times, unit, _ANY_TIME if unit else {}) as encode:
        if ticks is not None:
            encode(np.zeros((size[1], size[0], 3), np.uint8), len(LEAD), True)
        for count, picture, cut in runs:
            encode(picture, count, cut)


@contextmanager
def encoding(
    path: Path,
    settings: EncoderSettings,
    size: tuple[int, int],
    fps: Fraction,
    times: Iterable[int] | None = None,
    unit: Fraction | None = None,
    format_options: Mapping[str, str] | None = None,
) -> Iterator[Encode]:
    """Write an mp4 of pictures of `size` (width, height) with the yielded function.

    Frame i is shown at i / fps seconds, or at `times[i]` units (of 1 / fps s unless given). One that is not
    later than the frame before is left out. One thread, so the same pictures give the same bytes.

    Raises:
        DatasetError: the disk is full.
    """
    set_libav_level(ERROR)  # x264 reports on every file otherwise
    with (
        atomic(path) as tmp,
        av.open(ffmpeg_url(tmp), "w", format="mp4", options=dict(format_options or {})) as container,
    ):
        stream = container.add_stream(settings.vcodec, rate=fps, options=settings.codec_options())
        stream.width, stream.height = size
        stream.pix_fmt = settings.pix_fmt
        if unit is not None:
            stream.time_base = stream.codec_context.time_base = unit
        upcoming = itertools.count() if times is None else iter(times)
        last = -1

        def encode(picture: NDArray[np.uint8], count: int, cut: bool) -> None:
            nonlocal last
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=settings.pix_fmt)
            for time in itertools.islice(upcoming, count):
                if time <= last:
                    continue
                frame.pts = last = time
                frame.pict_type = PictureType.I if cut else PictureType.NONE
                container.mux(stream.encode(frame))
                cut = False

        yield encode
        container.mux(stream.encode())
