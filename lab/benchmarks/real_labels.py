"""Cuts of the kinematic planner in real episodes, against labels made by eye (tests/data/real/*.json).

    python lab/benchmarks/real_labels.py --json

It needs no pictures. The numbers of gr1_sim are not shipped: it has rows where ../shared/data has it.

Keys of --json: `tolerance_s`, and `rows`, each with
    dataset, granularity
    retreats          "apart": a retreat is a segment of its own; "joined": it belongs to what it follows
    matched, predicted, true      boundaries (counts)
    precision, recall, f1         0-1 or null, with KEY_low and KEY_high, the 95 % interval over episodes
    names             the same for labelled segments whose step says what was done; of joined events only
    written           the same for those of them whose words are written, for nothing speaks against them
    steps, doubtful   steps, and those of them whose words are not written (counts)
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import ROOT, SHARED, argument_parser, parse, report

from goalreel.annotator.statistics import Measurement
from goalreel.terms import Granularity
from goalreel_lab.real_labels import (
    BoundaryScore,
    LabelledDataset,
    boundary_score,
    cuts_of,
    kinematic_plans,
    names_right,
    read_labels,
)

GRANULARITIES: tuple[Granularity, ...] = ("event", "subtask", "phase")
REAL = ROOT / "tests/data/real"
MEASURES = ("precision", "recall", "f1", "names", "written")
UNKNOWN = Measurement(value=None, low=None, high=None)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--tolerance", type=float, default=0.5, help="seconds a boundary may be off")
    parser.add_argument("--granularities", nargs="+", choices=GRANULARITIES, default=GRANULARITIES)
    options = parse(parser, argv, granularities=("event",))
    rows = measure(options.tolerance, options.granularities)
    report({"tolerance_s": options.tolerance, "rows": rows}, options.json)


def measure(tolerance: float, granularities: Sequence[Granularity]) -> list[dict[str, Any]]:
    """Measure each dataset, granularity and way to count retreats, a row each."""
    rows = []
    for name, labels in labelled():
        root = REAL / name if (REAL / name).is_dir() else SHARED / name
        for granularity in granularities if root.is_dir() else ():
            plans = kinematic_plans(root, granularity)
            steps = [step for plan in plans.values() for step in plan.steps]
            counts = {"steps": len(steps), "doubtful": sum(bool(step.doubts) for step in steps)}
            for retreats in ("apart", "joined"):
                score = boundary_score(cuts_of(plans), labels, tolerance, retreats_apart=retreats == "apart")
                row = {"dataset": name, "granularity": granularity, "retreats": retreats} | counts
                names = written = UNKNOWN
                if (granularity, retreats) == ("event", "joined"):
                    names, written = (names_right(plans, labels, without_doubts=w) for w in (False, True))
                rows.append(row | flatten(score, names, written))
    return rows


def labelled() -> Iterator[tuple[str, LabelledDataset]]:
    """Yield each labelled dataset with its name."""
    for file in (REAL / "labels.json", REAL / "gr1_sim.json"):
        yield from read_labels(file).datasets.items()


def flatten(score: BoundaryScore, names: Measurement, written: Measurement) -> dict[str, Any]:
    """List the counts and measures of a row."""
    row: dict[str, Any] = {"matched": score.matched, "predicted": score.predicted, "true": score.true}
    for key, value in zip(MEASURES, (score.precision, score.recall, score.f1, names, written), strict=True):
        row |= value.entries(key)
    return row


if __name__ == "__main__":
    main()
