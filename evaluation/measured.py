"""A measurement with its uncertainty."""

from pydantic import BaseModel, ConfigDict


class Measured(BaseModel):
    """A value with its 95 % interval over episodes; None where there was nothing to measure."""

    model_config = ConfigDict(frozen=True)

    value: float | None
    low: float | None = None
    high: float | None = None
