"""The interface of a kind of row: its columns, encoding and decoding, and what is learned from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from goalreel.chat.conversation import Conversation
from goalreel.image import Image

type Lesson = tuple[Conversation, str]
"""What is asked, and the reply to learn."""
type Column = str | tuple["Column"] | Mapping[str, "Column"]
"""A type by its name at Hugging Face; `image` is a picture; (type,) is a list of it."""

PICTURE = "image"
SUCCESS = "success"
"""The column of a kind of verdicts that says which they are."""


@dataclass(frozen=True)
class RowKind[R]:
    """One kind of row, `R`. Its functions stand at the top of a module: workers find them by name."""

    name: str
    columns: Mapping[str, Column]
    encode: Callable[[R], dict[str, Any]]
    """A row as the value of every column, a picture as an `Image`."""
    decode: Callable[[Mapping[str, Any]], R]
    """The row that `encode` made the values from."""
    json_columns: tuple[str, ...]
    """The columns that ShareGPT JSON keeps, a picture as its path."""
    lesson: Callable[[R], Lesson] | None = None
    """The conversation that is learned from a row; None for rows that are no conversation."""
    messages: Callable[[R], tuple[list[dict[str, str]], list[Image]]] | None = None
    """The turns of a row that has pictures in a reply too, and all pictures in order."""

    @property
    def judged(self) -> bool:
        """Whether a row is a verdict."""
        return SUCCESS in self.columns

    @property
    def pictures(self) -> tuple[str, ...]:
        """The columns that hold a picture."""
        return tuple(name for name, column in self.columns.items() if column == PICTURE)

    @property
    def picture_lists(self) -> tuple[str, ...]:
        """The columns that hold a list of pictures."""
        return tuple(name for name, column in self.columns.items() if column == (PICTURE,))
