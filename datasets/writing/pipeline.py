"""OUT from IN and the records: a valid LeRobot v3.0 dataset with language rows and a sub-goal camera.

A pure function: run twice it changes no byte, killed and run again it ends with the same bytes. info.json
goes first and comes last, so a half-built OUT is no dataset.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.stored_files import check_links
from goalreel.datasets.writing import meta
from goalreel.datasets.writing.camera import make_video, prune
from goalreel.datasets.writing.card import CARD, write_card
from goalreel.datasets.writing.files import (
    check_apart,
    check_edits,
    data_files,
    drop_gone,
    episode_files,
    meta_digest,
    pass_on,
)
from goalreel.datasets.writing.frame_columns import PROGRESS_FILE, TASKS, tasks_file, write_progress
from goalreel.datasets.writing.layout import EpisodePlace, VideoFile, arrange, places, places_digest
from goalreel.datasets.writing.meta import Stats
from goalreel.datasets.writing.plan import BuildPlan, TextOptions
from goalreel.datasets.writing.shards import rewrite_shard
from goalreel.files import file_digest, sweep, write_bytes
from goalreel.terms import DEFAULT_FORM, SubGoalForm
from goalreel.terms import SUBGOAL as SUBGOAL
from goalreel.types import Status


def build(
    source: Source,
    out: Path,
    records: Records,
    *,
    camera: str | None = None,
    camera_key: str = SUBGOAL,
    episodes: Collection[int] | None = None,
    use_unverified: bool = False,
    text: TextOptions | None = None,
    form: SubGoalForm = DEFAULT_FORM,
    overwrite: bool = False,
    follow_links: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Counter[Status]:
    """Write the dataset `out` from the open dataset `source` and the open `records` of `out`.

    `camera` is the camera of `source` that the goal images come from (None: its first fixed one) and gives
    their size. The new camera `camera_key` shows, on every frame of a step, that step's goal in `form`
    (`goalreel.subgoal_camera.in_form`), with what `camera` saw then as the live frame. Frames without one are
    black, and True in the column `BuildPlan.pad_key`. `episodes` are those whose records count (None: those
    that are `Records.done`). Steps without an accepted picture have no sub-task row
    either, unless `use_unverified`. An episode of `source` that has sub-task rows already keeps all its
    language rows, unless `text` replaces them or a person corrected the episode; `text` says which words are
    written, and where. `overwrite` writes anew what somebody changed in `out`. `follow_links` takes
    over what links out of `source` lead to. `progress(done, total)` counts files.

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
    job = BuildPlan.prepare(source, out, records, camera, camera_key, episodes, use_unverified, text, form)
    annotated = set(job.clock) if not job.had_camera else set(job.goals)
    videos = arrange(job.source, job.clock, annotated, camera_key)
    shards, meta_files = data_files(root), episode_files(root)
    total = len(shards) + len(videos) + len(meta_files) + 3

    with records.reviewing():  # what a review page is storing is no leftover
        sweep(out)
    check_edits(source, out, camera_key, overwrite=overwrite)
    info = out / "meta" / "info.json"
    placed = places(videos, job.clock, job.source.fps)
    where = places_digest(placed)
    everything = job.made_from(meta_digest(root), where, episodes=sorted(job.clock))
    if job.marks.fresh(info, everything) is None:
        job.marks.drop(info)
        info.unlink(missing_ok=True)
    drop_gone(job.source, out, camera_key, job.marks)
    besides = {CARD, *([TASKS] if text.task_per_frame else []), *([PROGRESS_FILE] if job.progress else [])}
    pass_on(root, out, besides)
    for done, _ in enumerate(_steps(job, shards, videos, meta_files, placed, everything), start=1):
        if progress:
            progress(done, total)
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
        _make_shard(job, path)
        yield
    stats, files = dict[int, Stats](), set[Path]()
    for video in videos:
        path, stats_of_file = make_video(job, video)
        stats |= stats_of_file
        files.add(path)
        yield
    prune(job, files)
    for path in meta_files:
        target = job.out / path.relative_to(root)
        write = partial(meta.write_episodes, path, target, placed, stats, job)
        job.marks.once(target, everything, write)
        yield
    write_card(job)
    if job.tasks:
        tasks = partial(write_bytes, job.out / TASKS, tasks_file(job.source.tasks, job.tasks))
        job.marks.once(job.out / TASKS, everything, tasks)
    yield
    aggregate = partial(meta.write_stats, root, job.out, job.key, job.progress)
    job.marks.once(meta_folder / "stats.json", everything, aggregate)
    if job.progress:
        job.marks.once(job.out / PROGRESS_FILE, everything, partial(write_progress, job.out))
    yield
    probe = None if job.had_camera else min(files)
    describe = partial(meta.write_info, job, probe)
    job.marks.once(meta_folder / "info.json", everything, describe)
    yield


def _make_shard(job: BuildPlan, path: Path) -> None:
    target = job.out / path.relative_to(job.source.root)
    made_from = job.made_from(path.name, file_digest(path), episodes=job.inside.get(path, []))
    job.marks.once(target, made_from, partial(rewrite_shard, path, target, job))
