"""Checks that every file of every camera has the frames that meta/episodes says. Nothing is decoded."""

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.episode import RATE_SLACK
from goalreel.datasets.health.frames import FrameRows, in_threads
from goalreel.datasets.health.issues import HealthIssue, broken, issue, spell, warning
from goalreel.datasets.source import Source, declares
from goalreel.datasets.stored_files import stored
from goalreel.datasets.video import VideoIndex, video_index
from goalreel.datasets.writing.files import data_files
from goalreel.datasets.writing.layout import TOLERANCE_S
from goalreel.errors import DatasetError

_DELETE = "copy it again, or delete the episodes with lerobot-edit-dataset"


@dataclass(frozen=True)
class CameraFile:
    """One video file and the episodes in it."""

    camera: str
    path: Path
    start: dict[int, float] = field(default_factory=dict)
    """Episode -> its `from_timestamp` (s)."""


def video_issues(source: Source, rows: FrameRows, chosen: Collection[int]) -> Iterator[HealthIssue]:
    """Faults that keep lerobot from reading the frames of a camera, one that annotate does not show too."""
    cameras = [name for name, feature in source.features.items() if feature["dtype"] == "video"]
    if cameras and not source.info.get("video_path"):
        text = "meta/info.json has no video_path: write lerobot's, videos/{video_key}/chunk-..."
        yield broken("video_file", text)
        return
    selected = set(chosen)
    files: list[CameraFile] = []
    for camera in cameras:
        places, nowhere = _files(source, camera)
        files += places
        if nowhere:
            text = f"{spell(nowhere)}: meta/episodes does not say where {camera} is: copy the dataset again"
            yield broken("video_file", text, tuple(nowhere))
    for issues_of_file in in_threads(partial(_file_issues, source, rows, selected), files):
        yield from issues_of_file


def _files(source: Source, camera: str) -> tuple[list[CameraFile], list[int]]:
    """The files of a camera, and the episodes that have no place in any."""
    prefix, files, nowhere = f"videos/{camera}", dict[tuple[object, object], CameraFile](), list[int]()
    columns = (source.rows.column(f"{prefix}/{n}") for n in ("chunk_index", "file_index", "from_timestamp"))
    for episode, chunk, file, start in zip(source.indices, *columns, strict=True):
        if chunk is None or file is None or start is None or not isfinite(start):
            nowhere.append(episode)
            continue
        if (chunk, file) not in files:
            row = {f"{prefix}/chunk_index": chunk, f"{prefix}/file_index": file}
            path = stored(source.root, source.info["video_path"], row, prefix, video_key=camera)
            files[chunk, file] = CameraFile(camera, path)
        files[chunk, file].start[episode] = float(start)
    return list(files.values()), nowhere


def _file_issues(
    source: Source, rows: FrameRows, chosen: Collection[int], file: CameraFile
) -> list[HealthIssue]:
    concerned = [e for e in file.start if e in chosen]
    try:
        video = video_index(file.path)
    except DatasetError as e:
        text = f"{str(e).removesuffix(': copy the dataset again')} ({spell(file.start)}): {_DELETE}"
        level = "broken" if concerned else "warning"
        return [issue(level, "video_file", text, tuple(concerned or file.start))]
    issues = list(_frame_issues(source.fps, rows, concerned, file, video))
    if video.size:
        issues += _size_issues(source, file.camera, video.size, file.path)
    return issues


def _size_issues(source: Source, camera: str, size: tuple[int, int], where: Path) -> Iterator[HealthIssue]:
    feature = source.features[camera]
    if not declares(feature, size):
        says = f"meta/info.json says shape {feature.get('shape')}, names {feature.get('names')}"
        right = f"shape [{size[1]}, {size[0]}, 3], names [height, width, channels]"
        text = f"{where}: frames of {camera} are {size[0]}x{size[1]}, and {says}: write {right} there"
        yield warning("camera_size", text)


def _frame_issues(
    fps: float, rows: FrameRows, episodes: Sequence[int], file: CameraFile, video: VideoIndex
) -> Iterator[HealthIssue]:
    """Look for each row's frame where lerobot looks for it."""
    missing: list[int] = []
    off: dict[int, float] = {}
    read, first, last = array("q"), array("d"), array("d")
    for episode in episodes:
        times = rows.time[rows.of_episode[episode]] if episode in rows.of_episode else np.zeros(0)
        if not len(times) or not np.isfinite(times).all():
            continue
        sought = file.start[episode] + times
        distance = _distance(video, sought)
        if distance.max() > 0.5 / fps:
            missing.append(episode)
        elif distance.max() >= TOLERANCE_S:
            off[episode] = float(distance.max())
        read.append(episode)
        first.append(sought.min())
        last.append(sought.max())
    if missing:
        yield _missing(missing, file, video, fps)
    if off:
        worst = max(off.values())
        text = f"{file.path}: {spell(off)}: frames are up to {1000 * worst:.3g} ms off their timestamps"
        advice = (
            f"read it with tolerance_s={np.ceil(worst * 10_500) / 10_000:g} (lerobot-train --tolerance_s)"
        )
        yield warning("video_clock", f"{text}: {advice}", tuple(off))
    order = np.lexsort((last, first))
    starts, ends = np.array(first)[order], np.array(last)[order]
    if leaked := np.array(read)[order][1:][starts[1:] < ends[:-1] + 0.5 / fps].tolist():
        text = f"{file.path}: {spell(leaked)}: frames of the neighbouring episode leak in"
        text = f"{text}: correct from_timestamp in meta/episodes, or timestamp"
        yield warning("leaked_frames", text, tuple(leaked))


def _missing(episodes: Sequence[int], file: CameraFile, video: VideoIndex, fps: float) -> HealthIssue:
    rate = video.rate() or fps
    kind, what = "video_frames", f"the video does not have all frames of {spell(episodes)}: {_DELETE}"
    if abs(rate / fps - 1) > RATE_SLACK:
        kind = "video_rate"
        what = f"the video has {rate:.4g} frames a second and the dataset {fps:g} ({spell(episodes)})"
        what = f"{what}: encode it at {fps:g}, or remove {file.camera} with lerobot-edit-dataset"
    return broken(kind, f"{file.path}: {what}", tuple(episodes))


def _distance(video: VideoIndex, sought: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of the nearest frame (s), in lerobot's float32."""
    nearest = video.pts[video.nearest(sought)] * np.float64(video.time_base)
    return np.abs(nearest.astype(np.float32) - sought.astype(np.float32)).astype(np.float64)


def image_issues(source: Source) -> Iterator[HealthIssue]:
    """Stored pictures that are not there, by what the data files say of themselves."""
    cameras = [name for name, feature in source.features.items() if feature["dtype"] == "image"]
    for path in data_files(source.root) if cameras else ():
        for camera in cameras:
            if missing := _lost(path, f"{camera}.bytes"):
                text = f"{path}: {missing} pictures of {camera} are not stored: copy the dataset again"
                yield broken("images", text)
    for camera in cameras:
        yield from _size_issues(source, camera, source.picture_size(camera), source.root)


def _lost(path: Path, column: str) -> int:
    metadata = pq.read_metadata(path)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    columns = (group.column(i) for group in groups for i in range(group.num_columns))
    chunk_statistics = [
        c.statistics for c in columns if c.path_in_schema == column and c.statistics is not None
    ]
    return sum(statistics.null_count or 0 for statistics in chunk_statistics)
