"""What a run of the bench found, as a table or as one line of JSON."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from goalreel.evaluation.measured import Measured

HEADLINES = (
    "plan.exact",
    "edit.score",
    "critic.balanced_accuracy",
    "loop.boards_5",
    "loop_terse.gap_closed",
    "closed_loop.gap",
)
"""The numbers that matter most; the table shows them in bold."""


class BenchReport(BaseModel):
    """What was measured of which models, on which episodes.

    `values` maps PART.MEASURE to a value with its interval over episodes; `first` is the first seed, `look`
    and `camera` say how the scenes were seen (`variety.View`).
    """

    model_config = ConfigDict(frozen=True)

    models: dict[str, Any]
    split: str
    first: int
    episodes: int
    look: str = "plain"
    camera: str = "front"
    values: dict[str, Measured]

    def as_json(self) -> str:
        """Write one line: models, split, first, episodes, look, camera, and every measure as KEY, KEY_low and
        KEY_high."""
        flat = self.model_dump(exclude={"values"})
        for key, value in self.values.items():
            flat |= {key: value.value, f"{key}_low": value.low, f"{key}_high": value.high}
        return json.dumps(flat)

    def table(self) -> Table:
        """Make a table of every measure that has a value."""
        table = Table("measure", "value", "95 % interval", box=None, title=self._title())
        for key, m in self.values.items():
            if m.value is None:
                continue
            interval = "" if m.low is None or m.high is None else f"{m.low:.3f} - {m.high:.3f}"
            table.add_row(key, f"{m.value:.3f}", interval, style="bold" if key in HEADLINES else None)
        return table

    def _title(self) -> str:
        seen = (
            "" if (self.look, self.camera) == ("plain", "front") else f", {self.look}, {self.camera} camera"
        )
        return f"{self.episodes} episodes of the {self.split} split, from seed {self.first}{seen}"
