"""How unlike the recording predicted goal images are found to be, by how they were made from real frames.

    python benchmarks/align.py --json

The episodes are the labelled ones of tests/data/real, with their pictures below ../shared/data or the folder
given; without any there is no row. Goals are
made from the frames at the true cuts. With --json the last line is one JSON object: `found_below`, and
`rows`, each with
    goals             how the goal images were made
    steps, found      steps looked for, and those that were given a segment's end
    cost_median, cost_high      unlikeness, median and 90th percentile
    true, matched     inner cuts labelled, and those found within 0.5 s
"""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np

from goalreel.annotator.align import CHUNK, FOUND, WITHIN_S, ends, features
from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.evaluation.real import LabelledEpisode, read_labels
from goalreel.image import Image
from goalreel.planners.kinematic.proposals import proposals

SHARED = Path(__file__).parents[2] / "shared/data"
LABELS = Path(__file__).parents[1] / "tests/data/real/labels.json"
type Made = Callable[[Image, Image, Image], Image]
"""From the first frame, the frame at the cut and the last frame of another episode."""


def zoomed(share: float) -> Made:
    def made(first: Image, true: Image, other: Image) -> Image:
        width, height = true.size
        x, y = round(share / 2 * width), round(share / 2 * height)
        return Image(cv2.resize(true.pixels[y : height - y, x : width - x], (width, height)))

    return made


def shifted(share: float) -> Made:
    def made(first: Image, true: Image, other: Image) -> Image:
        pixels = round(share * true.size[0])
        return Image(np.roll(true.pixels, pixels, axis=1))

    return made


def patched(first: Image, true: Image, other: Image) -> Image:
    """The first frame, and the true one where they differ most: an editor that leaves the arm alone."""
    width, height = first.size
    box = (round(0.2 * width), round(0.25 * height))
    change = np.abs(first.pixels.astype(int) - true.pixels).mean(axis=2).astype(np.float32)
    y, x = np.unravel_index(cv2.blur(change, box).argmax(), change.shape)
    rows, columns = (
        slice(max(0, y - box[1] // 2), y + box[1] // 2),
        slice(max(0, x - box[0] // 2), x + box[0] // 2),
    )
    pixels = first.pixels.copy()
    pixels[rows, columns] = true.pixels[rows, columns]
    return Image(pixels)


GOALS: dict[str, Made] = {
    "the real frame": lambda first, true, other: true,
    "blurred by 3 px": lambda first, true, other: Image(cv2.GaussianBlur(true.pixels, (0, 0), 3)),
    "zoomed by 5 %": zoomed(0.05),
    "zoomed by 10 %": zoomed(0.1),
    "shifted by 2 % of the width": shifted(0.02),
    "shifted by 4 %": shifted(0.04),
    "shifted by 8 %": shifted(0.08),
    "the arm left where it was": patched,
    "the first frame, unchanged": lambda first, true, other: first,
    "a frame of another episode": lambda first, true, other: other,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", type=Path, nargs="?", default=SHARED, help="the folder of the datasets with their pictures"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tried = {name: [0, 0, 0, 0] for name in GOALS}
    costs: dict[str, list[float]] = {name: [] for name in GOALS}
    for episode, label, other in episodes(options.data):
        for name, counts, found in scored(episode, label, other):
            tried[name] = [a + b for a, b in zip(tried[name], counts, strict=True)]
            costs[name] += found
    rows = [
        {
            "goals": name,
            **dict(zip(("steps", "found", "true", "matched"), tried[name], strict=True)),
            "cost_median": round(float(np.median(costs[name])), 2),
            "cost_high": round(float(np.quantile(costs[name], 0.9)), 2),
        }
        for name in GOALS
        if tried[name][0]
    ]
    if options.json:
        print(json.dumps({"found_below": FOUND, "rows": rows}))
        return
    print("| goal images | unlikeness, median (90 %) | steps found | inner cuts within 0.5 s |")
    print("|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['goals']} | {row['cost_median']:.2f} ({row['cost_high']:.2f}) "
            f"| {row['found']} of {row['steps']} | {row['matched']} of {row['true']} |"
        )


def episodes(data: Path) -> Iterator[tuple[Episode, LabelledEpisode, Image]]:
    """Each labelled episode, and the last frame of the one before."""
    for name, labels in read_labels(LABELS).datasets.items():
        if not (data / name).is_dir():
            continue
        source = Source.open(data / name)
        camera = source.camera(None)
        last = source.episode(labels.episodes[-1].episode)
        for label in labels.episodes:
            other = last.frames(camera, [len(last) - 1])[0]
            last = source.episode(label.episode)
            yield last, label, other


def scored(
    episode: Episode, label: LabelledEpisode, other: Image
) -> Iterator[tuple[str, list[int], list[float]]]:
    camera = Source.open(episode.root).camera(None)
    seen = np.concatenate(
        [
            features(episode.frames(camera, range(len(episode))[i : i + CHUNK]))
            for i in range(0, len(episode), CHUNK)
        ]
    )
    true = [segment.end for segment in label.segments]
    first, *frames = episode.frames(camera, [0, *(end - 1 for end in true)])
    cuts = [p.frame for p in proposals(episode)]
    least = max(2, round(WITHIN_S * episode.fps))
    for name, made in GOALS.items():
        goals = [made(first, frame, other) for frame in frames]
        path = ends(first, goals, seen, cuts, least)
        if path is None:
            yield name, [len(true), 0, len(true) - 1, 0], []
            continue
        found = [(end, cost) for end, cost in path if cost is not None]
        near = WITHIN_S * episode.fps
        matched = sum(
            c <= FOUND and abs(e - t) <= near for (e, c), t in zip(found[:-1], true[:-1], strict=True)
        )
        yield (
            name,
            [len(true), sum(c <= FOUND for _, c in found), len(true) - 1, matched],
            [c for _, c in found],
        )


if __name__ == "__main__":
    main()
