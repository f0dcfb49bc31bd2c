"""Tables and curves of the policy study, of which lab/docs/policy-study.md and dev/LOG.md tell.

python lab/studies/policy/report.py out/policy_study --curves docs/images/policy_curves.png
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import typer
from fit import PICK_NEAR, PLACE_NEAR

from goalreel.annotator.statistics import Measurement
from goalreel.cli.options import SPLITS
from goalreel_lab.policy.arm_tasks import ArmEnd
from goalreel_lab.policy.intervals import difference_of_seeds, measure_seeds
from goalreel_lab.policy.policy_tasks import CONDITIONS
from goalreel_lab.policy.study import PolicyReport

ROWS = {
    "instruction": "A0, the instruction in words",
    "text": "A1, the present sub-task in words",
    "true": "G, words and the true goal image",
    "true_alone": "G alone, the true goal image without words",
    "predicted": "G+, words and the predicted image, with Critic",
    "predicted_once": "G-, words and the predicted image, one attempt",
    "placebo": "P, words and another task's goal image",
    "placebo_alone": "P alone, another task's goal image without words",
    "black": "B, the policy of G, words and a black picture",
}
PAIRS = {
    "G - A1": ("true", "text"),
    "G - A0": ("true", "instruction"),
    "A1 - A0": ("text", "instruction"),
    "G alone - A1": ("true_alone", "text"),
    "G+ - A1": ("predicted", "text"),
    "G+ - G-": ("predicted", "predicted_once"),
    "G - G+": ("true", "predicted"),
    "P - A1": ("placebo", "text"),
    "B - A1": ("black", "text"),
}
POLICIES = {"instruction": "A0", "text": "A1", "picture": "G"}
NAME = re.compile(r"(?P<run>[a-z_]+)-(?P<size>\w+)-(?P<seed>\d+)-\d+-(?P<condition>\w+)-\w+-\d+")
type EndsBySeed = dict[int, list[ArmEnd]]
"""Training seed -> how the tasks ended."""
type StudyEnds = dict[tuple[str, str], dict[str, EndsBySeed]]
"""(Size, condition) -> arm -> ends."""


def main(
    out: Annotated[Path, typer.Argument(help="The study's folder.")],
    steps: Annotated[int, typer.Option(min=1, help="Of the policies that are told of.")] = 2000,
    split: Annotated[SPLITS, typer.Option(help="Of the rollouts.")] = "test",
    drawn: Annotated[Path | None, typer.Option("--curves", help="PNG file to draw the curves in.")] = None,
) -> None:
    """Print the tables."""
    ends = read(out, steps, split)
    for condition in CONDITIONS:
        if ("all", condition) in ends:
            typer.echo(f"\n### {condition}\n\n{arms_table(ends['all', condition])}")
    typer.echo(f"\n### Differences\n\n{pairs_table(ends)}")
    typer.echo(f"\n### Success by training samples\n\n{sizes_table(ends)}")
    typer.echo(
        f"\n### Misses on validation scenes after training, a policy a line\n\n{misses_table(out, steps)}"
    )
    off = json.loads((out / "backbone.json").read_text())
    typer.echo(
        f"\nThe backbone reads blocks {off['plain']:.2f} cm off, {off['bordered']:.2f} as a goal (medians)."
    )
    if drawn is not None:
        curves(out, steps, drawn)


def read(out: Path, steps: int, split: str) -> StudyEnds:
    """Read the results, of several with other counts of tasks the one with most; of arms without words under
    a name of their own."""
    study_ends: StudyEnds = defaultdict(lambda: defaultdict(dict))
    paths = (out / "results").glob(f"*-*-*-{steps}-*-{split}-*.json")
    reports = [(path, PolicyReport.model_validate_json(path.read_text())) for path in paths]
    for path, report in sorted(reports, key=lambda it: it[1].episodes):
        name = NAME.fullmatch(path.stem)
        assert name is not None
        end = "" if report.words else "_alone"
        for arm, (ends,) in report.rolled.items():
            study_ends[name["size"], name["condition"]][f"{arm}{end}"][int(name["seed"])] = ends
    return study_ends


def arms_table(arms: dict[str, EndsBySeed]) -> str:
    lines = [
        "| | all sub-goals | sub-goals reached | right block first | tasks x seeds |\n|---|---|---|---|---|"
    ]
    for arm, name in ROWS.items():
        if arm in arms:
            ends = list(arms[arm].values())
            cells = [share(measure_seeds(ends, m)) for m in ("success", "reached", "first_right")]
            lines.append(f"| {name} | {' | '.join(cells)} | {len(ends[0])} x {len(ends)} |")
    return "\n".join(lines)


def pairs_table(ends: StudyEnds) -> str:
    conditions = [c for c in CONDITIONS if ("all", c) in ends]
    lines = [f"| | {' | '.join(conditions)} |\n|---|{'---|' * len(conditions)}"]
    for measure in ("success", "reached"):
        for name, (first, second) in PAIRS.items():
            cells = [between(ends["all", c], first, second, measure) for c in conditions]
            if any(cells):
                lines.append(f"| {name}, {measure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def sizes_table(ends: StudyEnds) -> str:
    sizes = sorted((s for s, c in ends if c == "seen"), key=lambda s: int(s) if s.isdigit() else 10**9)
    lines = ["| samples | A1 | G | G - A1, success | G - A1, reached |\n|---|---|---|---|---|"]
    for size in sizes:
        arms = ends[size, "seen"]
        if {"text", "true"} <= arms.keys():
            cells = [share(measure_seeds(list(arms[a].values()), "success")) for a in ("text", "true")]
            cells += [between(arms, "true", "text", m) for m in ("success", "reached")]
            lines.append(f"| {size} | {' | '.join(cells)} |")
    return "\n".join(lines)


def misses_table(out: Path, steps: int) -> str:
    lines = [
        f"| policy, samples, seed | pick, cm | place, cm | pick within {1000 * PICK_NEAR:.0f} mm "
        f"| place within {1000 * PLACE_NEAR:.0f} mm |",
        "|---|---|---|---|---|",
    ]
    for (arm, size, seed), curve in read_curves(out, steps).items():
        end = curve[-1]
        shares = " | ".join(f"{100 * end[key]:.0f} %" for key in ("pick_near", "place_near"))
        lines.append(
            f"| {POLICIES[arm]}, {size}, {seed} | {end['pick_cm']:.2f} | {end['place_cm']:.2f} | {shares} |"
        )
    return "\n".join(lines)


def read_curves(out: Path, steps: int) -> dict[tuple[str, str, str], list[dict]]:
    """Read the curves by arm, size and seed; those of other studies in the same folder are left out."""
    curves_by_run = {}
    for file in sorted((out / "policies").glob(f"*-{steps}/curve.json")):
        arm, size, seed, _ = file.parent.name.split("-")
        if arm in POLICIES:
            curves_by_run[arm, size, seed] = json.loads(file.read_text())["curve"]
    return curves_by_run


def between(arms: dict[str, EndsBySeed], first_arm: str, second_arm: str, measure: str) -> str:
    """Compare two arms on the tasks and the seeds that both have."""
    first_ends, second_ends = (arms.get(arm, {}) for arm in (first_arm, second_arm))
    pairs = [
        list(zip(first_ends[s], second_ends[s], strict=False))
        for s in sorted(first_ends.keys() & second_ends.keys())
    ]
    if not pairs:
        return ""
    first, second = ([[pair[side] for pair in row] for row in pairs] for side in (0, 1))
    m = difference_of_seeds(first, second, measure)
    assert m.value is not None
    assert m.low is not None
    assert m.high is not None
    return f"{m.value:+.1f} ({m.low:+.0f} .. {m.high:+.0f})"


def share(m: Measurement) -> str:
    assert m.value is not None
    assert m.low is not None
    assert m.high is not None
    return f"{100 * m.value:.1f} % ({100 * m.low:.0f} - {100 * m.high:.0f})"


def curves(out: Path, steps: int, path: Path) -> None:
    """Draw how far key poses are from the expert's on validation scenes, by training and by samples."""
    runs: dict[tuple[str, str], list[list[dict]]] = defaultdict(list)
    for (arm, size, _), curve in read_curves(out, steps).items():
        runs[arm, size].append(curve)
    sizes = sorted({s for _, s in runs}, key=lambda s: int(s) if s.isdigit() else 10**9)
    figure, axes = plt.subplots(2, len(sizes), figsize=(3.4 * len(sizes), 5), sharey="row", squeeze=False)
    for column, size in enumerate(sizes):
        for row, key in enumerate(("pick_cm", "place_cm")):
            axis = axes[row][column]
            for arm, colour in (("instruction", "tab:grey"), ("text", "tab:orange"), ("picture", "tab:blue")):
                for number, curve in enumerate(runs.get((arm, size), [])):
                    done, values = zip(*((p["step"], p[key]) for p in curve), strict=True)
                    axis.plot(done, values, color=colour, label=None if number else POLICIES[arm], lw=1)
            axis.set_yscale("log")
            axis.set_yticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            if row == 0:
                axis.set_title(f"{size} samples")
            if column == 0:
                axis.set_ylabel(f"{key.removesuffix('_cm')}: median miss, cm")
            axis.set_xlabel("steps of 128" if row else "")
    axes[0][-1].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    typer.run(main)
