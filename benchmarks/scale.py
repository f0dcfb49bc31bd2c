"""What an episode costs in a small and in a large dataset: time, memory and files; and how the report opens.

    python benchmarks/scale.py [--full] [--json]

Datasets of 64 x 64 pixels and 16 frames an episode (`scale_data.py`), in one file and in several; no model is
asked (`hindsight`). Each is measured in a process of its own, in CPU seconds, which a busy machine stretches
less than those on the clock:

- `annotate`: SAMPLE episodes, from both ends of the dataset, an episode;
- `once`: what such a run does once, which is reading the dataset's metadata, the list of a video's frames and
  the fingerprints of a data file's episodes, over all its episodes;
- `build`: the dataset written from records of all its episodes, an episode. All but the sample's are copies.

Keys of --json: `cost_ratio` (an episode's sum of the three, the largest dataset over the one nearest to 1,000
episodes, both in one file), `peak_rss_mb` (the largest of all), `report_load_s` (the report's index with as
many episodes as the largest, opened in headless Chromium; null without selenium), and `table`.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lerobot.annotations.steerable_pipeline
import lerobot.datasets.lerobot_dataset  # noqa: F401
from scale_data import BLOCK, make

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.annotator.report.cards import Bar, EpisodeCard
from goalreel.annotator.report.pages import PageLink, Pages
from goalreel.annotator.report.rows import ReportRows
from goalreel.annotator.shards import build_records
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.shards import Shard
from goalreel.datasets.source import Source
from goalreel.models.load import load

SAMPLE = 200
SMALL, FULL = ((200, 1), (1000, 1), (1000, 5)), ((500, 1), (1000, 1), (2000, 1), (2000, 20), (100_000, 1))


def annotate_sample(root: Path, out: Path, sample: int) -> tuple[float, float]:
    """CPU seconds of what a run over the episodes at both ends does once, and an episode: a run over a few of
    them and one over all the others tell the two apart."""
    indices = Source.open(root).indices
    ends = [i for pair in zip(indices, reversed(indices), strict=True) for i in pair][:sample]
    warm, few = ends[:4], ends[4:20]
    _annotate(root, out, warm)
    short, long = _annotate(root, out, few), _annotate(root, out, ends[20:])
    each = (long - short) / (len(ends[20:]) - len(few))
    return short - each * len(few), each


def _annotate(root: Path, out: Path, episodes: list[int]) -> float:
    begin = time.process_time()
    source, options = open_dataset(root), Options()
    models = load("hindsight", recordings=options.recorded(source))
    annotate(source, out, models, options, episodes=episodes, shard=Shard(1, 1))
    return time.process_time() - begin


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


def measure(root: Path, out: Path, episodes: int, sample: int) -> dict[str, float | int]:
    """A row of the table, all but `files` of the dataset; the peak is this process's."""
    once, each = annotate_sample(root, out, min(sample, episodes))
    annotate_mb = _peak_mb()
    fill(root, out)
    begin = time.perf_counter()
    build = build_all(out)
    wall = time.perf_counter() - begin
    return {
        "annotate_ms": round(1000 * each, 2),
        "once_ms": round(1000 * once / episodes, 2),
        "build_ms": round(1000 * build / episodes, 2),
        "episode_ms": round(1000 * (each + (once + build) / episodes), 2),
        "once_s": round(once, 1),
        "build_wall_s": round(wall, 1),
        "annotate_peak_mb": annotate_mb,
        "peak_rss_mb": _peak_mb(),
        "out_files": sum(p.is_file() for p in out.rglob("*")),
    }


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def report_load(episodes: int, work: Path) -> float | None:
    """Seconds until the index of a report is open, its first lines laid out."""
    try:
        from selenium import webdriver
    except ImportError:
        return None
    index = write_index(episodes, work)
    options = webdriver.ChromeOptions()
    for switch in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work / 'profile'}"):
        options.add_argument(switch)
    driver = webdriver.Chrome(options=options)
    try:
        driver.get("about:blank")
        begin = time.perf_counter()
        driver.get(index.as_uri())
        assert driver.execute_script("return document.querySelectorAll('.row').length") == min(episodes, 24)
        return round(time.perf_counter() - begin, 2)
    finally:
        driver.quit()


def write_index(episodes: int, out: Path) -> Path:
    """The index of a report whose episodes have four steps and an instruction of their own each."""
    rows = ReportRows()
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
        rows.add(card, i // 20 + 1, thumbnail=False)
    links = [PageLink(f"page-{p + 1:04d}.html", 20 * p, 20 * p + 19) for p in range(episodes // 20)]
    text = Pages("scale", {}).index({"verified": episodes}, rows.json(), links)
    (out / "index.html").write_text(text, encoding="utf-8")
    return out / "index.html"


def table(sizes: tuple[tuple[int, int], ...], sample: int, say: Callable[[str], object]) -> list[dict]:
    """A row for each (episodes, files), each measured in a process of its own."""
    rows = []
    for episodes, files in sizes:
        with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as work:
            root, out = make(Path(work) / "in", episodes, files), Path(work) / "out"
            command = [sys.executable, __file__, "--measure", str(root), str(out), str(episodes), str(sample)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            found = json.loads(done.stdout.splitlines()[-1])
            rows.append({"episodes": episodes, "files": files, **found})
            say(json.dumps(rows[-1]))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="up to 100,000 episodes")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        root, out, episodes, sample = options.measure
        print(json.dumps(measure(Path(root), Path(out), int(episodes), int(sample))))
        return
    rows = table(FULL if options.full else SMALL, SAMPLE, lambda row: print(row, flush=True))
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
