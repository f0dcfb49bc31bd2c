"""How videos are encoded, and what info.json says of them: lerobot's fields and words, without its import."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import av

from goalreel.datasets.video import ffmpeg_url

if TYPE_CHECKING:
    from lerobot.configs.video import RGBEncoderConfig


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
    """What info.json says of a camera whose video is `path`, and of its encoder where `settings` are given.

    Keys and order are those of lerobot's `get_video_info` for colour videos without sound.
    """
    info: dict[str, Any] = {}
    with av.open(ffmpeg_url(path)) as container:
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
