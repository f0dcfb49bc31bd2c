"""What was understood of one thing in a dataset, how sure that is, and why."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

type Confidence = Literal["given", "certain", "likely", "unknown"]


class Finding(BaseModel):
    """What was understood of one field, how sure it is, and why."""

    model_config = ConfigDict(frozen=True)

    field: str
    """Such as `gripper`, or `left gripper` where there are two."""
    value: str | None
    """As `--layout` writes it; None where there is none, or it is unknown."""
    confidence: Confidence
    reason: str

    def __str__(self) -> str:
        return f"{self.field} {self.value or '-'} ({self.confidence}): {self.reason}"
