"""A measurement with its uncertainty."""

import json
from collections.abc import Collection, Mapping

from pydantic import BaseModel, ConfigDict
from rich.table import Table


class Measured(BaseModel):
    """A value with its 95 % interval over episodes; None where there was nothing to measure."""

    model_config = ConfigDict(frozen=True)

    value: float | None
    low: float | None = None
    high: float | None = None


def flattened(report: BaseModel) -> dict[str, object]:
    """A report's fields, a measurement as KEY, KEY_low and KEY_high."""
    flat: dict[str, object] = {}
    for key in type(report).model_fields:
        value = getattr(report, key)
        if isinstance(value, Measured):
            flat |= {key: value.value, f"{key}_low": value.low, f"{key}_high": value.high}
        else:
            flat[key] = value
    return flat


def one_line(told: Mapping[str, object], values: Mapping[str, Measured]) -> str:
    """Write as JSON what was measured and each value, as KEY, KEY_low and KEY_high."""
    flat = dict(told)
    for key, value in values.items():
        flat |= {key: value.value, f"{key}_low": value.low, f"{key}_high": value.high}
    return json.dumps(flat)


def values_table(title: str, values: Mapping[str, Measured], headlines: Collection[str]) -> Table:
    """Make a table of the measurements that have a value, the headlines in bold."""
    table = Table("measure", "value", "95 % interval", box=None, title=title)
    for key, m in values.items():
        if m.value is not None:
            interval = "" if m.low is None or m.high is None else f"{m.low:.3f} - {m.high:.3f}"
            table.add_row(key, f"{m.value:.3f}", interval, style="bold" if key in headlines else None)
    return table
