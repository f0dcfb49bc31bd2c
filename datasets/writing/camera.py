"""The files of the sub-goal camera: which picture each frame of an episode shows."""

from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from goalreel.concurrency import prefetch
from goalreel.datasets.stored_files import VIDEO_PATH, stored
from goalreel.datasets.writing.layout import VideoFile, ticks
from goalreel.datasets.writing.meta import PictureLevels, Stats
from goalreel.datasets.writing.plan import BuildPlan
from goalreel.datasets.writing.video import AT_ONCE, PictureRun, write_video
from goalreel.errors import DatasetError
from goalreel.files import digest
from goalreel.image import Image
from goalreel.subgoal_camera import fit, in_form


def make_video(build: BuildPlan, video: VideoFile) -> tuple[Path, dict[int, Stats]]:
    """Write one file of the camera unless it exists; returns its path, and the statistics of its episodes."""
    template, prefix = build.source.info.get("video_path") or VIDEO_PATH, f"videos/{build.key}"
    row = {f"{prefix}/chunk_index": video.chunk, f"{prefix}/file_index": video.file}
    path = stored(build.out, template, row, prefix, video_key=build.key)
    lengths = [build.clock[e].frames for e in video.episodes]
    times = ticks(video, build.clock, build.source.fps)
    clock = () if times is None else (digest(times.tobytes()),)
    made_from = build.made_from(video.chunk, video.file, lengths, *clock, episodes=video.episodes)
    note = build.marks.fresh(path, made_from)
    if note is None:
        build.marks.drop(path)
        stats: dict[int, Stats] = {}
        fps = Fraction(str(build.source.info["fps"]))
        write_video(path, build.encoder, _runs(build, video, stats), build.size, fps, times)
        note = {str(e): {name: value.tolist() for name, value in s.items()} for e, s in stats.items()}
        build.marks.put(path, made_from, note)
    return path, {e: {k: np.array(v) for k, v in note[str(e)].items()} for e in video.episodes}


def _runs(build: BuildPlan, video: VideoFile, stats: dict[int, Stats]) -> Iterator[PictureRun]:
    """The pictures of a file's episodes in order; fills `stats` as it goes.

    While an episode is encoded, the pictures of the next are made.
    """
    with closing(prefetch(partial(_pictures, build), video.episodes, 1)) as goals:
        for episode, pictures in zip(video.episodes, goals, strict=True):
            levels = PictureLevels()
            for count, picture, cut in _episode_runs(build, episode, pictures):
                levels.add(count, picture)
                yield count, picture, cut
            stats[episode] = levels.stats()


def _episode_runs(
    build: BuildPlan, episode: int, goals: dict[str, NDArray[np.uint8]]
) -> Iterator[PictureRun]:
    """Every run starts on a keyframe, and so does every episode."""
    black = np.zeros((build.size[1], build.size[0], 3), np.uint8)
    at = 0
    for count, reference in _plan(build, episode):
        if reference is None:
            yield count, black, True
        elif build.follows:
            for i, live in enumerate(_live(build, episode, range(at, at + count))):
                yield 1, in_form(build.form, goals[reference], live), i == 0
        else:
            yield count, goals[reference], True
        at += count


def _live(build: BuildPlan, episode: int, frames: range) -> Iterator[NDArray[np.uint8]]:
    """Yield the live frames of the goals' camera, at the size of the goals."""
    recorded = build.source.episode(episode)
    for start in range(0, len(frames), AT_ONCE):
        for image in recorded.frames(build.camera, frames[start : start + AT_ONCE]):
            yield fit(image.pixels, build.size)


def _plan(build: BuildPlan, episode: int) -> list[tuple[int, str | None]]:
    """The episode as (frame count, reference of the goal image) runs."""
    length = build.clock[episode].frames
    return build.goals[episode].runs(length) if episode in build.goals else [(length, None)]


def _pictures(build: BuildPlan, episode: int) -> dict[str, NDArray[np.uint8]]:
    """The goal images by reference, at the camera's size; in its form, unless that needs the live frame."""
    references = [reference for _, reference in _plan(build, episode) if reference is not None]
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
        # What an editor drew has the shape that it works in, not quite the camera's.
        for reference in references:
            if reference not in images:
                images[reference] = build.records.image(reference).resized(build.camera_size)
    except (ValueError, IndexError) as e:
        raise DatasetError(f"{build.records.path(episode)}: a goal image is lost: {e}") from e
    pictures = {reference: fit(image.pixels, build.size) for reference, image in images.items()}
    return pictures if build.follows else {r: in_form(build.form, picture) for r, picture in pictures.items()}


def prune(build: BuildPlan, keep: set[Path]) -> None:
    """Remove files of the camera that an earlier build of OUT laid out otherwise."""
    for path in sorted((build.out / "videos" / build.key).rglob("*.mp4")):
        inherited = (build.source.root / path.relative_to(build.out)).exists()
        if path not in keep and not inherited:
            path.unlink()
            build.marks.drop(path)
