"""The folder of one storyboard: its log, which only grows, and its pictures, which never change.

DIR/ID/log.jsonl              one event a line, numbered
DIR/ID/pictures/DIGEST.png    every picture, named after its bytes
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from goalreel.datasets.corrections.files import reference_of, stand_in
from goalreel.errors import DatasetError, InputError, first_line
from goalreel.files import append_lines, whole_lines, write_bytes
from goalreel.image import Image
from goalreel.studio.events import BoardEvent

MAX_LOG_BYTES = 64_000_000
"""Of one log; tens of thousands of events."""
_PICTURE = re.compile(r"[0-9a-f]{64}\.png")


@dataclass
class BoardFolder:
    """One storyboard on disk. `size`: bytes of the log's whole lines."""

    path: Path
    size: int = 0

    def read(self) -> list[BoardEvent]:
        """Read all whole lines; what a kill left of a last one is no line.

        Raises:
            DatasetError: a line is damaged, or there is none.
        """
        log = self.path / "log.jsonl"
        try:
            lines = whole_lines(log.read_bytes())
        except OSError as e:
            raise DatasetError(f"{log}: cannot be read ({e.strerror})") from e
        events = [self._event(number, line) for number, line in enumerate(lines, start=1)]
        if not events:
            raise DatasetError(f"{log}: holds no line")
        self.size = sum(map(len, lines))
        return events

    def append(self, event: BoardEvent) -> None:
        """Write an event onto the disk.

        Raises:
            DatasetError: the log is full, or the disk is.
        """
        line = event.model_dump_json(context={"put_image": reference_of}).encode() + b"\n"
        if self.size + len(line) > MAX_LOG_BYTES:
            raise DatasetError(f"{self.path}: this storyboard has too many changes: begin another one")
        append_lines(self.path / "log.jsonl", line, self.size)
        self.size += len(line)

    def store(self, image: Image) -> str:
        """Write a picture, and return its name.

        Raises:
            DatasetError: the disk is full.
        """
        data = image.png()
        name = f"{hashlib.sha256(data).hexdigest()}.png"
        write_bytes(self.path / "pictures" / name, data)
        return name

    def picture(self, name: str) -> Path:
        """The file of a picture.

        Raises:
            InputError: there is none of that name.
        """
        path = self.path / "pictures" / name
        if _PICTURE.fullmatch(name) is None or not path.is_file():
            raise InputError("this storyboard has no such picture")
        return path

    def load(self, name: str) -> Image:
        """Read a picture.

        Raises:
            InputError: there is none of that name, or it is damaged.
        """
        return Image.decode(self.picture(name).read_bytes())

    def _event(self, number: int, line: bytes) -> BoardEvent:
        get: Callable[[str], Image] = stand_in
        try:
            event = BoardEvent.model_validate_json(line, context={"get_image": get})
            if event.number != number:
                raise ValueError(f"it is number {event.number}")
            return event
        except (ValidationError, ValueError) as e:
            what = first_line(e)
            raise DatasetError(
                f"{self.path / 'log.jsonl'}: line {number} is damaged ({what}): restore the file, or remove "
                "that line and all lines after it"
            ) from e
