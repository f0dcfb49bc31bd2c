"""What a run of the bench found, as a table or as one line of JSON."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from goalreel.annotator.statistics import Measurement, json_line, values_table

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
    values: dict[str, Measurement]

    def as_json(self) -> str:
        """Write one line: models, split, first, episodes, look, camera, and every measure as KEY, KEY_low and
        KEY_high."""
        return json_line(self.model_dump(exclude={"values"}), self.values)

    def table(self) -> Table:
        """Make a table of every measure that has a value."""
        return values_table(self._title(), self.values, HEADLINES)

    def _title(self) -> str:
        view = (
            "" if (self.look, self.camera) == ("plain", "front") else f", {self.look}, {self.camera} camera"
        )
        return f"{self.episodes} episodes of the {self.split} split, from seed {self.first}{view}"
