"""The report of a published benchmark: its scores beside the paper's."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.table import Column, Table

from goalreel.annotator.statistics import Measurement
from goalreel_lab.published.paper import tables_of


class PublishedReport(BaseModel):
    """The scores of one benchmark. `values` is empty where no judge was asked."""

    model_config = ConfigDict(frozen=True)

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
    """What makes the two not comparable, or must be known to compare them."""

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
