"""Untrue words on recordings of the tabletop as strangers make them, annotated by the preset `hindsight`.

    python lab/benchmarks/tabletop_words.py --split test --episodes 20 --json

A recording that starts with an open hand and one that starts with a closed hand are made. Each variant of
them (tests/support/tabletop_variants.py) is annotated and compared with the simulator. A name is untrue where
the simulator contradicts it (lab/goalreel_lab/written_names.py); the bare instruction is no name.

Keys of --json: `split`, `first_seed`, `episodes`, and `rows`, each with
    variant           `closed_` before it: recorded with a hand that is closed at first
    episodes, failed  episodes that have the variant's words, and those that were not annotated
    names, untrue     names written, and those of them that are untrue (counts)
    false_claims      untrue names of those written, 0-1 or null, with KEY_low and KEY_high, the 95 % interval
    coverage          grasps during which a true name speaks of the block, with the same
    cut_f1            cuts within 0.5 s of where a grasp begins or ends (the last end excepted), with the same
    observed          steps whose goal image is observed, and says something that the simulator knows (count)
    observed_untrue   of them, those that the simulator contradicts at the goal image's frame, with interval
    observed_early    those that are true within half a second of it: the hand has not let go yet, say
    observed_unseen   of those that state a true relation, those whose picture does not show it
    inverted          episodes in which the hand counts as closed rather when it is open
    reasons           why names are untrue (counts)
"""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import argument_parser, parse, report
from support.tabletop_variants import VARIANTS, vary

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.annotator.show import episode_view
from goalreel.annotator.statistics import boundary_counts, share, with_interval
from goalreel.datasets.episode import Episode
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.models.load import load
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.motion import read_motion
from goalreel.planners.kinematic.robot import find_layout
from goalreel.tabletop.record import quiet, record
from goalreel.tabletop.splits import SEEDS, seeds
from goalreel.tabletop.truth import read_truth
from goalreel_lab.bench.job import observed_truth, observed_unseen
from goalreel_lab.bench.scenes import SIZE, walk
from goalreel_lab.bench.written_names import EpisodeTruth, grasp_events, names_of
from goalreel_lab.written_names import claim_counts, untruth

cached_walk = cache(walk)
TOLERANCE = 0.5
"""Seconds that the end of a segment may be off."""
SHARES = ("false_claims", "coverage", "cut_f1", "observed_untrue", "observed_early", "observed_unseen")
CLOSED = ("plain", "mirrored")
"""The variants of recordings that start with a closed hand."""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--split", choices=list(SEEDS), default="validation")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--size", type=int, default=SIZE, help="width and height of the pictures")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--out", type=Path, help="keep recordings and annotations in this folder")
    options = parse(parser, argv, episodes=1, size=64, variants=["plain", "then_home"])
    chosen = seeds(options.split, options.episodes, options.first)
    quiet()
    with TemporaryDirectory() as workshop:
        rows = measure(options.out or Path(workshop), chosen, options.size, options.variants)
    result = {"split": options.split, "first_seed": chosen[0], "episodes": len(chosen), "rows": rows}
    report(result, options.json)


def measure(folder: Path, chosen: Sequence[int], size: int, variants: Sequence[str]) -> list[dict[str, Any]]:
    """Record, vary, annotate and score: a row a variant."""
    rows = []
    for prefix, names in (("", variants), ("closed_", [v for v in variants if v in CLOSED])):
        recording = folder / f"{prefix}recording"
        if names and not recording.is_dir():
            record(recording, chosen, cameras=["front"], size=size, starts_closed=bool(prefix))
        for name in names:
            varied, annotated = folder / f"{prefix}{name}", folder / f"{prefix}{name}-annotated"
            indices = vary(recording, varied, VARIANTS[name])
            if indices:
                rows.append({"variant": f"{prefix}{name}", **score(varied, annotated, indices)})
    return rows


def score(root: Path, out: Path, indices: Sequence[int]) -> dict[str, Any]:
    """Annotate some episodes of a recording and compare them with its ground truth."""
    source, options = Source.open(root), Options()
    context = None
    with suppress(InputError):  # annotate asks for --layout
        context = options.recorded(source)
        annotate(source, out, load("hindsight", recordings=context), options, episodes=indices)
    records = Records(out / FOLDER, source="")
    done = set(records.done())
    written = Source.open(out) if done else source
    truths = read_truth(root).episodes
    rows: dict[str, list[tuple[float, float]]] = {key: [] for key in SHARES}
    reasons, inverted = Counter[str](), 0
    for index in indices:
        episode = written.episode(index)
        truth = EpisodeTruth.read(episode.data_path, index, truths[index])
        slack = round(TOLERANCE * episode.fps)
        names = names_of(episode, truth) if index in done else []
        counts = claim_counts(names, truth.contacts, slack)
        reasons.update(why for name in names if (why := untruth(name, truth.contacts, slack)))
        board = episode_view(episode, records).storyboard if index in done else None
        segments = [s.segment for s in board.steps if s.segment] if board else []
        cuts = boundary_counts(segments, grasp_events(truth), TOLERANCE, episode.fps)
        rows["false_claims"].append((counts.untrue, counts.written))
        rows["coverage"].append((counts.covered, counts.contacts))
        rows["cut_f1"].append(cuts.pair)
        steps = board.steps if board else ()
        observed = [t for step in steps if (t := observed_truth(step, truth, slack))]
        rows["observed_untrue"].append((observed.count("untrue"), len(observed)))
        rows["observed_early"].append((observed.count("early"), len(observed)))
        scene = cached_walk(truths[index].seed)
        unseen = [u for step in steps if (u := observed_unseen(step, truth, scene)) is not None]
        rows["observed_unseen"].append((sum(unseen), len(unseen)))
        inverted += index in done and is_inverted(episode, context.layout if context else None, truth)
    totals = {key: np.sum(values, axis=0).astype(int).tolist() for key, values in rows.items()}
    result = {"episodes": len(indices), "failed": len(set(indices) - done)}
    result["observed"] = totals["observed_untrue"][1]
    result |= {"names": totals["false_claims"][1], "untrue": totals["false_claims"][0]}
    for key in SHARES:
        result |= with_interval(rows[key], share).entries(key)
    return result | {"inverted": inverted, "reasons": dict(reasons)}


def is_inverted(episode: Episode, layout: Layout | None, truth: EpisodeTruth) -> bool:
    """Tell whether the hand counts as more closed where it holds nothing than where it does."""
    closed = read_motion(episode, find_layout(episode, layout)).closed
    if closed is None:
        return False
    holds = np.zeros(len(episode), bool)
    for contact in truth.contacts:
        holds[contact.start : contact.end] = True
    return bool(closed[holds].mean() < closed[~holds].mean())


if __name__ == "__main__":
    main()
