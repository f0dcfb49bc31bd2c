"""OUT from IN and the records: a valid LeRobot v3.0 dataset with language rows and a sub-goal camera.

A pure function: run twice it changes no byte, killed and run again it ends with the same bytes. info.json
goes first and comes last, so a half-built OUT is no dataset.
"""

import itertools
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalreel import concurrency, terms
from goalreel.datasets.info_file import VIDEO_PATH, check_links, stored
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing import card, language, meta
from goalreel.datasets.writing.files import (
    check_apart,
    check_edits,
    data_files,
    episode_files,
    meta_digest,
    pass_on,
    surplus_files,
)
from goalreel.datasets.writing.goals import TASKS, tasks_file
from goalreel.datasets.writing.layout import EpisodePlace, VideoFile, arrange, places, places_digest, ticks
from goalreel.datasets.writing.meta import PictureLevels, Stats
from goalreel.datasets.writing.plan import BuildPlan, TextOptions
from goalreel.datasets.writing.video import AT_ONCE, PictureRun, write_video
from goalreel.errors import DatasetError
from goalreel.files import digest, file_digest, find, sweep, write_bytes
from goalreel.image import Image
from goalreel.progress import OnCount
from goalreel.subgoal_camera import fit, in_form
from goalreel.terms import SUBGOAL as SUBGOAL
from goalreel.types import Status

log = logging.getLogger(__name__)


def make_video(build: BuildPlan, video: VideoFile) -> tuple[Path, dict[int, Stats]]:
    """Write one file of the camera unless it exists; returns its path, and the statistics of its episodes."""
    template, prefix = build.source.info.get("video_path") or VIDEO_PATH, f"videos/{build.key}"
    row = {f"{prefix}/chunk_index": video.chunk, f"{prefix}/file_index": video.file}
    path = stored(build.out, template, row, prefix, video_key=build.key)
    lengths = [build.clock[e].frames for e in video.episodes]
    times = ticks(video, build.clock, build.source.fps)
    clock = () if times is None else (digest(times.tobytes()),)
    made_from = build.made_from(video.chunk, video.file, lengths, *clock, episodes=video.episodes)
    if note := build.marks.fresh(path, made_from):
        with suppress(ValueError, KeyError, TypeError, OverflowError):  # of a damaged one
            return path, {episode: _noted(note[str(episode)]) for episode in video.episodes}
    build.marks.drop(path)
    stats, fps = dict[int, Stats](), Fraction(str(build.source.info["fps"]))
    # Closed here if the disk is full: collected in another thread, it would wait for the one that fetches.
    with closing(_runs(build, video, stats)) as runs:
        write_video(path, build.encoder, runs, build.size, fps, times)
    note = {str(e): {name: value.tolist() for name, value in s.items()} for e, s in stats.items()}
    build.marks.put(path, made_from, note)
    return path, stats


def _noted(note: Mapping[str, Any]) -> Stats:
    """Read the statistics of an episode from the note of its file; all that there should be."""
    black = PictureLevels()
    black.add(1, np.zeros((1, 1, 3), np.uint8))
    form = black.stats().items()
    return {name: np.array(note[name], one.dtype).reshape(one.shape) for name, one in form}


def _runs(build: BuildPlan, video: VideoFile, stats: dict[int, Stats]) -> Generator[PictureRun]:
    """Yield the pictures of a file's episodes, fill `stats`, and make the next episode's meanwhile."""
    with closing(concurrency.prefetch(partial(_pictures, build), video.episodes, 1)) as goals:
        for episode, pictures in zip(video.episodes, goals, strict=True):
            levels = PictureLevels()
            for count, picture, cut in _episode_runs(build, episode, pictures):
                levels.add(count, picture)
                yield count, picture, cut
            stats[episode] = levels.stats()


def _episode_runs(
    build: BuildPlan, episode: int, goals: dict[str, NDArray[np.uint8]]
) -> Iterator[PictureRun]:
    """Every run starts on a keyframe, and so does every episode; the live frames are fitted to the goals."""
    black, at = np.zeros((build.size[1], build.size[0], 3), np.uint8), 0
    for count, reference in _plan(build, episode):
        if reference is None:
            yield count, black, True
        elif build.follows:
            recorded = build.source.episode(episode)
            for frames in itertools.batched(range(at, at + count), AT_ONCE):
                for index, image in zip(frames, recorded.frames(build.camera, frames), strict=True):
                    picture = in_form(build.form, goals[reference], fit(image.pixels, build.size))
                    yield 1, picture, index == at
        else:
            yield count, goals[reference], True
        at += count


def _plan(build: BuildPlan, episode: int) -> list[tuple[int, str | None]]:
    """The episode as (frame count, reference of the goal image) runs."""
    length = build.clock[episode].frames
    return build.goals[episode].runs(length) if episode in build.goals else [(length, None)]


def _pictures(build: BuildPlan, episode: int) -> dict[str, NDArray[np.uint8]]:
    """The goal images by reference, at the camera's size; in its form, unless that needs the live frame."""
    references = [reference for _, reference in _plan(build, episode) if reference is not None]
    frames, images = defaultdict[str, list[int]](list), dict[str, Image]()
    for reference in references:
        if reference.startswith("frame:"):
            camera, _, index = reference.removeprefix("frame:").rpartition("#")
            frames[camera].append(int(index))
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


def build(
    source: Source,
    out: Path,
    records: Records,
    *,
    camera: str | None = None,
    camera_key: str = SUBGOAL,
    episodes: Collection[int] | None = None,
    use_rejected: bool = False,
    text: TextOptions | None = None,
    form: terms.SubGoalForm = terms.DEFAULT_FORM,
    overwrite: bool = False,
    follow_links: bool = False,
    progress: OnCount = lambda done, total: None,
) -> Counter[Status]:
    """Write the dataset `out` from the open dataset `source` and the open `records` of `out`.

    `camera` is the camera of `source` that the goal images come from (None: its first fixed one) and gives
    their size. The new camera `camera_key` shows, on every frame of a step, that step's goal in `form`
    (`goalreel.subgoal_camera.in_form`), with what `camera` saw then as the live frame. Frames without one are
    black, and True in the column `BuildPlan.pad_key`. `episodes` are those whose records count (None: those
    that are `Records.done`). Steps without an accepted picture have no sub-task row either, unless
    `use_rejected`. An episode of `source` that has sub-task rows already keeps all its language rows, unless
    `text` replaces them or a person corrected the episode. `overwrite` writes anew what somebody changed in
    `out`. `follow_links` takes over what links out of `source` lead to. `progress(done, total)` counts files.

    Returns:
        How many steps have each status, of all recorded episodes that no person corrected.

    Raises:
        DatasetError: `source` or a record is broken, `source` has the camera in another form or links that
            lead out of it (see `check_links`), `out` overlaps `source` or was changed by hand since it was
            written, or the disk is full.
    """
    root, out = source.root, Path(out)
    check_apart(root, out)
    check_links(root, follow=follow_links)
    text = text or TextOptions()
    job = BuildPlan.prepare(source, out, records, camera, camera_key, episodes, use_rejected, text, form)
    annotated = set(job.clock) if not job.had_camera else set(job.goals)
    videos = arrange(job.source, job.clock, annotated, camera_key)
    shards, meta_files = data_files(root), episode_files(root)
    total = len(shards) + len(videos) + len(meta_files) + 3

    sweep(out)
    check_edits(source, out, camera_key, overwrite=overwrite)
    info = out / "meta" / "info.json"
    placed = places(videos, job.clock, job.source.fps)
    everything = job.made_from(meta_digest(root), places_digest(placed), episodes=sorted(job.clock))
    if job.marks.fresh(info, everything) is None:
        job.marks.drop(info)
        info.unlink(missing_ok=True)
    for path in surplus_files(job.source, out, camera_key):  # as after a merge
        path.unlink()
        job.marks.drop(path)
    pass_on(root, out, {card.CARD, TASKS} if job.task_per_frame else {card.CARD})
    for done, _ in enumerate(_steps(job, shards, videos, meta_files, placed, everything), start=1):
        progress(done, total)
    if emptied := job.emptied:
        log.warning("sub-task rows of %d episode(s) are removed, and no name may be written", len(emptied))
    goals_of_models = (goals for goals in job.goals.values() if not goals.corrected)
    return Counter(status for goals in goals_of_models for status in goals.statuses)


def _steps(
    job: BuildPlan,
    shards: list[Path],
    videos: list[VideoFile],
    meta_files: list[Path],
    placed: Mapping[int, EpisodePlace],
    everything: str,
) -> Iterator[None]:
    """Make one file after the other, skipping those that are made."""
    root, meta_folder = job.source.root, job.out / "meta"
    for path in shards:
        target = job.out / path.relative_to(root)
        made_from = job.made_from(path.name, file_digest(path), episodes=job.inside.get(path, []))
        job.marks.once(target, made_from, partial(language.rewrite_shard, path, target, job))
        yield
    stats, files = dict[int, Stats](), set[Path]()
    for video in videos:
        path, stats_of_file = make_video(job, video)
        stats |= stats_of_file
        files.add(path)
        yield
    for path in find(job.out / "videos" / job.key, "**/*.mp4"):  # which an earlier build laid out otherwise
        if path not in files and not (root / path.relative_to(job.out)).exists():
            path.unlink()
            job.marks.drop(path)
    for path in meta_files:
        target = job.out / path.relative_to(root)
        write = partial(meta.write_episodes, path, target, placed, stats, job)
        job.marks.once(target, everything, write)
        yield
    card.write_card(job)
    if job.tasks:
        tasks = partial(write_bytes, job.out / TASKS, tasks_file(job.source.tasks, job.tasks))
        job.marks.once(job.out / TASKS, everything, tasks)
    yield
    aggregate = partial(meta.write_stats, root, job.out, job.key, ["task_index"] if job.tasks else [])
    job.marks.once(meta_folder / "stats.json", everything, aggregate)
    yield
    describe = partial(meta.write_info, job, None if job.had_camera else min(files))
    job.marks.once(meta_folder / "info.json", everything, describe)
    yield
