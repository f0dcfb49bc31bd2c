"""Encoders for recordings, lerobot's default beside ours: bytes, processor time and error of a frame.

python benchmarks/video_codecs.py --json                  # both cameras of two simulated episodes
python benchmarks/video_codecs.py front.mp4 --json        # the first frames of a video
"""

import io
import json
import os
import time
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")
os.environ.setdefault("SVT_LOG", "1")

import av
import numpy as np
import typer
from lerobot.configs.video import RGBEncoderConfig
from numpy.typing import NDArray

from goalreel.datasets.writing.video import recording_encoder
from goalreel.tabletop.sim.cameras import NAMES as CAMERAS
from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.grammar import sample_episode
from goalreel.tabletop.sim.rollout import rollout
from goalreel.tabletop.sim.splits import seeds

FRAMES = 240


@dataclass(frozen=True)
class Score:
    kilobytes: float
    """A frame."""
    milliseconds: float
    """Of one core, a frame."""
    error: float
    """Mean absolute difference of a colour value, of 255."""


def main(
    video: Annotated[Path | None, typer.Argument(help="By default, simulated episodes.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    av.logging.set_libav_level(av.logging.ERROR)
    shown = {video.stem: _read(video.read_bytes())[:FRAMES]} if video else {c: _simulated(c) for c in CAMERAS}
    # H.264 first: as root, AV1's encoder changes this process's priority.
    encoders = {"ours": recording_encoder(), "lerobot": RGBEncoderConfig()}
    scores = {
        f"{camera}.{name}": _score(config, frames)
        for name, config in encoders.items()
        for camera, frames in shown.items()
    }
    if as_json:
        typer.echo(json.dumps({name: asdict(score) for name, score in scores.items()}))
        return
    for name, score in scores.items():
        typer.echo(
            f"{name:14} {score.kilobytes:.1f} KB  {score.milliseconds:.2f} ms  {score.error:.2f} levels"
        )


def _simulated(camera: str) -> list[NDArray[np.uint8]]:
    """A camera at 192 px; every frame the simulator shows."""
    frames: list[NDArray[np.uint8]] = []
    for seed in seeds("validation", 2):
        episode = sample_episode(seed)
        with Tabletop(episode.scene) as env:
            frames += [env.render(camera, 192) for _ in islice(rollout(env, episode.goals), FRAMES // 2)]
    return frames


def _score(config: RGBEncoderConfig, frames: list[NDArray[np.uint8]]) -> Score:
    file = io.BytesIO()
    options = config.get_codec_options(encoder_threads=1, as_strings=True)
    began = time.process_time()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(config.vcodec, rate=10, options=options)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    spent = time.process_time() - began
    pairs = zip(frames, _read(file.getvalue()), strict=True)
    error = np.mean([np.abs(a.astype(np.int16) - b).mean() for a, b in pairs])
    return Score(
        round(len(file.getvalue()) / len(frames) / 1024, 2),
        round(spent / len(frames) * 1000, 2),
        round(float(error), 2),
    )


def _read(data: bytes) -> list[NDArray[np.uint8]]:
    with av.open(io.BytesIO(data)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


if __name__ == "__main__":
    typer.run(main)
