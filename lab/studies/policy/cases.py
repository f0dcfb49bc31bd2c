"""Cases in which goal images are worth it: the table and the figure of lab/docs/policy-study.md.

    python lab/studies/policy/cases.py

Put the line that a measurement prints with --json into results/, under the name that cases.yaml has for it.
Then run this again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import BaseModel

from goalreel.cli.errors import one_line_errors
from goalreel.errors import InputError
from goalreel.files import write_bytes

ROOT = Path(__file__).parents[3]
CASES, RESULTS = Path(__file__).with_name("cases.yaml"), Path(__file__).with_name("results")
PAGE, FIGURE = ROOT / "lab/docs/policy-study.md", ROOT / "docs/images/policy_cases.png"
MARK, END = "<!-- cases -->", "<!-- /cases -->"
HEAD = "| case | compared | gain, points | tasks x seeds | worth it? |\n|---|---|---|---|---|"


class PolicyCase(BaseModel, frozen=True, extra="forbid"):
    """A case of cases.yaml, which says what its fields mean."""

    case: str
    compared: str
    result: str
    key: str
    needed: float = 0
    without_result: str = "not measured yet"
    tasks: tuple[int | str, ...] = ("episodes",)


@dataclass(frozen=True)
class CaseGain:
    """Measurement of a case: a difference in points (0-100) with its 95 % interval."""

    value: float
    low: float
    high: float
    tasks: int
    seeds: int

    def counts(self, needed: float) -> bool:
        """Tell whether the gain is as large as was asked for, and its interval above 0."""
        return self.value >= needed and self.low > 0


type CaseRow = tuple[PolicyCase, CaseGain | None]


def main(
    results: Annotated[Path, typer.Option(help="Folder of the result files.")] = RESULTS,
    page: Annotated[Path, typer.Option(help="Its table is written anew.")] = PAGE,
    figure: Annotated[Path, typer.Option(help="PNG file to draw in.")] = FIGURE,
) -> None:
    """Write the table into the page, and draw the figure."""
    with one_line_errors():
        rows = read_rows(results)
        text = page.read_text(encoding="utf-8")
        before, mark, rest = text.partition(MARK)
        _, end, after = rest.partition(END)
        if not (mark and end):
            raise InputError(f"{page}: no table between {MARK} and {END}")
        write_bytes(page, f"{before}{MARK}\n\n{table(rows)}\n\n{END}{after}".encode())
        draw(rows, figure)


def read_rows(results: Path) -> list[CaseRow]:
    """Read all cases, with what was measured in them.

    Raises:
        InputError: a result file is none.
    """
    cases = [PolicyCase.model_validate(row) for row in yaml.safe_load(CASES.read_text(encoding="utf-8"))]
    return [(case, _gain(results / case.result, case)) for case in cases]


def _gain(path: Path, case: PolicyCase) -> CaseGain | None:
    """Read a case's gain; None where the file, or the difference in it, is not there yet."""
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        if result.get(case.key) is None:
            return None
        value, low, high = (float(result[f"{case.key}{end}"]) for end in ("", "_low", "_high"))
        tasks = prod(n if isinstance(n, int) else int(result[n]) for n in case.tasks)
        return CaseGain(value, low, high, tasks, int(result["seeds"]))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise InputError(f"{path}: not the line that a command prints with --json ({e})") from e


def table(rows: Sequence[CaseRow]) -> str:
    """Make the page's table."""
    return "\n".join([HEAD, *map(_line, rows)])


def _line(row: CaseRow) -> str:
    case, gain = row
    if gain is None:
        return f"| {case.case} | {case.compared} | | | {case.without_result} |"
    interval = f"{gain.value:+.1f} ({gain.low:+.0f} to {gain.high:+.0f})"
    cells = (case.case, case.compared, interval, f"{gain.tasks} x {gain.seeds}", _answer(gain, case.needed))
    return f"| {' | '.join(cells)} |"


def _answer(gain: CaseGain, needed: float) -> str:
    asked = f", {needed:g} asked for" if needed else ""
    if gain.counts(needed):
        answer = "**yes**"
    elif gain.high < 0:
        answer = "**no**, a loss"
    else:
        answer = f"not shown{asked}"
    return answer if gain.seeds > 1 else f"{answer}; one training seed"


def draw(rows: Sequence[CaseRow], path: Path) -> None:
    """Draw each case's gain with its interval, and what was asked for as a tick."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8.6, 0.5 + 0.55 * len(rows)))
    axis.axvline(0, color="black", lw=0.8)
    for y, (case, gain) in enumerate(rows):
        if case.needed:
            axis.plot([case.needed] * 2, [y - 0.28, y + 0.28], color="tab:red", lw=1.2)
        if gain is None:
            axis.text(-1, y, case.without_result, ha="right", va="center", color="grey", fontsize=8)
            continue
        colour = "tab:blue" if gain.counts(case.needed) else "dimgrey"
        spread = [[gain.value - gain.low], [gain.high - gain.value]]
        axis.errorbar(gain.value, y, xerr=spread, fmt="o", color=colour, capsize=3)
    axis.set_yticks(range(len(rows)), [f"{case.case}\n{case.compared}" for case, _ in rows], fontsize=7)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlim(min(-20, axis.get_xlim()[0]), max(20, axis.get_xlim()[1]))
    axis.set_xlabel("gain, points; red: asked for beforehand")
    axis.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    typer.run(main)
