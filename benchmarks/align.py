"""How unlike the recording predicted goal images are found to be, by how they were made from real frames.

    python benchmarks/align.py --json

The episodes are the labelled ones of tests/data/real, with their pictures below ../shared/data or the folder
that is named; without them there is no row. Goal images are made from the frames at the true cuts.

Keys of --json: `found_below`, the unlikeness below which a step counts as found, and `rows`, each with
    goals             how the goal images were made
    steps, found      steps looked for, and those that were given a segment's end
    cost_median, cost_high      unlikeness, median and 90th percentile
    true, matched     inner cuts labelled, and those found within 0.5 s
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from common import argument_parser, parse, report

from goalreel.annotator.align import CHUNK, FOUND, WITHIN_S, ends, features
from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.evaluation.real import LabelledEpisode, read_labels
from goalreel.image import Image
from goalreel.planners.kinematic.proposals import proposals

SHARED = Path(__file__).parents[2] / "shared/data"
LABELS = Path(__file__).parents[1] / "tests/data/real/labels.json"
type Change = Callable[[Image, Image, Image], Image]
"""Makes a goal image from the first frame, the frame at the cut and the last frame of another episode."""


def zoom(share: float) -> Change:
    """Cut a share of the width and height away."""

    def change(first: Image, true: Image, other: Image) -> Image:
        width, height = true.size
        x, y = round(share / 2 * width), round(share / 2 * height)
        return _image(cv2.resize(true.pixels[y : height - y, x : width - x], (width, height)))

    return change


def shift(share: float) -> Change:
    """Move the picture to the right by a share of its width."""

    def change(first: Image, true: Image, other: Image) -> Image:
        pixels = round(share * true.size[0])
        return Image(np.roll(true.pixels, pixels, axis=1))

    return change


def blur(first: Image, true: Image, other: Image) -> Image:
    """Blur the true frame by 3 px."""
    return _image(cv2.GaussianBlur(true.pixels, (0, 0), 3))


def patch(first: Image, true: Image, other: Image) -> Image:
    """Copy the true frame into the first where they differ most, as an editor that leaves the arm alone."""
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


def _image(pixels: cv2.typing.MatLike) -> Image:
    return Image(np.asarray(pixels, np.uint8))


GOALS: dict[str, Change] = {
    "the real frame": lambda first, true, other: true,
    "blurred by 3 px": blur,
    "zoomed by 5 %": zoom(0.05),
    "zoomed by 10 %": zoom(0.1),
    "shifted by 2 % of the width": shift(0.02),
    "shifted by 4 %": shift(0.04),
    "shifted by 8 %": shift(0.08),
    "the arm left where it was": patch,
    "the first frame, unchanged": lambda first, true, other: first,
    "a frame of another episode": lambda first, true, other: other,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "data", type=Path, nargs="?", default=SHARED, help="the folder of the datasets with their pictures"
    )
    parser.add_argument("--episodes", type=int, help="labelled episodes (default: all)")
    options = parse(parser, argv, episodes=1)
    rows = measure(options.data, options.episodes)
    if options.json:
        report({"found_below": FOUND, "rows": rows}, as_json=True)
        return
    print("| goal images | unlikeness, median (90 %) | steps found | inner cuts within 0.5 s |")
    print("|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['goals']} | {row['cost_median']:.2f} ({row['cost_high']:.2f}) "
            f"| {row['found']} of {row['steps']} | {row['matched']} of {row['true']} |"
        )


def measure(data: Path, limit: int | None) -> list[dict[str, Any]]:
    """Measure each way to make goal images, over at most `limit` episodes, a row each."""
    counts = {name: [0, 0, 0, 0] for name in GOALS}
    costs: dict[str, list[float]] = {name: [] for name in GOALS}
    for episode, label, other in itertools.islice(episodes(data), limit):
        for name, more_counts, more_costs in score(episode, label, other):
            counts[name] = [a + b for a, b in zip(counts[name], more_counts, strict=True)]
            costs[name] += more_costs
    return [
        {
            "goals": name,
            **dict(zip(("steps", "found", "true", "matched"), counts[name], strict=True)),
            "cost_median": round(float(np.median(costs[name])), 2),
            "cost_high": round(float(np.quantile(costs[name], 0.9)), 2),
        }
        for name in GOALS
        if costs[name]
    ]


def episodes(data: Path) -> Iterator[tuple[Episode, LabelledEpisode, Image]]:
    """Yield each labelled episode, and the last frame of the one before."""
    for name, labels in read_labels(LABELS).datasets.items():
        if not (data / name).is_dir():
            continue
        source = Source.open(data / name)
        camera = source.camera(None)
        previous = source.episode(labels.episodes[-1].episode)
        for label in labels.episodes:
            other = previous.frames(camera, [len(previous) - 1])[0]
            previous = source.episode(label.episode)
            yield previous, label, other


def score(
    episode: Episode, label: LabelledEpisode, other: Image
) -> Iterator[tuple[str, list[int], list[float]]]:
    """Score each way to make goal images: its name, counts (steps, found, true, matched) and costs."""
    camera = Source.open(episode.root).camera(None)
    chunks = itertools.batched(range(len(episode)), CHUNK)
    recording = np.concatenate([features(episode.frames(camera, chunk)) for chunk in chunks])
    true = [segment.end for segment in label.segments]
    first, *frames = episode.frames(camera, [0, *(end - 1 for end in true)])
    cuts = [p.frame for p in proposals(episode)]
    shortest = max(2, round(WITHIN_S * episode.fps))
    for name, change in GOALS.items():
        goals = [change(first, frame, other) for frame in frames]
        path = ends(first, goals, recording, cuts, shortest)
        if path is None:
            yield name, [len(true), 0, len(true) - 1, 0], []
            continue
        matches = [(end, cost) for end, cost in path if cost is not None]
        tolerance = WITHIN_S * episode.fps
        right = sum(
            c <= FOUND and abs(e - t) <= tolerance for (e, c), t in zip(matches[:-1], true[:-1], strict=True)
        )
        found_count = sum(c <= FOUND for _, c in matches)
        yield name, [len(true), found_count, len(true) - 1, right], [c for _, c in matches]


if __name__ == "__main__":
    main()
