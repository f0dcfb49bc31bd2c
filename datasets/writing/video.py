"""The sub-goal camera as an mp4, at the rate of the rows or at their own times; most pictures stand still.

Measured at 320x192 (ten real goals of 60 frames each, one thread): lerobot's own AV1 default (g=2, crf 30)
takes 4.0 ms and 3.7 KB a frame, is 1.8 levels from the picture, and is read at random in 3.5 ms (torchcodec)
or 5.8 ms (pyav); this takes 0.16 ms, 1.5 KB, 1.4 levels, 1.8 and 4.3 ms.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import av
import numpy as np
from av.logging import ERROR, set_libav_level
from av.video.frame import PictureType
from numpy.typing import NDArray

from goalreel.datasets.episode import Episode
from goalreel.datasets.video import ffmpeg_url
from goalreel.files import atomic

if TYPE_CHECKING:
    from lerobot.configs.video import RGBEncoderConfig

type Encode = Callable[[NDArray[np.uint8], int, bool], None]
"""Called with a picture, for how many frames it stands still, and whether the first must be a keyframe."""
type PictureRun = tuple[int, NDArray[np.uint8], bool]
"""So many frames of one (height, width, 3) picture, and whether the first must be a keyframe."""
TOLERANCE_S = 1e-4
"""lerobot's loader wants a frame this close to its timestamp."""
TICKS = 90_000
"""Units a second of a video whose frames have times of their own."""
LEAD = np.cumsum([0, *(900 + int(2700 * (i * 0.618034 % 1)) for i in range(31))])
"""Times of the frames before the first episode of such a video, in ticks; torchcodec counts from the first.

They fit no frame rate. FFmpeg would take the nearest common rate for that of the file otherwise; now it takes
the rate of the clock.
"""
LEAD_S = 1.0
"""Time at which the first episode may begin (s)."""
_ANY_TIME = {"movflags": "frag_custom+delay_moov+default_base_moof"}
"""An mp4 in one fragment, whose header does not count its frames.

torchcodec, as lerobot uses it, looks for the frame number `rate * time`, the rate being that of the clock. It
refuses numbers from the count of frames on, which the header of another mp4 tells.
"""
AT_ONCE = 32
"""Frames decoded at a time, while they are encoded anew."""


@dataclass(frozen=True)
class EncoderSettings:
    """An H.264 encoder at a constant quantiser, with the fields of lerobot's `RGBEncoderConfig`."""

    pix_fmt: str
    preset: str
    extra_options: dict[str, str] = field(default_factory=dict)
    vcodec: Literal["h264"] = "h264"
    g: int = 10
    """Frames from one keyframe to the next at most."""
    crf: None = None
    fast_decode: int = 0
    video_backend: str = "pyav"

    def codec_options(self) -> dict[str, str]:
        """The options of libav's encoder, for one thread: the same pictures give the same bytes."""
        return {"g": str(self.g), "preset": self.preset, "threads": "1", **self.extra_options}

    def lerobot_config(self) -> "RGBEncoderConfig":
        """The same settings for a writer of lerobot's."""
        from lerobot.configs.video import RGBEncoderConfig

        return RGBEncoderConfig(**asdict(self))


def goal_encoder(size: tuple[int, int]) -> EncoderSettings:
    """The encoder of a sub-goal camera whose pictures stand still.

    A keyframe at least every 10 frames, no B-frames. Half the colour resolution, as players expect; all of it
    where `size` (width, height) is odd, which half does not divide.

    At a constant quantiser: x264's rate control (crf) gave other bytes in 3 of 55 runs on a loaded machine,
    this in none of 322. There is no rate to control in a still picture either.
    """
    options = {"qp": "18", "bf": "0", "x264-params": "rc-lookahead=0:weightp=0"}
    return EncoderSettings(_pixel_format(size), "ultrafast", options)


def recording_encoder(size: tuple[int, int] = (0, 0)) -> EncoderSettings:
    """The encoder of pictures that move.

    Closer to the picture and faster than lerobot's default, AV1, at about its file size
    (dev/LOG.md, 2026-11-21). All of the colour resolution where `size` (width, height) is odd.

    It is also safe: SVT-AV1, run as root, gives the calling thread real-time priority (SCHED_FIFO 99) and
    never takes it back. Every thread and process started from there inherits it, and starves the machine.
    """
    return EncoderSettings(_pixel_format(size), "veryfast", {"qp": "20", "bf": "0"})


def _pixel_format(size: tuple[int, int]) -> str:
    return "yuv444p" if size[0] % 2 or size[1] % 2 else "yuv420p"


def video_info(path: Path, settings: EncoderSettings | None = None) -> dict[str, Any]:
    """Describe a camera whose video is `path` as info.json does, and its encoder where `settings` are given.

    Keys and order are those of lerobot's `get_video_info` for colour videos without sound.
    """
    info: dict[str, Any] = {}
    with av.open(ffmpeg_url(path), metadata_errors="replace") as container:
        stream = container.streams.video[0]
        info |= {
            "video.height": stream.height,
            "video.width": stream.width,
            "video.codec": stream.codec.canonical_name,
            "video.pix_fmt": stream.pix_fmt,
            "video.fps": int(stream.base_rate or 0),
            "video.channels": len(stream.format.components),
            "has_audio": False,
        }
    for name in ("g", "crf", "preset", "fast_decode", "video_backend", "extra_options") if settings else ():
        info[f"video.{name}"] = getattr(settings, name)
    return info | {"is_depth_map": False}


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


def cut_video(episode: Episode, camera: str, path: Path) -> None:
    """Write every frame of a camera as the mp4 `path`, encoded anew, each shown at its own timestamp.

    Raises:
        DatasetError: frames are missing or cannot be decoded; the disk is full.
    """
    size = episode.frames(camera, [0])[0].size
    fps = Fraction(str(episode.info["fps"]))
    seconds = episode.timestamps.astype(np.float64)
    steady = np.rint(seconds * episode.fps)
    times, unit = steady, None
    if np.abs(steady / episode.fps - seconds).max() > TOLERANCE_S:
        times, unit = np.rint(seconds * TICKS), Fraction(1, TICKS)
    with encoding(path, recording_encoder(size), size, fps, times.astype(int).tolist(), unit) as encode:
        for chosen in itertools.batched(range(len(episode)), AT_ONCE):
            for image in episode.frames(camera, chosen):
                encode(image.pixels, 1, False)
