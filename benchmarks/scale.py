"""What an episode costs in a small and in a large dataset: time, memory and files; and how the report opens.

    python benchmarks/scale.py [--full] [--json]

Datasets of 64 x 64 pixels and 16 frames an episode (`scale_data.py`), in one file and in several; no model is
asked (`hindsight`). Each is measured in a process of its own, in CPU seconds, which a busy machine stretches
less than those on the clock:

- `annotate`: an episode, from the 21st to the last at either end, of SAMPLE episodes from both ends of the
  dataset; the median of REPEATS such runs. The same number of episodes whatever the size;
- `once`: what such a run does besides, shared by all episodes: the dataset's metadata, the list of a video's
  frames, the fingerprints of the episodes of two data files at most; the median again;
- `build`: the dataset written from records of all its episodes, an episode; one of a small dataset is noise,
  so up to REBUILT episodes it is the median of REPEATS builds. Other records than the samples' are copies.

Keys of --json: `cost_ratio` (an episode's sum of the three, the largest dataset over the one nearest to 1,000
episodes, both in one file), `peak_rss_mb` (the largest of all), `report_load_s` (the report's index with as
many episodes as the largest, opened in headless Chromium; null without selenium), and `table`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import lerobot.annotations.steerable_pipeline
import lerobot.datasets.lerobot_dataset  # noqa: F401
import numpy as np
from scale_data import BLOCK, SIDE, make

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.annotator.report.cards import Bar, EpisodeCard
from goalreel.annotator.report.pages import PageLink, Pages
from goalreel.annotator.report.pictures import THUMBNAIL, jpeg
from goalreel.annotator.report.rows import ReportRows
from goalreel.annotator.shards import build_records
from goalreel.batch import Limits
from goalreel.datasets.records import FOLDER, LOCAL, Records
from goalreel.datasets.shards import Shard
from goalreel.datasets.source import Source
from goalreel.image import Image
from goalreel.models.load import load

SAMPLE, WARM, REPEATS = 200, 20, 3
REBUILT = 2000
SHOWN = 24
"""Lines of the report's list on show."""
SMALL, FULL = (
    ((1000, 1), (1000, 5), (4000, 1)),
    ((1000, 1), (20_000, 1), (20_000, 20), (100_000, 20), (100_000, 1)),
)


def annotate_samples(root: Path, out: Path, sample: int, repeats: int) -> tuple[float, float]:
    """CPU seconds of what a run over some of the episodes at both ends does once, and an episode."""
    indices = Source.open(root).indices
    half = len(indices) // 2
    ends = [i for pair in zip(indices[:half], reversed(indices), strict=False) for i in pair]
    size = min(sample, len(ends) // repeats)
    once, each = zip(
        *(_annotate(root, out, ends[i * size : (i + 1) * size]) for i in range(repeats)), strict=True
    )
    return median(once), median(each)


def _annotate(root: Path, out: Path, episodes: list[int]) -> tuple[float, float]:
    """CPU seconds of a run without what it takes an episode, and those; the first WARM of an end count not.

    One after the other, or the last to end would have been begun with the first.
    """
    begin, seen = time.process_time(), list[tuple[int, float]]()
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
        progress=lambda _, done, total: seen.append((done, time.process_time())),
    )
    # In order: those of the first end, then those of the last, which may have a data file of its own to read.
    half = len(seen) // 2
    parts = [part[min(WARM, half // 2) :] for part in (seen[:half], seen[half:])]
    each = sum(p[-1][1] - p[0][1] for p in parts) / sum(p[-1][0] - p[0][0] for p in parts)
    return time.process_time() - begin - each * seen[-1][0], each


def fill(root: Path, out: Path) -> None:
    """Give every episode the record of the one that it repeats."""
    source = Source.open(root)
    fingerprints = source.fingerprint().episodes
    records = Records(out / FOLDER, source="")
    texts = [records.path(e).read_text() for e in range(BLOCK)]
    for episode in sorted(set(source.indices) - records.recorded()):
        first = episode % BLOCK
        text = texts[first].replace(fingerprints[first], fingerprints[episode])
        path = records.path(episode)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(f"episode_{first:06d}", f"episode_{episode:06d}"))


def build_all(out: Path) -> float:
    """CPU seconds of writing the dataset from its records."""
    begin = time.process_time()
    build_records(out)
    return time.process_time() - begin


def rebuilt(out: Path, work: Path, times: int) -> float:
    """The median of so many builds, each from the records alone."""
    taken = [build_all(out)]
    for i in range(1, times):
        again = work / f"again-{i}"
        shutil.copytree(out / FOLDER, again / FOLDER)
        shutil.copytree(out / LOCAL, again / LOCAL, ignore=shutil.ignore_patterns("build"))
        taken.append(build_all(again))
        shutil.rmtree(again)
    return median(taken)


def measure(
    root: Path, out: Path, episodes: int, sample: int = SAMPLE, repeats: int = REPEATS
) -> dict[str, float | int]:
    """A row of the table; the peak is this process's."""
    once, each = annotate_samples(root, out, sample, repeats)
    annotate_mb = _peak_mb()
    fill(root, out)
    build = rebuilt(out, out.parent, repeats if episodes <= REBUILT else 1)
    return {
        "annotate_ms": round(1000 * each, 2),
        "once_ms": round(1000 * once / episodes, 2),
        "build_ms": round(1000 * build / episodes, 2),
        "episode_ms": round(1000 * (each + (once + build) / episodes), 2),
        "annotate_peak_mb": annotate_mb,
        "peak_rss_mb": _peak_mb(),
        "out_files": sum(p.is_file() for p in out.rglob("*")),
    }


def _peak_mb() -> int:
    """Of this program alone: `ru_maxrss` would be that of the process which started it, if larger."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def report_load(episodes: int, work: Path) -> float | None:
    """Seconds until the index of a report is open, its first lines laid out; their thumbnails follow."""
    try:
        from selenium import webdriver
    except ImportError:
        return None
    index = write_index(episodes, work)
    options = webdriver.ChromeOptions()
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work / 'profile'}"):
        options.add_argument(switch)
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    service = webdriver.ChromeService(
        shutil.which("chromedriver")
    )  # else selenium looks for one in the network
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.get("about:blank")
        begin = time.perf_counter()
        driver.get(index.as_uri())
        assert driver.execute_script("return document.querySelectorAll('.row').length") == min(
            episodes, SHOWN
        )
        taken = time.perf_counter() - begin
        drawn = driver.execute_async_script(
            "const images = [...document.querySelectorAll('.thumb img')];"
            "images.forEach((image) => image.loading = 'eager');"
            "const done = arguments[0];"
            "Promise.all(images.map((image) => image.decode())).then(() => done(images.length));"
        )
        assert drawn == min(episodes, SHOWN)
        return round(taken, 2)
    finally:
        driver.quit()


def write_index(episodes: int, out: Path) -> Path:
    """The index of a report whose episodes have four steps and an instruction of their own each, and the
    thumbnails of the first lines."""
    rows = ReportRows()
    (out / "thumbs").mkdir()
    for i in range(min(episodes, SHOWN)):
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
    text = Pages("scale", {}).index({"verified": episodes}, rows.json(), links)
    (out / "index.html").write_text(text, encoding="utf-8")
    return out / "index.html"


def table(sizes: tuple[tuple[int, int], ...], say: Callable[[str], object]) -> list[dict]:
    """A row for each (episodes, files), each measured in a process of its own."""
    rows = []
    for episodes, files in sizes:
        with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as work:
            root, out = make(Path(work) / "in", episodes, files), Path(work) / "out"
            command = [sys.executable, __file__, "--measure", str(root), str(out), str(episodes)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            found = json.loads(done.stdout.splitlines()[-1])
            rows.append({"episodes": episodes, "files": files, **found})
            say(json.dumps(rows[-1]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="up to 100,000 episodes")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        root, out, episodes = options.measure
        print(json.dumps(measure(Path(root), Path(out), int(episodes))))
        return
    rows = table(FULL if options.full else SMALL, lambda row: print(row, flush=True))
    single = [row for row in rows if row["files"] == 1]
    large, near = single[-1], min(single, key=lambda row: abs(row["episodes"] - 1000))
    with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as work:
        load_s = report_load(large["episodes"], Path(work))
    found = {
        "cost_ratio": round(large["episode_ms"] / near["episode_ms"], 2),
        "peak_rss_mb": max(row["peak_rss_mb"] for row in rows),
        "report_load_s": load_s,
        "table": rows,
    }
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{found['cost_ratio']} times the cost, {found['peak_rss_mb']} MB, report in {load_s} s")


if __name__ == "__main__":
    main()
