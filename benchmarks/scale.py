"""The cost of an episode in a small and in a large dataset: time and memory.

    python benchmarks/scale.py [--full] [--json]        # --full takes more than an hour of one core

Datasets of 64 x 64 pixels and 16 frames an episode (`parts/scale_data.py`), in one file and in several; no
model is asked (`hindsight`). Each is measured REPEATS times, a run in a process of its own, in CPU seconds,
which a busy machine stretches less than those on the clock:

- `annotate_ms`: an episode, from the 21st to the last at either end, of SAMPLE episodes from both ends of the
  dataset, other ones in each run; the median of the runs. The same number of episodes whatever the size;
- `once_ms`: the rest of such an annotation, shared by all episodes: the dataset's metadata, the list of a
  video's frames, the fingerprints of the episodes of two data files at most; the median again;
- `build_ms`: the dataset written from records of all its episodes, an episode; the median again. Records of
  others than the first are copies;
- `runs_ms`: the sum of the three of each run; `episode_ms` is their median.

Keys of --json: `cost_ratio` (`episode_ms`, the largest dataset over the one nearest to 1,000 episodes, both
in one file), `cost_ratio_interval` (the middle 90 % of the ratios of each run of the one to each of the
other), `memory_growth_mb` (between the same two, peak memory; the three are null for one dataset),
`peak_rss_mb` (the largest of all), and `table`, a row a dataset.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import argument_parser, parse, report
from parts.scale_data import BLOCK, fill, make

from goalreel.annotator.annotate import annotate, build_records, open_dataset
from goalreel.annotator.options import Options, RunOptions
from goalreel.datasets.records import FOLDER, LOCAL, Shard
from goalreel.datasets.source import Source
from goalreel.models.load import load
from goalreel.progress import OnProgress

SAMPLE, WARM, REPEATS = 200, 20, 3
SMALL = ((1000, 1), (1000, 5), (4000, 1))
FULL = ((1000, 1), (100_000, 1), (100_000, 20), (20_000, 1), (20_000, 20))

type Size = tuple[int, int]
"""Episodes, and the data files that they are in."""


def prepare(folder: Path, episodes: int, files: int, block: int = BLOCK) -> None:
    """Make a dataset and the records of its episodes."""
    root, records = make(folder / "in", episodes, files, block), folder / "records"
    _record(root, records, range(block))
    fill(root, records, block)


def samples(indices: Sequence[int], number: int, sample: int, repeats: int) -> list[int]:
    """The episodes of a run: as many from either end of the dataset, in turn."""
    half = len(indices) // 2
    ends = [i for pair in zip(indices[:half], reversed(indices), strict=False) for i in pair]
    size = min(sample, len(ends) // repeats)
    return ends[number * size : (number + 1) * size]


def _record(
    root: Path, out: Path, episodes: Sequence[int], progress: OnProgress = lambda stage, done, total: None
) -> None:
    """Write the records of episodes one after the other, so that each one's time is its own."""
    source, options = open_dataset(root), Options()
    models = load("hindsight", recordings=options.recorded(source))
    run = RunOptions(episodes=tuple(episodes), in_flight=1, shard=Shard(1, 1))
    annotate(source, out, models, options, run, progress=progress)


def _annotate(root: Path, out: Path, episodes: list[int]) -> tuple[float, float]:
    """CPU seconds of a run without its episodes, and of an episode; the first WARM of an end do not count."""
    start, ends = time.process_time(), list[tuple[int, float]]()
    _record(root, out, episodes, lambda _, done, total: ends.append((done, time.process_time())))
    # In order: those of the first end, then those of the last, which may have a data file of its own to read.
    half = len(ends) // 2
    parts = [part[min(WARM, half // 2) :] for part in (ends[:half], ends[half:])]
    each = sum(p[-1][1] - p[0][1] for p in parts) / sum(p[-1][0] - p[0][0] for p in parts)
    return time.process_time() - start - each * ends[-1][0], each


def _build(root: Path, records: Path, out: Path) -> float:
    """CPU seconds of writing the dataset `out` from the records alone."""
    for name in (FOLDER, LOCAL):
        shutil.copytree(records / name, out / name)
    start = time.process_time()
    build_records(out, root)
    return time.process_time() - start


def cost_ratio(large: Sequence[float], small: Sequence[float]) -> tuple[float, list[float]]:
    """The ratio of the medians, and the middle 90 % of the ratios of each run to each."""
    ratios = np.divide.outer(large, small)
    return round(median(large) / median(small), 2), np.quantile(ratios, (0.05, 0.95)).round(2).tolist()


def measure(
    folder: Path, out: Path, number: int, episodes: int, sample: int = SAMPLE, repeats: int = REPEATS
) -> dict[str, Any]:
    """Measure a run on what `prepare` made in `folder`, and write `out`; the peak is this process's."""
    root = folder / "in"
    chosen = samples(Source.open(root).indices, number, sample, repeats)
    once, each = _annotate(root, out.with_name("samples"), chosen)
    build = _build(root, folder / "records", out)
    # `ru_maxrss` would be the peak of the parent process, if that is larger.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return {
        "annotate_ms": 1000 * each,
        "once_ms": 1000 * once / episodes,
        "build_ms": 1000 * build / episodes,
        "peak_rss_mb": int(status.partition("VmHWM:")[2].split()[0]) // 1024,
    }


def summary(size: Size, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make a row of the table from the runs of a dataset."""
    parts = ("annotate_ms", "once_ms", "build_ms")
    sums = [round(sum(run[name] for name in parts), 2) for run in runs]
    return {
        "episodes": size[0],
        "files": size[1],
        **{name: round(median(run[name] for run in runs), 2) for name in parts},
        "episode_ms": median(sums),
        "runs_ms": sums,
        "peak_rss_mb": max(run["peak_rss_mb"] for run in runs),
    }


def measured(size: Size, work: Path) -> dict[str, Any]:
    """Measure a dataset REPEATS times, each run in a process of its own."""
    prepare(work, *size)
    runs = []
    for number in range(REPEATS):
        command = [sys.executable, __file__, "--measure", str(work), str(number), str(size[0])]
        child = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        runs.append(json.loads(child.stdout.splitlines()[-1]))
        print(f"{size[0]} episodes, {size[1]} files, run {number}: {runs[-1]}", flush=True)
    return summary(size, runs)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="up to 100,000 episodes")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parse(parser, argv)
    if options.measure:
        folder, number, episodes = options.measure
        with tempfile.TemporaryDirectory(prefix="run-", dir=folder) as work:
            run = measure(Path(folder), Path(work) / "out", int(number), int(episodes))
        report(run, as_json=True)
        return
    rows = []
    sizes = FULL if options.full else SMALL
    for size in [(6, 1)] if options.smoke else sizes:
        with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as name:
            work = Path(name) / "data"
            if options.smoke:  # in this process: one import for all
                prepare(work, *size, block=3)
                rows.append(summary(size, [measure(work, Path(name) / "out", 0, size[0], size[0], 1)]))
            else:
                rows.append(measured(size, work))
    single = [row for row in rows if row["files"] == 1]
    large = max(single, key=lambda row: row["episodes"])
    near = min(single, key=lambda row: abs(row["episodes"] - 1000))
    ratio, interval = cost_ratio(large["runs_ms"], near["runs_ms"])
    has_both = large is not near
    result = {
        "cost_ratio": ratio if has_both else None,
        "cost_ratio_interval": interval if has_both else None,
        "memory_growth_mb": large["peak_rss_mb"] - near["peak_rss_mb"] if has_both else None,
        "peak_rss_mb": max(row["peak_rss_mb"] for row in rows),
        "table": rows,
    }
    report(result, options.json)


if __name__ == "__main__":
    main()
