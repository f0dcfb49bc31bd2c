"""One episode's frames of one camera as a video of its own, as LeRobot v2.1 wants it."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError

from goalreel.datasets.episode import Episode
from goalreel.datasets.video import VideoIndex, ffmpeg_url, opened
from goalreel.datasets.writing.encoder import recording_encoder
from goalreel.datasets.writing.layout import TOLERANCE_S
from goalreel.datasets.writing.video import TICKS, encoding
from goalreel.errors import DatasetError
from goalreel.files import atomic

AT_ONCE = 32
"""Frames decoded at a time, while they are encoded anew."""


def cut_video(episode: Episode, camera: str, path: Path) -> None:
    """Write every frame of a camera as the mp4 `path`, each shown at its own timestamp.

    The encoded frames are copied where they can do without others, as where each episode was recorded to a
    video of its own; else, and from stored pictures, they are encoded anew (`recording_encoder`).

    Raises:
        DatasetError: frames are missing or cannot be decoded; the disk is full.
    """
    if not (episode.is_video(camera) and _copied(episode, camera, path)):
        _encoded(episode, camera, path)


def _copied(episode: Episode, camera: str, path: Path) -> bool:
    """Copy the encoded frames; False where they cannot do without others.

    That is where the first is no keyframe, or frames of another episode are among them in decoding order.
    """
    video, pts = episode.locate(camera, range(len(episode)))
    if pts[0] not in video.keyframes:
        return False
    shift = pts[0] - round(float(episode.timestamps[0]) / video.time_base)
    with opened(video.path) as source:
        packets = _packets(video, source, pts)
        if {packet.pts for packet in packets} != set(pts):
            return False
        with atomic(path) as tmp, av.open(ffmpeg_url(tmp), "w", format="mp4") as target:
            # Opaque: PyAV would look for an encoder called like the decoder, and AV1's has none.
            stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
            for packet in packets:
                packet.pts = None if packet.pts is None else packet.pts - shift
                packet.dts = None if packet.dts is None else packet.dts - shift
                packet.stream = stream
                target.mux(packet)
    return True


def _packets(video: VideoIndex, source: InputContainer, pts: Sequence[int]) -> list[av.Packet]:
    """Read as many packets as there are `pts`, in decoding order, from the keyframe at the first of them."""
    packets: list[av.Packet] = []
    stream = source.streams.video[0]
    try:
        source.seek(pts[0], stream=stream, backward=True)
        for packet in source.demux(stream):
            if packets or packet.pts == pts[0]:
                packets.append(packet)
            if len(packets) == len(pts):
                break
    except FFmpegError as e:
        raise DatasetError(f"{video.path}: not a readable video ({e}): truncated or corrupt?") from e
    return packets


def _encoded(episode: Episode, camera: str, path: Path) -> None:
    size = episode.frames(camera, [0])[0].size
    fps = Fraction(str(episode.info["fps"]))
    seconds = episode.timestamps.astype(np.float64)
    steady = np.rint(seconds * episode.fps)
    times, unit = steady, None
    if np.abs(steady / episode.fps - seconds).max() > TOLERANCE_S:
        times, unit = np.rint(seconds * TICKS), Fraction(1, TICKS)
    with encoding(path, recording_encoder(size), size, fps, times.astype(int).tolist(), unit) as encode:
        for start in range(0, len(episode), AT_ONCE):
            chosen = range(start, min(start + AT_ONCE, len(episode)))
            for image in episode.frames(camera, chosen):
                encode(image.pixels, 1, False)
