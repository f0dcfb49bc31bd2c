"""The cost of an episode in a small and in a large dataset: time, memory and files.

    python benchmarks/scale.py [--full] [--json]
    python benchmarks/scale.py --full --json --new 2    # two more runs, and all until now

`--full` takes more than an hour of one core, in pieces if need be: a run is a file under --out. Run it again,
and it measures the runs that are missing. A change of the code begins anew.

Datasets of 64 x 64 pixels and 16 frames an episode (`parts/scale_data.py`), in one file and in several; no
model is asked (`hindsight`). Each is measured REPEATS times, the sizes in turn, a run in a process of its
own, in CPU seconds, which a busy machine stretches less than those on the clock:

- `annotate_ms`: an episode, from the 21st to the last at either end, of SAMPLE episodes from both ends of the
  dataset, other ones in each run; the median of the runs. The same number of episodes whatever the size;
- `once_ms`: the rest of such an annotation, shared by all episodes: the dataset's metadata, the list of a
  video's frames, the fingerprints of the episodes of two data files at most; the median again;
- `build_ms`: the dataset written from records of all its episodes, an episode; the median again. Records of
  others than the first are copies;
- `runs_ms`: the sum of the three of each run; `episode_ms` is their median.

Keys of --json: `cost_ratio` (`episode_ms`, the largest dataset over the one nearest to 1,000 episodes, both
in one file), `cost_ratio_interval` (the middle 90 % of the ratios of each run of the one to each of the
other), `memory_growth_mb` (between the same two, peak memory; the three are null until both have a run),
`peak_rss_mb` (the largest of all), and `table`, a row a dataset, with its number of `runs`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from common import argument_parser, code_digest, parse, report
from parts.scale_data import BLOCK, fill, make

from goalreel.annotator.annotate import annotate, build_records, open_dataset
from goalreel.annotator.options import Options, RunOptions
from goalreel.datasets.records import FOLDER, LOCAL, Shard
from goalreel.datasets.source import Source
from goalreel.files import atomic_folder, write_bytes
from goalreel.models.load import load
from goalreel.progress import OnProgress

SAMPLE, WARM, REPEATS = 200, 20, 3
SMALL, FULL = (
    ((1000, 1), (1000, 5), (4000, 1)),
    ((1000, 1), (100_000, 1), (100_000, 20), (20_000, 1), (20_000, 20)),
)
CODE = ("annotator", "datasets", "planners", "benchmarks/parts/scale_data.py", "benchmarks/scale.py")


type Size = tuple[int, int]
"""Episodes, and the data files that they are in."""


def prepare(folder: Path, episodes: int, files: int, block: int = BLOCK) -> None:
    """Make a dataset and the records of its episodes, unless they are there."""
    if folder.is_dir():
        return
    with atomic_folder(folder) as part:
        root, records = make(part / "in", episodes, files, block), part / "records"
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
    annotate_mb = _peak_mb()
    build = _build(root, folder / "records", out)
    return {
        "annotate_ms": 1000 * each,
        "once_ms": 1000 * once / episodes,
        "build_ms": 1000 * build / episodes,
        "annotate_peak_mb": annotate_mb,
        "peak_rss_mb": _peak_mb(),
        "out_files": sum(p.is_file() for p in out.rglob("*")),
    }


def summary(size: Size, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make a row of the table from the runs of a dataset."""
    parts = ("annotate_ms", "once_ms", "build_ms")
    sums = [round(sum(run[name] for name in parts), 2) for run in runs]
    return {
        "episodes": size[0],
        "files": size[1],
        "runs": len(runs),
        **{name: round(median(run[name] for run in runs), 2) for name in parts},
        "episode_ms": median(sums),
        "runs_ms": sums,
        **{name: max(run[name] for run in runs) for name in ("annotate_peak_mb", "peak_rss_mb", "out_files")},
    }


def _peak_mb() -> int:
    """Read the peak of this program alone: `ru_maxrss` would be that of its parent process, if larger."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def table(
    sizes: Sequence[Size], folder: Path, new: int | None, show: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Read the runs that `folder` has, and measure others, `new` at most, each in a process of its own."""
    files = {(size, n): folder / f"{size[0]}_{size[1]}_{n}.json" for n in range(REPEATS) for size in sizes}
    missing = [key for key, path in files.items() if not path.is_file()][:new]
    for size, number in missing:
        data = folder / f"{size[0]}_{size[1]}"
        prepare(data, *size)
        command = [sys.executable, __file__, "--measure", str(data), str(number), str(size[0])]
        child = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = child.stdout.splitlines()[-1]
        write_bytes(files[size, number], line)
        show(f"{size[0]} episodes, {size[1]} files, run {number}: {line.decode()}")
        if all(files[size, n].is_file() for n in range(REPEATS)):
            shutil.rmtree(data)
    measured = {size: [path for (of, _), path in files.items() if of == size] for size in sizes}
    runs = {
        size: [json.loads(p.read_bytes()) for p in paths if p.is_file()] for size, paths in measured.items()
    }
    return [summary(size, of_size) for size, of_size in runs.items() if of_size]


def smallest_row() -> dict[str, Any]:
    """Measure a row in this process, one import for all."""
    episodes = 6
    with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as name:
        folder = Path(name) / "data"
        prepare(folder, episodes, 1, block=3)
        run = measure(folder, Path(name) / "out", 0, episodes, episodes, 1)
    return summary((episodes, 1), [run])


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="up to 100,000 episodes")
    parser.add_argument("--out", type=Path, default=Path("out/scale"), help="runs; run again to go on")
    parser.add_argument("--new", type=int, help="runs that are measured now, at most")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parse(parser, argv)
    if options.measure:
        folder, number, episodes = options.measure
        with tempfile.TemporaryDirectory(prefix="run-", dir=folder) as work:
            run = measure(Path(folder), Path(work) / "out", int(number), int(episodes))
        report(run, as_json=True)
        return
    if options.smoke:
        rows = [smallest_row()]
    else:
        folder = options.out / code_digest("", CODE)
        sizes = FULL if options.full else SMALL
        rows = table(sizes, folder, options.new, lambda line: print(line, flush=True))
    single = [row for row in rows if row["files"] == 1]
    if not single:
        raise SystemExit("no run was measured yet: leave out --new, or raise it")
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
