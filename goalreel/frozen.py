"""The base of the types that are read and written as JSON. Apart from `terms`, which load no library."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A pydantic model whose fields cannot be assigned to, and which refuses fields it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")
