"""OUT from IN and the records: a valid LeRobot v3.0 dataset with language rows and a sub-goal camera.

A pure function: run twice it changes no byte, killed and run again it ends with the same bytes. info.json
goes first and comes last, so a half-built OUT is no dataset.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from goalreel.annotator.image import Image
from goalreel.datasets.errors import DatasetError
from goalreel.datasets.files import digest, sweep
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing import meta
from goalreel.datasets.writing.copies import check_apart, data_files, episode_files, pass_on
from goalreel.datasets.writing.goals import Goals, read_goals
from goalreel.datasets.writing.layout import Clock, VideoFile, arrange, clocks, places
from goalreel.datasets.writing.marks import Marks
from goalreel.datasets.writing.shards import rewrite_shard
from goalreel.datasets.writing.stats import Stats, camera_stats
from goalreel.datasets.writing.video import Run, encoder, fit, write_video

log = logging.getLogger(__name__)

FORMAT = "1"
"""Counts up when the same records give other bytes, so that an OUT of an older goalreel is built anew."""
SUBGOAL = "observation.images.subgoal"


@dataclass(frozen=True)
class _Build:
    source: Source
    out: Path
    records: Records
    key: str
    camera: str
    size: tuple[int, int]
    goals: dict[int, Goals]
    clock: dict[int, Clock]
    marks: Marks

    @property
    def mask_key(self) -> str:
        return f"{self.key}_padding_mask"

    @property
    def had_camera(self) -> bool:
        return self.key in self.source.features

    def made_from(self, *parts: object, episodes: Sequence[int]) -> str:
        """Digest of all that a file with these episodes is made from."""
        marks = [f"{e} {self.goals[e].digest if e in self.goals else ''}" for e in episodes]
        settings = json.dumps([FORMAT, self.records.source, self.key, self.camera, self.size, list(parts)])
        return digest(settings, *marks)


def build(
    source: Path,
    out: Path,
    records: Records,
    *,
    camera: str | None = None,
    camera_key: str = SUBGOAL,
    use_unverified: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the dataset `out` from the dataset `source` and the open `records` of `out`.

    `camera` is the camera of `source` that the goal images come from (None: its first fixed one) and gives
    their size. The new camera `camera_key` shows, on every frame of a step, the picture of that step's goal.
    `{camera_key}_padding_mask` is True on frames that have one, the rest is black: the name and the sense
    (True is a real picture) under which lerobot's SmolVLA looks for it. `progress(done, total)` counts files.

    Raises:
        DatasetError: `source` or a record is broken, `out` overlaps `source`, or the disk is full.
    """
    source, out = Path(source), Path(out)
    check_apart(source, out)
    job = _prepare(source, out, records, camera, camera_key, use_unverified)
    annotated = set(job.clock) if not job.had_camera else set(job.goals)
    videos = arrange(job.source, job.clock, annotated, camera_key)
    shards, episodes = data_files(source), episode_files(source)
    total = len(shards) + len(videos) + len(episodes) + 2

    sweep(out)
    info, everything = out / "meta" / "info.json", job.made_from("all", episodes=sorted(job.clock))
    if job.marks.fresh(info, everything) is None:
        job.marks.drop(info)
        info.unlink(missing_ok=True)
    pass_on(source, out)
    for done, _ in enumerate(_steps(job, shards, videos, episodes, everything), start=1):
        if progress:
            progress(done, total)


def _prepare(
    source: Path, out: Path, records: Records, camera: str | None, key: str, use_unverified: bool
) -> _Build:
    dataset = Source.open(source)
    name = dataset.camera(camera)
    feature = dataset.features.get(key)
    if name == key or (feature and feature["dtype"] != "video") or "/" in key:
        raise DatasetError(f"{source}: {key} cannot hold the goal images: name another camera for them")
    clock = clocks(data_files(source))
    chosen = sorted(records.done() & set(clock))
    goals = read_goals(records, chosen, {e: c.frames for e, c in clock.items()}, use_unverified)
    size = _size(feature or dataset.features[name])
    return _Build(dataset, out, records, key, name, size, goals, clock, Marks(out))


def _size(feature: dict) -> tuple[int, int]:
    """(width, height) of a camera, even, as yuv420p wants it."""
    shape = list(feature["shape"])
    if (feature.get("names") or [""])[0] in ("channel", "channels"):
        shape = shape[1:] + shape[:1]
    return shape[1] + shape[1] % 2, shape[0] + shape[0] % 2


def _steps(
    job: _Build, shards: list[Path], videos: list[VideoFile], episodes: list[Path], everything: str
) -> Iterator[None]:
    """Make one file after the other, skipping those that are made."""
    root, out, marks = job.source.root, job.out, job.marks
    for path in shards:
        _make_shard(job, path)
        yield
    stats: dict[int, Stats] = {}
    files = {}
    for video in videos:
        path, found = _make_video(job, video)
        files[path] = video
        stats |= found
        yield
    _prune(job, set(files))
    placed = places(videos, job.clock, job.source.fps)
    for path in episodes:
        target = out / path.relative_to(root)
        if marks.fresh(target, everything) is None:
            marks.drop(target)
            meta.write_episodes(path, target, job.key, placed, stats)
            marks.put(target, everything, {})
        yield
    meta.write_stats(root, out, job.key)
    yield
    probe = None if job.had_camera else min(files)
    info = meta.out_info(job.source, job.key, job.mask_key, job.size, probe)
    meta.write_json(out / "meta" / "info.json", info)
    marks.put(out / "meta" / "info.json", everything, {})
    yield


def _make_shard(job: _Build, path: Path) -> None:
    target = job.out / path.relative_to(job.source.root)
    here = [e for e, c in job.clock.items() if c.shard == path]
    made_from = job.made_from(target.name, episodes=here)
    if job.marks.fresh(target, made_from) is not None:
        return
    job.marks.drop(target)
    rewrite_shard(path, target, job.goals, job.mask_key, job.had_camera)
    job.marks.put(target, made_from, {})


def _make_video(job: _Build, video: VideoFile) -> tuple[Path, dict[int, Stats]]:
    """Write one file of the camera unless it is there; its statistics either way."""
    template = job.source.info.get("video_path") or meta.VIDEO_PATH
    path = job.out / template.format(video_key=job.key, chunk_index=video.chunk, file_index=video.file)
    options = encoder().get_codec_options(encoder_threads=1, as_strings=True)
    lengths = [job.clock[e].frames for e in video.episodes]
    made_from = job.made_from(video.chunk, video.file, options, lengths, episodes=video.episodes)
    note = job.marks.fresh(path, made_from)
    if note is None:
        job.marks.drop(path)
        stats: dict[int, Stats] = {}
        write_video(path, _runs(job, video, stats), job.size, Fraction(str(job.source.info["fps"])))
        note = {str(e): {name: value.tolist() for name, value in s.items()} for e, s in stats.items()}
        job.marks.put(path, made_from, note)
    return path, {int(e): {n: np.array(v) for n, v in s.items()} for e, s in note.items()}


def _runs(job: _Build, video: VideoFile, stats: dict[int, Stats]) -> Iterator[Run]:
    """The pictures of a file's episodes in order; fills `stats` as it goes."""
    from lerobot.datasets.compute_stats import DEFAULT_QUANTILES

    black = np.zeros((job.size[1], job.size[0], 3), np.uint8)
    for episode in video.episodes:
        length = job.clock[episode].frames
        plan = job.goals[episode].runs(length) if episode in job.goals else [(length, None)]
        pictures = _pictures(job, episode, [p for _, p in plan if p is not None])
        runs = [(n, black if p is None else pictures[p]) for n, p in plan]
        stats[episode] = camera_stats(runs, DEFAULT_QUANTILES)
        yield from runs


def _pictures(job: _Build, episode: int, references: list[str]) -> dict[str, NDArray[np.uint8]]:
    """The goal images by reference, at the camera's size."""
    frames: dict[str, list[int]] = {}
    for reference in references:
        if reference.startswith("frame:"):
            camera, _, index = reference.removeprefix("frame:").rpartition("#")
            frames.setdefault(camera, []).append(int(index))
    images: dict[str, Image] = {}
    try:
        for camera, indices in frames.items():
            for image in job.source.episode(episode).frames(camera, indices):
                images[f"frame:{image.frame}"] = image
        images |= {r: job.records.image(r) for r in references if r not in images}
    except (ValueError, IndexError) as e:
        raise DatasetError(f"{job.records.path(episode)}: a goal image is lost: {e}") from e
    return {reference: fit(image.pixels, job.size) for reference, image in images.items()}


def _prune(job: _Build, keep: set[Path]) -> None:
    """Remove files of the camera that an earlier build of OUT laid out otherwise."""
    for path in sorted((job.out / "videos" / job.key).rglob("*.mp4")):
        inherited = (job.source.root / path.relative_to(job.out)).exists()
        if path not in keep and not inherited:
            path.unlink()
            job.marks.drop(path)
