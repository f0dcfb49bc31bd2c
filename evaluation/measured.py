"""A measurement with its uncertainty."""

from pydantic import BaseModel, ConfigDict


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
