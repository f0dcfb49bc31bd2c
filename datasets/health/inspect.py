"""All checks of a dataset in their order, and those of its numbers, clocks, videos and pictures."""

import itertools
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.health.issues import (
    HealthIssue,
    broken,
    by_level,
    issue,
    note,
    spell,
    spell_numbers,
    warning,
)
from goalreel.datasets.health.tables import (
    FrameRows,
    count_values,
    file_issues,
    label_issues,
    link_issues,
    row_issues,
    task_issues,
)
from goalreel.datasets.info_file import is_without_videos, stored
from goalreel.datasets.parquet import is_ragged, list_items, read_batches, read_schema, to_numpy
from goalreel.datasets.source import Source, declares
from goalreel.datasets.video import VideoIndex, video_index
from goalreel.datasets.writing.files import data_files
from goalreel.datasets.writing.layout import MAX_SPAN_S, TOLERANCE_S
from goalreel.errors import DatasetError
from goalreel.files import read_json
from goalreel.progress import OnProgress

log = logging.getLogger(__name__)


def number_issues(source: Source, rows: FrameRows, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    """NaN in the numbers, and dimensions that are constant."""
    names = (*source.numbers.state, *source.numbers.action)
    if not names:
        yield warning(
            "no_numbers",
            "no feature is known to be a state or an action, so nothing tells grasps: "
            "name them with --layout state=NAME,action=NAME",
        )
    for name in names:
        try:
            found = _range(name, [rows.paths[i] for i in np.unique(rows.file)])
        except DatasetError as e:
            yield broken("columns", str(e))
            continue
        if found is None:
            continue  # said of the column
        not_finite, spans = found
        if bad := not_finite & set(chosen):
            yield warning(
                "not_finite",
                f"{spell(bad)}: {name} is NaN or infinite, so annotate leaves that out: correct it",
                bad,
            )
        still = np.flatnonzero(spans == 0).tolist()
        if still and len(rows) > 1:
            everything = len(still) == len(spans)
            which = "all dimensions" if everything else f"dimension(s) {spell_numbers(still)}"
            yield issue("warning" if everything else "note", "constant", f"{name} never changes in {which}")


def _range(name: str, paths: Sequence[Path]) -> tuple[set[int], NDArray[np.floating]] | None:
    """Read a column of numbers, a part at a time: episodes in which one is not finite, and each one's range.

    The range of a number is NaN where it is not always there. None where a file has no such column, or not
    one of one size.
    """
    not_finite, edges, empty = set[int](), list[NDArray[np.floating]](), False
    for path in paths:
        if name not in read_schema(path).names:
            return None
        for batch in read_batches(path, ["episode_index", name], 65536):
            values = _numbers(f"{path}: {name}", batch.column(name))
            is_empty = values.shape[1] == 0
            rows = ~np.isfinite(values).all(axis=1) | is_empty
            not_finite.update(to_numpy(batch.column("episode_index"))[rows].tolist())
            edges += [] if is_empty else [values.min(axis=0), values.max(axis=0)]
            empty |= is_empty
    if len({len(edge) for edge in edges}) != 1:
        return None
    spans = np.max(edges, axis=0) - np.min(edges, axis=0)
    return not_finite, np.full_like(spans, np.nan) if empty else spans


def _numbers(where: str, column: pa.Array) -> NDArray[np.floating]:
    """The numbers of a column, (rows, dims); NaN in a row without any."""
    if is_ragged(column):
        raise DatasetError(f"{where} has cells of different sizes: correct them")
    items = column
    while hasattr(items.type, "value_type"):
        items = list_items(items)
    valid = np.array([cell.is_valid for cell in column]) if column.null_count else np.ones(len(column), bool)
    values = np.full((len(column), len(items) // max(1, valid.sum())), np.nan, np.float32)
    values[valid] = to_numpy(items).reshape(valid.sum(), values.shape[1])
    return values


def stats_issues(source: Source) -> Iterator[HealthIssue]:
    """Statistics that are missing, or that make NaN of what is normalized with them."""
    path, level = source.root / "meta" / "stats.json", "warning"
    try:
        stats = read_json(path)
        spoiled = [n for n, s in stats.items() if not np.isfinite(np.array(s["mean"], float)).all()]
        text = f"meta/stats.json has NaN for {', '.join(spoiled)}" if spoiled else ""
    except FileNotFoundError:
        text = "meta/stats.json is missing: lerobot-train cannot normalize"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as e:
        level, text = "broken", f"{path}: not statistics as lerobot writes them ({e!r}): remove the file"
    if text:
        yield issue(
            level,
            "stats",
            f"{text}; make them with "
            "lerobot-edit-dataset --repo_id local/NAME --root DIR --operation.type recompute_stats",
        )


def clock_issues(source: Source, rows: FrameRows, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    """Timestamps that do not increase, that drift or jitter, and frames that were lost."""
    fps, mend = source.fps, "write frame_index / fps"
    empty, backwards, rates = list[int](), list[int](), list[float]()
    gaps, off = dict[int, float](), dict[int, float]()
    for episode in chosen:
        if episode not in rows.of_episode:
            continue
        times = rows.time[rows.of_episode[episode]]
        steps, count = np.diff(times), np.arange(len(times))
        deviation = float(np.abs(times - times[0] - count / fps).max())
        if not np.isfinite(times).all():
            empty.append(episode)
        elif (steps <= 0).any():
            backwards.append(episode)
        elif deviation > TOLERANCE_S and (steps > 1.5 * max(float(np.median(steps)), 1 / fps)).any():
            gaps[episode] = deviation
        elif deviation > TOLERANCE_S:
            off[episode] = deviation
            slope, offset = np.polyfit(count, times, 1)
            is_straight = np.abs(times - offset - slope * count).max() < deviation / 2
            rates.append(1 / float(slope) if is_straight else fps)
    if empty:
        yield broken(
            "time_order",
            f"{spell(empty)}: timestamps are empty or NaN, for which lerobot finds no frame: {mend}",
            empty,
        )
    if backwards:
        yield warning(
            "time_order",
            f"{spell(backwards)}: timestamps do not increase, so annotate leaves that out: {mend}",
            backwards,
        )
    if gaps:
        yield _off_rate("gaps", "jump", gaps)
    if long := [episode for episode, deviation in gaps.items() if deviation > MAX_SPAN_S]:
        yield broken(
            "time_span", f"{spell(long)}: timestamps jump by hours, which no video can: {mend}", long
        )
    if off and abs((rate := float(np.median(rates))) / fps - 1) > 5e-4:  # 1e-3 for 29.97 in place of 30
        yield _off_rate("drift", f"run at {rate:.4g} frames a second, and meta/info.json says {fps:g}", off)
    elif off:
        yield _off_rate("jitter", "jitter", off)


def _off_rate(kind: str, what: str, deviations: dict[int, float]) -> HealthIssue:
    worst = f"up to {1000 * max(deviations.values()):.3g} ms off a constant rate"
    return warning(
        kind,
        f"{spell(deviations)}: timestamps {what}: {worst}: "
        "lerobot's streaming reader wants frame i at i / fps, in timestamp and in the videos",
        deviations,
    )


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
        yield broken(
            "video_file", "meta/info.json has no video_path: write lerobot's, videos/{video_key}/chunk-..."
        )
        return
    selected = set(chosen)
    for camera in cameras:
        starts, nowhere = _starts(source, camera)
        if nowhere:
            yield broken(
                "video_file",
                f"{spell(nowhere)}: meta/episodes does not say where {camera} is: copy the dataset again",
                nowhere,
            )
        for path, of_file in starts.items():
            concerned = {episode: start for episode, start in of_file.items() if episode in selected}
            try:
                video = video_index(path)
            except DatasetError as e:
                yield issue(
                    "broken" if concerned else "warning",
                    "video_file",
                    f"{str(e).removesuffix(': copy the dataset again')} ({spell(of_file)}): {_DELETE}",
                    concerned or of_file,
                )
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
        yield warning(
            "camera_size",
            f"{where}: frames of {camera} are {size[0]}x{size[1]}, and {says}: write {right} there",
        )


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
        elif distance >= TOLERANCE_S:
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
        yield warning(
            "video_clock",
            f"{text}: read it with tolerance_s={np.ceil(worst * 10_500) / 10_000:g} "
            "(lerobot-train --tolerance_s)",
            off,
        )
    pairs = itertools.pairwise(sorted(read))
    if leaked := [episode for (_, end, _), (begin, _, episode) in pairs if begin < end + 0.5 / fps]:
        text = f"{video.path}: {spell(leaked)}: frames of the neighbouring episode leak in"
        yield warning(
            "leaked_frames", f"{text}: correct from_timestamp in meta/episodes, or timestamp", leaked
        )


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
    for path in data_files(source.root) if cameras else ():
        counts = count_values(path)
        for camera in cameras:
            if missing := counts.get(f"{camera}.bytes", (0, 0))[1]:
                yield broken(
                    "images", f"{path}: {missing} pictures of {camera} are not stored: copy the dataset again"
                )
    for camera in cameras:
        yield from _size_issues(source, camera, source.picture_size(camera), source.root)


def inspect(
    source: Source,
    episodes: Sequence[int],
    *,
    thorough: bool = True,
    progress: OnProgress = lambda stage, done, total: None,
) -> list[HealthIssue]:
    """Look for what is wrong with a dataset; the worst comes first.

    Args:
        source: the dataset.
        episodes: those that matter; of others only what keeps lerobot from the dataset as a whole.
        thorough: also read states, actions and labels. Without, it is what `annotate` looks at
            before it begins: metadata, rows, clocks and the frames in video files.
        progress: is called with the stage `check`.
    """
    issues = list(file_issues(source, episodes))
    if not source.cameras:
        issues.append(broken("no_camera", "the dataset has no camera, so there is nothing to show as a goal"))
    if any(issue.kind in ("data_file", "columns") and issue.level == "broken" for issue in issues):
        return by_level(issues)
    try:
        rows = FrameRows.read(data_files(source.root))
    except DatasetError as e:
        return by_level([*issues, broken("data_file", str(e))])
    checks = [row_issues, task_issues, clock_issues, video_issues]
    if is_without_videos(source.root) and any(f["dtype"] == "video" for f in source.features.values()):
        checks.remove(video_issues)
        issues.append(note("video_file", "the videos were not downloaded from the Hub, and not looked at"))
    steps: list[Callable[[], Iterable[HealthIssue]]] = [partial(c, source, rows, episodes) for c in checks]
    steps += [partial(image_issues, source), partial(stats_issues, source)]
    if thorough:
        steps += [partial(link_issues, source), partial(number_issues, source, rows, episodes)]
        steps.append(partial(label_issues, source, episodes))
    for done, step in enumerate(steps):
        progress("check", done, len(steps))
        issues += (i for i in step() if thorough or i.kind != "stats" or i.level == "broken")
    progress("check", len(steps), len(steps))
    return by_level(issues)


def refuse_broken(source: Source, episodes: Sequence[int]) -> None:
    """Raise DatasetError where lerobot could not read an annotated copy; warn of what deserves a look."""
    issues = inspect(source, episodes, thorough=False)
    levels = Counter(issue.level for issue in issues)
    see = f"goalreel check {source.root}"
    if levels["broken"]:
        more = f" ({levels['broken'] - 1} more: {see})" if levels["broken"] > 1 else ""
        raise DatasetError(f"{issues[0].text}{more}")
    if levels["warning"]:
        number = "a warning" if levels["warning"] == 1 else f"{levels['warning']} warnings, such as"
        log.warning("%s: %s. All that there is to say: %s", number, issues[0].text, see)
