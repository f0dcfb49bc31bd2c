"""The files of the sub-goal camera: which picture each frame of an episode shows."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.writing.build import Build, picture_size
from goalreel.datasets.writing.layout import VideoFile
from goalreel.datasets.writing.meta import VIDEO_PATH
from goalreel.datasets.writing.stats import Stats, camera_stats
from goalreel.datasets.writing.video import PictureRun, fit, write_video
from goalreel.errors import DatasetError
from goalreel.image import Image


def make_video(build: Build, video: VideoFile) -> tuple[Path, dict[int, Stats]]:
    """Write one file of the camera unless it is there; its statistics either way."""
    template = build.source.info.get("video_path") or VIDEO_PATH
    path = build.out / template.format(video_key=build.key, chunk_index=video.chunk, file_index=video.file)
    lengths = [build.clock[e].frames for e in video.episodes]
    made_from = build.made_from(video.chunk, video.file, lengths, episodes=video.episodes)
    note = build.marks.fresh(path, made_from)
    if note is None:
        build.marks.drop(path)
        stats: dict[int, Stats] = {}
        write_video(path, _runs(build, video, stats), build.size, Fraction(str(build.source.info["fps"])))
        note = {str(e): {name: value.tolist() for name, value in s.items()} for e, s in stats.items()}
        build.marks.put(path, made_from, note)
    return path, {int(e): {n: np.array(v) for n, v in s.items()} for e, s in note.items()}


def _runs(build: Build, video: VideoFile, stats: dict[int, Stats]) -> Iterator[PictureRun]:
    """The pictures of a file's episodes in order; fills `stats` as it goes."""
    from lerobot.datasets.compute_stats import DEFAULT_QUANTILES

    black = np.zeros((build.size[1], build.size[0], 3), np.uint8)
    for episode in video.episodes:
        length = build.clock[episode].frames
        plan = build.goals[episode].runs(length) if episode in build.goals else [(length, None)]
        pictures = _pictures(build, episode, [p for _, p in plan if p is not None])
        runs = [(n, black if p is None else pictures[p]) for n, p in plan]
        stats[episode] = camera_stats(runs, DEFAULT_QUANTILES)
        yield from runs


def _pictures(build: Build, episode: int, references: list[str]) -> dict[str, NDArray[np.uint8]]:
    """The goal images by reference, at the camera's size."""
    frames: dict[str, list[int]] = {}
    for reference in references:
        if reference.startswith("frame:"):
            camera, _, index = reference.removeprefix("frame:").rpartition("#")
            frames.setdefault(camera, []).append(int(index))
    images: dict[str, Image] = {}
    try:
        for camera, indices in frames.items():
            for image in build.source.episode(episode).frames(camera, indices):
                images[f"frame:{image.frame}"] = image
        size = picture_size(build.source.features[build.camera])
        # What an editor drew has the shape that it works in, not quite the camera's.
        images |= {r: build.records.image(r).resized(size) for r in references if r not in images}
    except (ValueError, IndexError) as e:
        raise DatasetError(f"{build.records.path(episode)}: a goal image is lost: {e}") from e
    return {reference: fit(image.pixels, build.size) for reference, image in images.items()}


def prune(build: Build, keep: set[Path]) -> None:
    """Remove files of the camera that an earlier build of OUT laid out otherwise."""
    for path in sorted((build.out / "videos" / build.key).rglob("*.mp4")):
        inherited = (build.source.root / path.relative_to(build.out)).exists()
        if path not in keep and not inherited:
            path.unlink()
            build.marks.drop(path)
