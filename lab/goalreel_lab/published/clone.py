"""The user's clone of a benchmark's repository: its texts are read, none of its code is run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalreel.chat.dialects.source_strings import string_constants
from goalreel.errors import InputError


@dataclass(frozen=True)
class Clone:
    """Where the repository lies, None where the user has not said, and where it is to be had."""

    folder: Path | None
    url: str

    def file(self, name: str) -> Path:
        """Find a file.

        Raises:
            InputError: there is no clone, or it has no such file.
        """
        if self.folder is None:
            raise InputError(
                f"the judge's prompts are in {self.url}: clone it, and give its folder with --clone DIR"
            )
        path = self.folder / name
        if not path.is_file():
            raise InputError(f"{self.folder}: no {name}: give a whole clone of {self.url} with --clone DIR")
        return path

    def text(self, name: str) -> str:
        """Read a text file.

        Raises:
            InputError: there is no clone, or it has no such file, or that is not text.
        """
        path = self.file(name)
        try:
            return path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise InputError(f"{path}: cannot be read as text ({e})") from e

    def constants(self, name: str) -> "Constants":
        """Read the texts that a Python file gives names to.

        Raises:
            InputError: there is no clone, or it has no such file, or that is no Python source.
        """
        path = self.file(name)
        return Constants(path, string_constants(path))


@dataclass(frozen=True)
class Constants:
    """Texts by the names that a Python file gives them."""

    path: Path
    texts: Mapping[str, str]

    def filled(self, name: str, **values: str) -> str:
        """Take one text, with `{key}` replaced by each value; other braces stay.

        Raises:
            InputError: the file has no such text.
        """
        if name not in self.texts:
            raise InputError(f"{self.path}: has no text of the name {name}: a newer or older version?")
        if not values:
            return self.texts[name]
        marks = re.compile(r"\{(" + "|".join(values) + r")\}")
        return marks.sub(lambda mark: values[mark[1]], self.texts[name])
