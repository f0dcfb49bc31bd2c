"""Where the kinematic planner cuts real episodes, against labels made by eye (tests/data/real/labels.json).

    python benchmarks/real_labels.py --json

It needs no pictures. Keys of --json: `tolerance_s`, and `rows`, each with
    dataset, granularity
    retreats          "apart": a retreat is a segment of its own; "joined": it belongs to what it follows
    matched, predicted, true      boundaries (counts)
    precision, recall, f1         0-1 or null, with KEY_low and KEY_high, the 95 % interval over episodes
    names             the same for labelled segments whose step says what was done; of joined events only
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import argument_parser, parse, report

from goalreel.evaluation.real import (
    BoundaryScore,
    boundary_score,
    cuts_of,
    kinematic_plans,
    names_right,
    read_labels,
)
from goalreel.evaluation.statistics import Measurement
from goalreel.planners.kinematic import Granularity

GRANULARITIES: tuple[Granularity, ...] = ("event", "subtask", "phase")
REAL = Path(__file__).parents[1] / "tests/data/real"
MEASURES = ("precision", "recall", "f1", "names")
UNKNOWN = Measurement(value=None, low=None, high=None)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--tolerance", type=float, default=0.5, help="seconds a boundary may be off")
    parser.add_argument("--granularities", nargs="+", choices=GRANULARITIES, default=GRANULARITIES)
    options = parse(parser, argv, granularities=("event",))
    rows = measure(options.tolerance, options.granularities)
    if options.json:
        report({"tolerance_s": options.tolerance, "rows": rows}, as_json=True)
        return
    print(
        "| dataset | granularity | retreats | found, of cuts made, of true ones "
        "| precision | recall | F1 | names right |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        counts = f"{row['matched']}, of {row['predicted']}, of {row['true']}"
        shares = " | ".join(cell(row, key) for key in MEASURES)
        print(f"| {row['dataset']} | {row['granularity']} | {row['retreats']} | {counts} | {shares} |")


def measure(tolerance: float, granularities: Sequence[Granularity]) -> list[dict[str, Any]]:
    """Measure each dataset, granularity and way to count retreats, a row each."""
    rows = []
    for name, labels in read_labels(REAL / "labels.json").datasets.items():
        for granularity in granularities:
            plans = kinematic_plans(REAL / name, granularity)
            names = names_right(plans, labels) if granularity == "event" else UNKNOWN
            for retreats in ("apart", "joined"):
                score = boundary_score(cuts_of(plans), labels, tolerance, retreats_apart=retreats == "apart")
                row = {"dataset": name, "granularity": granularity, "retreats": retreats}
                rows.append(row | flatten(score, names if retreats == "joined" else UNKNOWN))
    return rows


def flatten(score: BoundaryScore, names: Measurement) -> dict[str, Any]:
    """List the counts and measures of a row."""
    row: dict[str, Any] = {"matched": score.matched, "predicted": score.predicted, "true": score.true}
    for key, value in zip(MEASURES, (score.precision, score.recall, score.f1, names), strict=True):
        row |= {key: value.value, f"{key}_low": value.low, f"{key}_high": value.high}
    return row


def cell(row: Mapping[str, Any], key: str) -> str:
    """Write a measure with its interval."""
    if row[key] is None:
        return "-"
    return f"{row[key]:.2f} ({row[f'{key}_low']:.2f} - {row[f'{key}_high']:.2f})"


if __name__ == "__main__":
    main()
