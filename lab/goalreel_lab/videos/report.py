"""The report of a video benchmark: its scores beside those that others published."""

import json
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from goalreel.annotator.statistics import Measurement, json_line

type Published = dict[str, dict[str, float]]
"""System -> measure -> its published value."""


@cache
def published_values(benchmark: str) -> Published:
    """Read what others published on a benchmark, with where it is from in the names of the systems."""
    import yaml

    text = (files(__package__ or __name__.rpartition(".")[0]) / "published.yaml").read_text()
    return yaml.safe_load(text)[benchmark]


class VideoBenchReport(BaseModel):
    """What was measured on a benchmark of videos."""

    model_config = ConfigDict(frozen=True)

    benchmark: str
    models: dict[str, str]
    """By what they did."""
    counts: dict[str, int]
    values: dict[str, Measurement]
    notes: tuple[str, ...]
    """What makes the numbers not comparable with the published ones, or must be known to compare them."""

    def as_json(self) -> str:
        """Write one line: values as KEY, KEY_low and KEY_high, and `published` by system."""
        settings = {"benchmark": self.benchmark, "models": self.models, **self.counts}
        settings |= {"published": published_values(self.benchmark), "notes": list(self.notes)}
        return json_line(settings, self.values)

    def table(self) -> Table:
        """Make a table of ours beside the published values."""
        systems = published_values(self.benchmark)
        title = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        table = Table("measure", "ours", "95 % interval", *systems, box=None, title=title)
        for key, m in self.values.items():
            ours = "-" if m.value is None else f"{m.value:.3f}"
            others = (json.dumps(values[key]) if key in values else "" for values in systems.values())
            table.add_row(key, ours, m.interval(), *others)
        return table
