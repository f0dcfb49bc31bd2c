"""Whether the timestamps of a dataset keep the rate that meta/info.json says."""

from collections.abc import Iterator, Sequence

import numpy as np

from goalreel.datasets.health.frames import FrameRows
from goalreel.datasets.health.issues import HealthIssue, of_episodes, spell
from goalreel.datasets.source import Source
from goalreel.datasets.writing.layout import MAX_SPAN_S, TOLERANCE_S

_GAP = 1.5
"""Frames from one row to the next that make a gap."""
_DRIFT = 5e-4
"""Share by which a clock that drifts is off: 1e-3 for 29.97 in place of 30."""


def clock_issues(source: Source, rows: FrameRows, chosen: Sequence[int]) -> Iterator[HealthIssue]:
    """Timestamps that do not increase, that drift or jitter, and frames that were lost."""
    fps = source.fps
    empty: list[int] = []
    backwards: list[int] = []
    gaps: dict[int, float] = {}
    off: dict[int, float] = {}
    rates: list[float] = []
    for episode in chosen:
        if episode not in rows.of_episode:
            continue
        times = rows.time[rows.of_episode[episode]]
        steps = np.diff(times)
        if not np.isfinite(times).all() or (steps <= 0).any():
            (backwards if np.isfinite(times).all() else empty).append(episode)
            continue
        deviation = float(np.abs(times - times[0] - np.arange(len(times)) / fps).max())
        if deviation <= TOLERANCE_S:
            continue
        is_gap = steps > _GAP * max(float(np.median(steps)), 1 / fps)
        (gaps if is_gap.any() else off)[episode] = deviation
        if not is_gap.any():
            slope, offset = np.polyfit(np.arange(len(times)), times, 1)
            rest = np.abs(times - offset - slope * np.arange(len(times))).max()
            rates.append(1 / float(slope) if rest < deviation / 2 else fps)
    if empty:
        text = f"{spell(empty)}: timestamps are empty or NaN, for which lerobot finds no frame"
        text = f"{text}: write frame_index / fps"
        yield of_episodes("time_order", "broken", text, empty)
    if backwards:
        text = f"{spell(backwards)}: timestamps do not increase, so annotate leaves that out"
        text = f"{text}: write frame_index / fps"
        yield of_episodes("time_order", "warning", text, backwards)
    if gaps:
        yield _off("gaps", f"{spell(gaps)}: timestamps jump over frames that are not there", gaps)
    if long := [episode for episode, deviation in gaps.items() if deviation > MAX_SPAN_S]:
        text = f"{spell(long)}: timestamps jump by hours, which no video can: write frame_index / fps"
        yield of_episodes("time_span", "broken", text, long)
    if off:
        rate = float(np.median(rates))
        drifts = abs(rate / fps - 1) > _DRIFT
        what = f"run at {rate:.4g} frames a second, and meta/info.json says {fps:g}" if drifts else "jitter"
        yield _off("drift" if drifts else "jitter", f"{spell(off)}: timestamps {what}", off)


def _off(kind: str, what: str, deviations: dict[int, float]) -> HealthIssue:
    text = f"{what}: up to {1000 * max(deviations.values()):.3g} ms off a constant rate"
    advice = "goal images follow, but lerobot's streaming reader will not find them: "
    advice += "let frame i be at i / fps, in timestamp and in the videos"
    return of_episodes(kind, "warning", f"{text}: {advice}", list(deviations))
