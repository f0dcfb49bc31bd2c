"""Numbers: NaN, dimensions that never move, statistics, and clocks."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.datasets.health.issues import HealthIssue, broken, issue, spell, spell_numbers, warning
from goalreel.datasets.health.tables import FrameRows
from goalreel.datasets.parquet import is_ragged, list_items, read_batches, read_schema, to_numpy
from goalreel.datasets.source import Source
from goalreel.datasets.writing.layout import MAX_SPAN_S, TOLERANCE_S
from goalreel.errors import DatasetError
from goalreel.files import read_json


def number_issues(source: Source, rows: FrameRows, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    """NaN in the numbers, and dimensions that are constant."""
    names = (*source.numbers.state, *source.numbers.action)
    if not names:
        text = "no feature is known to be a state or an action, so nothing tells grasps"
        yield warning("no_numbers", f"{text}: name them with --layout state=NAME,action=NAME")
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
            text = f"{spell(bad)}: {name} is NaN or infinite, so annotate leaves that out: correct it"
            yield warning("not_finite", text, bad)
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
        advice = "lerobot-edit-dataset --repo_id local/NAME --root DIR --operation.type recompute_stats"
        yield issue(level, "stats", f"{text}; make them with {advice}")


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
        text = f"{spell(empty)}: timestamps are empty or NaN, for which lerobot finds no frame: {mend}"
        yield broken("time_order", text, empty)
    if backwards:
        text = f"{spell(backwards)}: timestamps do not increase, so annotate leaves that out: {mend}"
        yield warning("time_order", text, backwards)
    if gaps:
        yield _off_rate("gaps", "jump", gaps)
    if long := [episode for episode, deviation in gaps.items() if deviation > MAX_SPAN_S]:
        text = f"{spell(long)}: timestamps jump by hours, which no video can: {mend}"
        yield broken("time_span", text, long)
    if off and abs((rate := float(np.median(rates))) / fps - 1) > 5e-4:  # 1e-3 for 29.97 in place of 30
        yield _off_rate("drift", f"run at {rate:.4g} frames a second, and meta/info.json says {fps:g}", off)
    elif off:
        yield _off_rate("jitter", "jitter", off)


def _off_rate(kind: str, what: str, deviations: dict[int, float]) -> HealthIssue:
    worst = f"up to {1000 * max(deviations.values()):.3g} ms off a constant rate"
    advice = "lerobot's streaming reader wants frame i at i / fps, in timestamp and in the videos"
    return warning(kind, f"{spell(deviations)}: timestamps {what}: {worst}: {advice}", deviations)
