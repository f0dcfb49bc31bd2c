"""What an episode costs in a small and in a large dataset: time, memory and files; and how the report opens.

    python benchmarks/scale.py [--full] [--json]

`--full` takes an hour, in pieces if need be: a row of the table is a file under --out. Run it again, and it
measures the rows that are missing. A change of the code begins anew.

Datasets of 64 x 64 pixels and 16 frames an episode (`parts/scale_data.py`), in one file and in several; no
model is asked (`hindsight`). Each is measured in a process of its own, in CPU seconds, which a busy machine
stretches less than those on the clock:

- `annotate_ms`: an episode, from the 21st to the last at either end, of SAMPLE episodes from both ends of the
  dataset; the median of REPEATS such runs. The same number of episodes whatever the size;
- `once_ms`: the rest of such a run, shared by all episodes: the dataset's metadata, the list of a video's
  frames, the fingerprints of the episodes of two data files at most; the median again;
- `build_ms`: the dataset written from records of all its episodes, an episode; the median of REPEATS builds.
  Records of others than the samples are copies;
- `runs_ms`: the sum of the three of each repeat; `episode_ms` is their median.

Keys of --json: `cost_ratio` (`episode_ms`, the largest dataset over the one nearest to 1,000 episodes, both
in one file), `cost_ratio_interval` (the middle 90 % of the ratios of each run of the one to each of the
other), `memory_growth_mb` (between the same two, peak memory), `peak_rss_mb` (the largest of all),
`report_load_s` (the report's index with as many episodes as
the largest, opened in headless Chromium; null without selenium), and `table`, a row a dataset.
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
from parts.scale_data import BLOCK, SIDE, fill, make

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.annotator.report.cards import Bar, EpisodeCard
from goalreel.annotator.report.pages import PageLink, Pages
from goalreel.annotator.report.pictures import THUMBNAIL, jpeg
from goalreel.annotator.report.rows import ReportRows
from goalreel.annotator.shards import build_records
from goalreel.batch import Limits
from goalreel.datasets.records import FOLDER, LOCAL
from goalreel.datasets.shards import Shard
from goalreel.datasets.source import Source
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.models.load import load

SAMPLE, WARM, REPEATS = 200, 20, 3
VISIBLE = 24
"""Lines of the report's list that are on show."""
SMALL, FULL = (
    ((1000, 1), (1000, 5), (4000, 1)),
    ((1000, 1), (100_000, 1), (100_000, 20), (20_000, 1), (20_000, 20)),
)
CODE = ("annotator", "datasets", "planners", "benchmarks/parts/scale_data.py", "benchmarks/scale.py")


def annotate_samples(root: Path, out: Path, sample: int, repeats: int) -> list[tuple[float, float]]:
    """CPU seconds of each run over some episodes at both ends: what it does once, and an episode."""
    indices = Source.open(root).indices
    half = len(indices) // 2
    ends = [i for pair in zip(indices[:half], reversed(indices), strict=False) for i in pair]
    size = min(sample, len(ends) // repeats)
    return [_annotate(root, out, ends[i * size : (i + 1) * size]) for i in range(repeats)]


def _annotate(root: Path, out: Path, episodes: list[int]) -> tuple[float, float]:
    """CPU seconds of a run without its episodes, and of an episode; the first WARM of an end do not count.

    The episodes go one after the other, so that each one's time is its own.
    """
    start, ends = time.process_time(), list[tuple[int, float]]()
    source, options = open_dataset(root), Options()
    models = load("hindsight", recordings=options.recorded(source))
    annotate(
        source,
        out,
        models,
        options,
        episodes=episodes,
        limits=Limits(in_flight=1),
        shard=Shard(1, 1),
        progress=lambda _, done, total: ends.append((done, time.process_time())),
    )
    # In order: those of the first end, then those of the last, which may have a data file of its own to read.
    half = len(ends) // 2
    parts = [part[min(WARM, half // 2) :] for part in (ends[:half], ends[half:])]
    each = sum(p[-1][1] - p[0][1] for p in parts) / sum(p[-1][0] - p[0][0] for p in parts)
    return time.process_time() - start - each * ends[-1][0], each


def build_all(out: Path) -> float:
    """CPU seconds of writing the dataset from its records."""
    start = time.process_time()
    build_records(out)
    return time.process_time() - start


def repeat_build(out: Path, count: int) -> list[float]:
    """CPU seconds of each of so many builds from the records alone."""
    seconds = [build_all(out)]
    for i in range(1, count):
        copy = out.parent / f"copy-{i}"
        shutil.copytree(out / FOLDER, copy / FOLDER)
        shutil.copytree(out / LOCAL, copy / LOCAL)
        seconds.append(build_all(copy))
        shutil.rmtree(copy)
    return seconds


def cost_ratio(large: Sequence[float], small: Sequence[float]) -> tuple[float, list[float]]:
    """The ratio of the medians, and the middle 90 % of the ratios of each run to each."""
    ratios = np.divide.outer(large, small)
    return round(median(large) / median(small), 2), np.quantile(ratios, (0.05, 0.95)).round(2).tolist()


def measure(
    root: Path,
    out: Path,
    episodes: int,
    sample: int = SAMPLE,
    repeats: int = REPEATS,
    block: int = BLOCK,
) -> dict[str, Any]:
    """Measure one row of the table; the peak is this process's."""
    samples = annotate_samples(root, out, sample, repeats)
    annotate_mb = _peak_mb()
    fill(root, out, block)
    builds = repeat_build(out, repeats)
    runs = [each + (once + build) / episodes for (once, each), build in zip(samples, builds, strict=True)]
    once, each = (median(part) for part in zip(*samples, strict=True))
    return {
        "annotate_ms": round(1000 * each, 2),
        "once_ms": round(1000 * once / episodes, 2),
        "build_ms": round(1000 * median(builds) / episodes, 2),
        "episode_ms": round(1000 * median(runs), 2),
        "runs_ms": [round(1000 * run, 2) for run in runs],
        "annotate_peak_mb": annotate_mb,
        "peak_rss_mb": _peak_mb(),
        "out_files": sum(p.is_file() for p in out.rglob("*")),
    }


def _peak_mb() -> int:
    """Read the peak of this program alone: `ru_maxrss` would be that of its parent process, if larger."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def report_load(episodes: int, folder: Path) -> float | None:
    """Seconds until the index of a report is open, its first lines laid out; their thumbnails follow."""
    try:
        from parts.browser import chromium
    except ImportError:
        return None
    index = write_index(episodes, folder)
    with chromium(folder / "profile") as driver:
        driver.get("about:blank")
        start = time.perf_counter()
        driver.get(index.as_uri())
        rows = driver.execute_script("return document.querySelectorAll('.row').length")
        seconds = time.perf_counter() - start
        thumbnails = driver.execute_async_script(
            "const images = [...document.querySelectorAll('.thumb img')];"
            "images.forEach((image) => image.loading = 'eager');"
            "const done = arguments[0];"
            "Promise.all(images.map((image) => image.decode())).then(() => done(images.length));"
        )
    assert rows == thumbnails == min(episodes, VISIBLE)
    return round(seconds, 2)


def write_index(episodes: int, out: Path) -> Path:
    """Write the index of a report, with the thumbnails of its first lines.

    Each episode has four steps and an instruction of its own.
    """
    rows = ReportRows()
    (out / "thumbs").mkdir()
    for i in range(min(episodes, VISIBLE)):
        picture = Image(np.full((SIDE, SIDE, 3), 10 * i, np.uint8))
        (out / "thumbs" / f"episode_{i:06d}.jpg").write_bytes(jpeg(picture, THUMBNAIL))
    bars = tuple(Bar(i, i, 25.0 * i, 25.0, "verified", "") for i in range(4))
    for i in range(episodes):
        card = EpisodeCard(
            index=i,
            title=f"Episode {i}",
            instruction=f"put block number {i} into the bowl that stands on the left of the table",
            status="verified",
            tally="4 of 4 steps verified",
            seconds=f"{i % 600 / 10} s",
            length=1,
            fps="10",
            first=None,
            bars=bars,
            ticks=(),
            steps=(),
            message=None,
            reply=None,
        )
        rows.add(card, i // 20 + 1, thumbnail=True)
    links = [PageLink(f"page-{p + 1:04d}.html", 20 * p, 20 * p + 19) for p in range(episodes // 20)]
    text = Pages("scale", {}, {}).index({"verified": episodes}, rows.json(), links)
    (out / "index.html").write_text(text, encoding="utf-8")
    return out / "index.html"


def table(
    sizes: Sequence[tuple[int, int]], folder: Path, show: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Read the rows that `folder` has, and measure the others, each in a process of its own."""
    rows = []
    for episodes, files in sizes:
        path = folder / f"{episodes}_{files}.json"
        if not path.is_file():
            write_bytes(path, json.dumps(_row(episodes, files)).encode())
        rows.append(json.loads(path.read_bytes()))
        show(json.dumps(rows[-1]))
    return rows


def _row(episodes: int, files: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as name:
        root, out = make(Path(name) / "in", episodes, files), Path(name) / "out"
        command = [sys.executable, __file__, "--measure", str(root), str(out), str(episodes)]
        child = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return {"episodes": episodes, "files": files, **json.loads(child.stdout.splitlines()[-1])}


def smallest_row(episodes: int = 6, block: int = 3) -> dict[str, Any]:
    """Measure a row in this process, one import for all."""
    with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as name:
        root = make(Path(name) / "in", episodes, files=1, block=block)
        row = measure(root, Path(name) / "out", episodes, sample=episodes, repeats=1, block=block)
    return {"episodes": episodes, "files": 1, **row}


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--full", action="store_true", help="up to 100,000 episodes")
    parser.add_argument("--out", type=Path, default=Path("out/scale"), help="rows; run again to go on")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parse(parser, argv)
    if options.measure:
        root, out, episodes = options.measure
        report(measure(Path(root), Path(out), int(episodes)), as_json=True)
        return
    if options.smoke:
        rows = [smallest_row()]
    else:
        folder = options.out / code_digest("", CODE)
        rows = table(FULL if options.full else SMALL, folder, lambda row: print(row, flush=True))
    single = [row for row in rows if row["files"] == 1]
    large = max(single, key=lambda row: row["episodes"])
    near = min(single, key=lambda row: abs(row["episodes"] - 1000))
    with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as folder:
        load_s = report_load(large["episodes"], Path(folder))
    ratio, interval = cost_ratio(large["runs_ms"], near["runs_ms"])
    result = {
        "cost_ratio": ratio,
        "cost_ratio_interval": interval,
        "memory_growth_mb": large["peak_rss_mb"] - near["peak_rss_mb"],
        "peak_rss_mb": max(row["peak_rss_mb"] for row in rows),
        "report_load_s": load_s,
        "table": rows,
    }
    report(result, options.json)


if __name__ == "__main__":
    main()
