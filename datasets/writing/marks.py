"""Completion marks in LOCAL/build: what each built file was made from, so that it is made once."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalreel.datasets.records import LOCAL
from goalreel.files import write_bytes


@dataclass(frozen=True)
class FileMarks:
    """Marks of the files of one OUT, one small JSON file each."""

    out: Path

    def fresh(self, file: Path, made_from: str) -> dict[str, Any] | None:
        """The note left with `file` if it is there and was made from just this, else None."""
        if not file.is_file():
            return None
        try:
            mark = json.loads(self.path(file).read_bytes())
            return mark["note"] if mark["made_from"] == made_from else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def drop(self, file: Path) -> None:
        """Remove the mark of `file` before it is written anew: a mark never outlives what it marked."""
        self.path(file).unlink(missing_ok=True)

    def put(self, file: Path, made_from: str, note: dict[str, Any]) -> None:
        """Mark `file` as complete, with what it was made from and a note to give back."""
        text = json.dumps({"made_from": made_from, "note": note})
        write_bytes(self.path(file), text.encode() + b"\n")

    def once(self, file: Path, made_from: str, write: Callable[[], None]) -> None:
        """Let `write` make `file` unless it is there and was made from just this."""
        if self.fresh(file, made_from) is None:
            self.drop(file)
            write()
            self.put(file, made_from, {})

    def path(self, file: Path) -> Path:
        """Where the mark of a file of OUT is kept."""
        relative = file.relative_to(self.out)
        return self.out / LOCAL / "build" / relative.with_name(relative.name + ".json")
