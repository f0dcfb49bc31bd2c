"""The least that annotating a dataset can take: decode frames and encode a goal video, with PyAV alone.

`python floor.py WORKLOAD.json OUT.mp4`; benchmarks/startup.py writes the workload.
"""

import json
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.logging import ERROR, set_libav_level
from av.video.frame import PictureType
from av.video.stream import VideoStream


def decode(path: str, indices: list[int]) -> dict[int, np.ndarray]:
    """Map presentation times to pictures, decoded in one pass that jumps to keyframes on the way."""
    pictures = {}
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        keyframes = sorted(p.pts for p in container.demux(stream) if p.is_keyframe and p.pts is not None)
        starts = np.maximum(np.searchsorted(keyframes, indices, side="right") - 1, 0)
        position, frames = -1, iter(())
        for target, key in zip(indices, np.take(keyframes, starts).tolist(), strict=True):
            if key > position:
                container.seek(key, stream=stream, backward=True)
                frames = container.decode(stream)
            for frame in frames:
                position = frame.pts  # else it would go back to a keyframe for each picture
                if position == target:
                    pictures[target] = frame.to_ndarray(format="rgb24")
                    break
    return pictures


def encode(path: str, workload: dict, pictures: dict[str, dict[int, np.ndarray]]) -> None:
    """Encode runs; each is one picture that stands still, and begins with a keyframe."""
    settings, (width, height) = workload["settings"], workload["size"]
    set_libav_level(ERROR)
    with av.open(path, "w", format="mp4") as container:
        stream = container.add_stream(
            settings["vcodec"], rate=Fraction(workload["fps"]), options=settings["options"]
        )
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, settings["pix_fmt"]
        position = 0
        for video, pts, count in workload["runs"]:
            picture = np.zeros((height, width, 3), np.uint8) if video is None else pictures[video][pts]
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=settings["pix_fmt"])
            for i in range(count):
                frame.pts, frame.pict_type = position, PictureType.I if i == 0 else PictureType.NONE
                container.mux(stream.encode(frame))
                position += 1
        container.mux(stream.encode())


if __name__ == "__main__":
    content = json.loads(Path(sys.argv[1]).read_text())
    encode(sys.argv[2], content, {path: decode(path, pts) for path, pts in content["frames"].items()})
