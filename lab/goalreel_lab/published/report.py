"""The paper's tables as data, and the notes that belong beside them."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, Field
from rich.table import Column, Table

from goalreel.annotator.statistics import Measurement
from goalreel.errors import InputError
from goalreel.models.names import ModelName

KLEIN, QWEN = "IT+FLUX.2-klein-9B", "IT+Qwen-Image-Edit"
_ALONE = {KLEIN: "FLUX.2-klein-9B", QWEN: "Qwen-Image-Edit-2511"}
"""The rows of the editors alone."""
PICTURE = (
    "The picture that is judged is the last step's; neither the paper nor its code says which one was theirs."
)
WARNINGS = {
    "ueval": (
        "UEval's own average is the mean of the eight tasks (avg_tasks). The paper's InterleaveThinker rows "
        "hold the mean over items of text and image (avg_items); by the official rule 66.3 is 64.7, and 67.2 "
        "is 65.6. All its other rows are the official average.",
    ),
    "wise": (
        "This is WISE as the paper ran it (WISE_legacy, gpt-4o-2024-05-13). The repository's default is now "
        "WISE_Verified, another judge and other prompts: its numbers are not comparable.",
        PICTURE,
    ),
    "rise": (
        "RISE changed its rule for items without a consistency score on 2026-04-13. The paper's baselines "
        "are by the rule from before; it does not say by which one its InterleaveThinker rows are. All rows "
        "are compared with the measures of the old rule (_prefix).",
        PICTURE,
    ),
    "comm": (
        "The paper does not say how many samples of CoMM it took, and its judge answers at temperature 1: no "
        "exact agreement can be expected.",
    ),
}


class PaperTable(BaseModel, frozen=True, extra="forbid"):
    """One table of the paper, or the half of it that is about one task."""

    table: int
    benchmark: str
    task: int | None = None
    samples: int | None = None
    """None where the paper does not say."""
    measures: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]
    average: dict[str, str] = Field(default_factory=dict)
    alias: dict[str, str] = Field(default_factory=dict)

    def row(self, name: str) -> dict[str, float]:
        """Map measures to the numbers of a row; empty where the table has none of that name."""
        name = name if name in self.rows else self.alias.get(name, name)
        measures = (*self.measures[:-1], self.average.get(name, self.measures[-1]))
        return dict(zip(measures, self.rows.get(name, ()), strict=False))


@cache
def tables() -> tuple[PaperTable, ...]:
    """Read all tables, as the paper prints them."""
    import yaml

    text = (files(__package__ or __name__.rpartition(".")[0]) / "paper.yaml").read_text()
    return tuple(PaperTable.model_validate(table) for table in yaml.safe_load(text))


def tables_of(benchmark: str, task: int | None = None) -> list[PaperTable]:
    """Find the tables about a benchmark."""
    return [t for t in tables() if t.benchmark == benchmark and t.task in (None, task)]


def check_row(benchmark: str, task: int | None, name: str) -> None:
    """Say which rows there are where there is none called `name`.

    Raises:
        InputError: the paper's tables about the benchmark have no such row.
    """
    names = dict.fromkeys(row for table in tables_of(benchmark, task) for row in table.rows)
    if name not in names:
        raise InputError(f"the paper has no row {name!r} for {benchmark}; there are {', '.join(names)}")


def row_for(editor: str, planner: str = "") -> str | None:
    """Name the row of the paper's own system, or of the editor alone; None where it ran no such editor."""
    name = ModelName.parse(editor).public().lower()
    row = KLEIN if "klein" in name else QWEN if "qwen" in name else None
    return _ALONE.get(row or "") if planner == "instruction" else row


class PublishedReport(BaseModel, frozen=True):
    """The scores of one benchmark. `values` is empty where no judge was asked."""

    benchmark: str
    task: int | None = None
    settings: dict[str, Any]
    """The models and all else that decided the answers."""
    samples: int
    answered: int
    unplanned: dict[str, str]
    """Samples that the Planner gave no plan for -> why."""
    judge: str | None
    values: dict[str, Measurement]
    row: str | None
    """The paper's row to compare with."""
    notes: tuple[str, ...]
    """Notes on what makes the two not comparable, or must be known to compare them."""

    def paper(self) -> dict[str, tuple[float, int]]:
        """Measure -> (the paper's number, the number of its table)."""
        if self.row is None:
            return {}
        rows = [(t.table, t.row(self.row)) for t in tables_of(self.benchmark, self.task)]
        return {name: (value, table) for table, row in reversed(rows) for name, value in row.items()}

    def as_json(self) -> str:
        """Write one line: every measure as KEY, KEY_low and KEY_high, the paper's as KEY_paper."""
        flat = self.model_dump(exclude={"values", "unplanned"})
        flat |= {"unplanned": len(self.unplanned)}
        for key, value in self.values.items():
            flat |= value.entries(key)
        return json.dumps(flat | {f"{key}_paper": value for key, (value, _) in self.paper().items()})

    def table(self) -> Table:
        """Make a table of ours beside the paper's; no measure and no value of ours is cut at 60 columns."""
        title = f"{self.benchmark}: {self.answered} of {self.samples} samples"
        measure, paper, ours, *others = self._head()
        columns = (Column(measure, no_wrap=True), paper, Column(ours, no_wrap=True))
        table = Table(*columns, *others, box=None, title=title)
        for row in self._rows():
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Make the page that is kept beside the answers."""
        head = self._head()
        lines = [f"# {self.benchmark}", "", f"{self.answered} of {self.samples} samples, judge: {self.judge}"]
        lines += [f"- {key}: {value}" for key, value in self.settings.items()]
        lines += ["", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
        lines += [f"| {' | '.join(row)} |" for row in self._rows()]
        lines += ["", *(f"- {note}" for note in self.notes)]
        if self.unplanned:
            lines += ["", "Without a plan:", *(f"- {key}: {why}" for key, why in self.unplanned.items())]
        return "\n".join([*lines, ""])

    def _head(self) -> list[str]:
        return [
            "measure",
            f"paper: {self.row}" if self.row else "paper",
            "ours",
            "95 % interval",
            "difference",
        ]

    def _rows(self) -> Iterator[list[str]]:
        paper = self.paper()
        for name, m in self.values.items():
            digits = 3 if self.benchmark == "wise" else 1
            value, table = paper.get(name, (None, None))
            paper_value = "" if value is None else f"{value} (Table {table})"
            if m.value is None:
                yield [name, paper_value, "-", "", ""]
                continue
            difference = "" if value is None else f"{m.value - value:+.{digits}f}"
            ours = f"{m.value:.0f}" if name == "unjudged" else f"{m.value:.{digits}f}"
            yield [name, paper_value, ours, m.interval(digits), difference]
