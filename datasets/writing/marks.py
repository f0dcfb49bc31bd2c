"""Marks in OUT/meta/goalreel/files: what each file was made from and what it held, so that it is made once.

They travel with OUT, so a copy of it on another machine is not encoded anew. They hold no time of a file:
copies have other times.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalreel.datasets.records import FOLDER
from goalreel.files import digest, file_digest, write_bytes

MARKS = FOLDER / "files"
_COPIES = "copies.json"
_WHOLE = (".parquet", ".json", ".jsonl")
_BLOCK, _BLOCKS = 1 << 16, 16


def content_digest(path: Path) -> str:
    """SHA-256 of a file; of a large video, of its size and of 16 blocks from all over it.

    Terabytes of videos are not read for this. A video that was encoded anew has another size and index.
    """
    size = path.stat().st_size
    if size <= _BLOCK * _BLOCKS or path.suffix in _WHOLE:
        return file_digest(path)
    blocks = [str(size).encode()]
    with path.open("rb") as file:
        for i in range(_BLOCKS):
            file.seek((size - _BLOCK) * i // (_BLOCKS - 1))
            blocks.append(file.read(_BLOCK))
    return digest(*blocks)


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
        text = json.dumps({"made_from": made_from, "content": content_digest(file), "note": note})
        _write(self.path(file), text)

    def once(self, file: Path, made_from: str, write: Callable[[], None]) -> None:
        """Let `write` make `file` unless it is there and was made from just this."""
        if self.fresh(file, made_from) is None:
            self.drop(file)
            write()
            self.put(file, made_from, {})

    def path(self, file: Path) -> Path:
        """Where the mark of a file of OUT is kept."""
        relative = file.relative_to(self.out)
        return self.out / MARKS / relative.with_name(relative.name + ".json")

    def marked(self) -> Iterator[tuple[Path, str]]:
        """Each marked file of OUT, which may be gone, and the digest of what it held.

        A damaged mark is left out: its file is made anew.
        """
        for path in sorted((self.out / MARKS).glob("*/**/*.json")):
            file = self.out / path.relative_to(self.out / MARKS).with_suffix("")
            try:
                yield file, json.loads(path.read_bytes())["content"]
            except (OSError, ValueError, KeyError, TypeError):
                continue

    def copies(self) -> dict[str, str] | None:
        """File passed on from IN, relative to OUT -> digest; None where nothing tells, as before a build."""
        try:
            return dict(json.loads((self.out / MARKS / _COPIES).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def put_copies(self, digests: Mapping[str, str]) -> None:
        """Note which files were passed on from IN, and what they hold."""
        text = json.dumps(dict(digests), indent=1, sort_keys=True)
        _write(self.out / MARKS / _COPIES, text)


def _write(path: Path, text: str) -> None:
    """Write a mark. The disk is not waited for: a mark that a power cut damages only costs its file anew."""
    write_bytes(path, text.encode() + b"\n", durable=False)
