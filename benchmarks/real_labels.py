"""Where the kinematic planner cuts real episodes, against labels made by eye (tests/data/real/labels.json).

    python benchmarks/real_labels.py --json

It needs no pictures. With --json the last line is one JSON object: `tolerance_s`, and `rows`, each with
    dataset, granularity
    retreats          "apart": a retreat is a segment of its own; "joined": it belongs to what it follows
    matched, predicted, true      boundaries (counts)
    precision, recall, f1         0-1 or null, with KEY_low and KEY_high, the 95 % interval over episodes
    names             the same for labelled segments whose step says what was done; of joined events only
"""

import argparse
import json
from pathlib import Path

from goalreel.evaluation.real import (
    BoundaryScore,
    boundary_score,
    cuts_of,
    kinematic_plans,
    names_right,
    read_labels,
)
from goalreel.evaluation.statistics import Measurement

REAL = Path(__file__).parents[1] / "tests/data/real"
MEASURES = ("precision", "recall", "f1", "names")
UNKNOWN = Measurement(value=None, low=None, high=None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tolerance", type=float, default=0.5, help="seconds a boundary may be off")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for name, labels in read_labels(REAL / "labels.json").datasets.items():
        for granularity in ("event", "subtask", "phase"):
            plans = kinematic_plans(REAL / name, granularity)
            names = names_right(plans, labels) if granularity == "event" else UNKNOWN
            for retreats in ("apart", "joined"):
                score = boundary_score(
                    cuts_of(plans), labels, options.tolerance, retreats_apart=retreats == "apart"
                )
                known = names if retreats == "joined" else UNKNOWN
                row = {"dataset": name, "granularity": granularity, "retreats": retreats}
                rows.append(row | flat(score, known))
    if options.json:
        print(json.dumps({"tolerance_s": options.tolerance, "rows": rows}))
        return
    print(
        "| dataset | granularity | retreats | found, of cuts made, of true ones "
        "| precision | recall | F1 | names right |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        counts = f"{row['matched']}, of {row['predicted']}, of {row['true']}"
        shares = " | ".join(shown(row, key) for key in MEASURES)
        print(f"| {row['dataset']} | {row['granularity']} | {row['retreats']} | {counts} | {shares} |")


def flat(score: BoundaryScore, names: Measurement) -> dict[str, object]:
    found: dict[str, object] = {"matched": score.matched, "predicted": score.predicted, "true": score.true}
    for key, value in zip(MEASURES, (score.precision, score.recall, score.f1, names), strict=True):
        found |= {key: value.value, f"{key}_low": value.low, f"{key}_high": value.high}
    return found


def shown(row: dict[str, object], key: str) -> str:
    if row[key] is None:
        return "-"
    return f"{row[key]:.2f} ({row[f'{key}_low']:.2f} - {row[f'{key}_high']:.2f})"


if __name__ == "__main__":
    main()
