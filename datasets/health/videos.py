"""Checks that every file of every camera has the frames that meta/episodes says. Nothing is decoded."""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator
from math import isfinite
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.health.issues import HealthIssue, broken, issue, spell, warning
from goalreel.datasets.health.tables import FrameRows, count_values
from goalreel.datasets.info_file import stored
from goalreel.datasets.source import Source, declares
from goalreel.datasets.video import VideoIndex, video_index
from goalreel.datasets.writing import files, layout
from goalreel.errors import DatasetError

_DELETE = "copy it again, or delete the episodes with lerobot-edit-dataset"
type _Cause = Literal["video_times", "video_start", "video_end", "video_frames"]
_CAUSES: dict[_Cause, str] = {
    "video_times": "the timestamps of {episodes} jump or begin late, and the video has a frame for each row: "
    "write frame_index / fps",
    "video_start": "the video begins after {episodes}: if no frame is missing, goalreel check --fix corrects "
    f"from_timestamp, else {_DELETE}",
    "video_end": f"the video ends before {{episodes}}: {_DELETE}",
    "video_frames": f"the video does not have all frames of {{episodes}}: {_DELETE}",
}


def video_issues(source: Source, rows: FrameRows, chosen: Collection[int]) -> Iterator[HealthIssue]:
    """Faults that keep lerobot from reading the frames of a camera, one that annotate does not show too."""
    cameras = [name for name, feature in source.features.items() if feature["dtype"] == "video"]
    if cameras and not source.info.get("video_path"):
        text = "meta/info.json has no video_path: write lerobot's, videos/{video_key}/chunk-..."
        yield broken("video_file", text)
        return
    selected = set(chosen)
    for camera in cameras:
        starts, nowhere = _starts(source, camera)
        if nowhere:
            text = f"{spell(nowhere)}: meta/episodes does not say where {camera} is: copy the dataset again"
            yield broken("video_file", text, nowhere)
        for path, of_file in starts.items():
            concerned = {episode: start for episode, start in of_file.items() if episode in selected}
            try:
                video = video_index(path)
            except DatasetError as e:
                text = f"{str(e).removesuffix(': copy the dataset again')} ({spell(of_file)}): {_DELETE}"
                yield issue("broken" if concerned else "warning", "video_file", text, concerned or of_file)
            else:
                yield from _frame_issues(source.fps, rows, concerned, camera, video)
                yield from _size_issues(source, camera, video.size, path)


def _starts(source: Source, camera: str) -> tuple[dict[Path, dict[int, float]], list[int]]:
    """Beginnings of the episodes in each file of a camera (s), and the episodes that have no place in any."""
    prefix, nowhere = f"videos/{camera}", list[int]()
    places = defaultdict[tuple[int, int], dict[int, float]](dict)  # of 100,000 episodes, in a few files
    columns = (source.rows.column(f"{prefix}/{n}") for n in ("chunk_index", "file_index", "from_timestamp"))
    for episode, chunk, file, start in zip(source.indices, *columns, strict=True):
        if chunk is None or file is None or start is None or not isfinite(start):
            nowhere.append(episode)
        else:
            places[chunk, file][episode] = float(start)
    starts: dict[Path, dict[int, float]] = {}
    for (chunk, file), of_file in places.items():
        row = {f"{prefix}/chunk_index": chunk, f"{prefix}/file_index": file}
        starts[stored(source.root, source.info["video_path"], row, prefix, video_key=camera)] = of_file
    return starts, nowhere


def _size_issues(source: Source, camera: str, size: tuple[int, int], where: Path) -> Iterator[HealthIssue]:
    feature = source.features[camera]
    if not declares(feature, size):
        says = f"meta/info.json says shape {feature.get('shape')}, names {feature.get('names')}"
        right = f"shape [{size[1]}, {size[0]}, 3], names [height, width, channels]"
        text = f"{where}: frames of {camera} are {size[0]}x{size[1]}, and {says}: write {right} there"
        yield warning("camera_size", text)


def _frame_issues(
    fps: float, rows: FrameRows, starts: dict[int, float], camera: str, video: VideoIndex
) -> Iterator[HealthIssue]:
    """Look for each row's frame where lerobot looks for it."""
    missing, off = defaultdict[_Cause, list[int]](list), dict[int, float]()
    read = list[tuple[float, float, int]]()
    for episode, start in starts.items():
        times = rows.time[rows.of_episode[episode]] if episode in rows.of_episode else np.zeros(0)
        if not len(times) or not np.isfinite(times).all():
            continue
        sought = start + times
        distance = _distance(video, sought).max()
        if distance > 0.5 / fps:
            missing[_cause(video, start, times, fps)].append(episode)
        elif distance >= layout.TOLERANCE_S:
            off[episode] = float(distance)
        read.append((sought.min(), sought.max(), episode))
    if missing and (rate := _other_rate(video, fps)):
        episodes = sorted(itertools.chain(*missing.values()))
        text = f"{video.path}: {rate:.4g} frames a second ({spell(episodes)}), and {fps:g} in meta/info.json"
        yield broken("video_rate", f"{text}: encode it at {fps:g}, or remove {camera}", episodes)
        missing, off = {}, {}
    for cause, episodes in missing.items():
        yield broken(cause, f"{video.path}: {_CAUSES[cause].format(episodes=spell(episodes))}", episodes)
    if off:
        worst = max(off.values())
        text = f"{video.path}: {spell(off)}: frames are up to {1000 * worst:.3g} ms off their timestamps"
        tolerance = f"tolerance_s={np.ceil(worst * 10_500) / 10_000:g}"
        yield warning("video_clock", f"{text}: read it with {tolerance} (lerobot-train --tolerance_s)", off)
    pairs = itertools.pairwise(sorted(read))
    if leaked := [episode for (_, end, _), (begin, _, episode) in pairs if begin < end + 0.5 / fps]:
        text = f"{video.path}: {spell(leaked)}: frames of the neighbouring episode leak in"
        advice = "correct from_timestamp in meta/episodes, or timestamp"
        yield warning("leaked_frames", f"{text}: {advice}", leaked)


def _other_rate(video: VideoIndex, fps: float) -> float | None:
    """The frames a second of a video at another rate; None at the dataset's, or if frames are missing.

    Of steady frames none is missing in between; the time base rounds each to a hundredth or less, so at the
    end they may be a quarter of a frame off. Of others the rate may be off by 2 %.
    """
    gaps = np.diff(video.times)
    if len(gaps) and gaps.max() < 1.5 * np.median(gaps):
        seconds = float(gaps.sum())
        return len(gaps) / seconds if abs(seconds * fps - len(gaps)) > 0.25 else None
    rate = video.rate() or fps
    return rate if abs(rate / fps - 1) > 0.02 else None


def _cause(video: VideoIndex, start: float, times: NDArray[np.float64], fps: float) -> _Cause:
    """Tell why frames of an episode are not where its timestamps say: the clock, or the video."""
    near, sought = 0.5 / fps, start + times
    if _distance(video, start + np.arange(len(times)) / fps).max() <= near:
        return "video_times"
    lost = sought[_distance(video, sought) > near]
    if lost.max() < video.times[0]:
        return "video_start"
    return "video_end" if lost.min() > video.times[-1] else "video_frames"


def _distance(video: VideoIndex, sought: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of the nearest frame (s), in lerobot's float32."""
    nearest = video.pts[video.nearest(sought)] * np.float64(video.time_base)
    return np.abs(nearest.astype(np.float32) - sought.astype(np.float32)).astype(np.float64)


def image_issues(source: Source) -> Iterator[HealthIssue]:
    """Stored pictures that are not there, by what the data files say of themselves."""
    cameras = [name for name, feature in source.features.items() if feature["dtype"] == "image"]
    for path in files.data_files(source.root) if cameras else ():
        counts = count_values(path)
        for camera in cameras:
            if missing := counts.get(f"{camera}.bytes", (0, 0))[1]:
                text = f"{path}: {missing} pictures of {camera} are not stored: copy the dataset again"
                yield broken("images", text)
    for camera in cameras:
        yield from _size_issues(source, camera, source.picture_size(camera), source.root)
