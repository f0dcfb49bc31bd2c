"""The files of one OUT's records: reading and writing an episode's, with what people corrected in it.

They know nothing of runs, locks and settings: see `goalreel.datasets.records`.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalreel.claims import Makers, attributed, has_unknown, makers
from goalreel.datasets.corrections.files import (
    FRAME,
    corrections_path,
    has_corrections,
    reference_of,
    stand_in,
)
from goalreel.errors import DatasetError
from goalreel.files import digest, write_bytes
from goalreel.image import Image
from goalreel.types import Storyboard

if TYPE_CHECKING:
    from goalreel.datasets.corrections.events import BeginLog
    from goalreel.datasets.corrections.log import CorrectionLog
    from goalreel.datasets.corrections.state import Review

log = logging.getLogger(__name__)
BEFORE = {"subgoal_form": "plain"}
"""What was so before settings told it."""
HEAD_BYTES = 256
"""So much of a record holds the line of its recording."""
RECORDING = re.compile(rb'\{\n "recording": "([0-9a-f-]*)",')
STORED = re.compile(r"images/([0-9a-f]{2})/(\1[0-9a-f]{62})\.png")


@dataclass(frozen=True)
class RecordFiles:
    """Where the records of one OUT lie: OUT/meta/goalreel."""

    folder: Path

    def settings(self) -> dict[str, Any]:
        """What decided the result; empty where the file is gone or damaged."""
        try:
            return BEFORE | json.loads((self.folder / "settings.json").read_bytes())["settings"]
        except (OSError, ValueError, KeyError, TypeError) as e:
            log.warning("%s: the settings cannot be read (%s)", self.folder, type(e).__name__)
            return {}

    @cached_property
    def makers(self) -> Makers:
        """How claims name the models, for records from before they had claims."""
        return makers(self.settings().get)

    def path(self, episode: int) -> Path:
        """Where an episode's record is kept."""
        return self.folder / "episodes" / f"chunk-{episode // 1000:03d}" / f"episode_{episode:06d}.json"

    def store(self, image: Image) -> str:
        """Store a picture that is no frame of the recording; returns its reference either way.

        Raises:
            DatasetError: the disk is full.
        """
        reference, data = reference_and_png(image)
        if data is not None:
            write_bytes(self.folder / reference, data)
        return reference

    def load(self, episode: int, get_frame: Callable[[str], Image]) -> Storyboard:
        """Read a storyboard as people have corrected it; `get_frame("CAMERA#INDEX")` supplies the recording's
        own frames.

        Raises:
            DatasetError: no such record, or a damaged one.
        """

        def get(reference: str) -> Image:
            if reference.startswith(FRAME):
                return get_frame(reference.removeprefix(FRAME))
            return self.image(reference)

        if not self.is_corrected(episode):
            return self._read(episode, get)
        text = _text(self.outline(episode))
        return self._parsed(self.corrections(episode).path, text.encode(), get)

    def outline(self, episode: int) -> Storyboard:
        """The storyboard as people have corrected it, with every picture a 1x1 stand-in whose `frame` is its
        reference; no decoding.

        Raises:
            DatasetError: as `load`, and when a stored picture is gone.
        """
        if not self.is_corrected(episode):
            return self.original(episode)
        from goalreel.datasets.corrections.board import corrected

        return attributed(corrected(self.review(episode)), self.makers)

    def original(self, episode: int) -> Storyboard:
        """As `outline`, without what people have corrected."""
        return self._read(episode, self.stand_in)

    def stand_in(self, reference: str) -> Image:
        """A stored picture, or a frame, without its pixels.

        Raises:
            ValueError: the stored picture is gone.
        """
        if not reference.startswith(FRAME):
            self.stored(reference)
        return stand_in(reference)

    def corrections(self, episode: int) -> "CorrectionLog":
        """The log of what people changed in an episode; there may be none yet."""
        from goalreel.datasets.corrections.log import CorrectionLog

        return CorrectionLog(corrections_path(self.folder, episode))

    def is_corrected(self, episode: int) -> bool:
        """Tell whether a person has said anything of an episode."""
        return has_corrections(corrections_path(self.folder, episode))

    def review(self, episode: int) -> "Review":
        """An episode that a person has said something of, as they have it.

        Raises:
            DatasetError: its log or its record is damaged.
        """
        replay = self.corrections(episode).read(self.stand_in).replay
        return replay.on(self.begin_log(episode, replay.review.length))

    def begin_log(self, episode: int, length: int) -> "BeginLog":
        """The record as it is, for a log to go on from; `length` is the episode's, in frames.

        Raises:
            DatasetError: as `outline`.
        """
        from goalreel.datasets.corrections.events import BeginLog

        return BeginLog(
            record=self.record_digest(episode),
            recording=self.recording(episode),
            length=length,
            board=self.original(episode),
        )

    def recording(self, episode: int) -> str | None:
        """What names the recording that a record tells of (`recording_id`); None where it does not say."""
        with self.path(episode).open("rb") as file:
            match = RECORDING.match(file.read(HEAD_BYTES))
        return match[1].decode() if match else None

    def image(self, reference: str) -> Image:
        """A stored picture, its bytes checked against its name.

        Raises:
            ValueError: no such picture, or a damaged one.
        """
        path = self.stored(reference)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != path.stem:
            raise ValueError(f"{path}: damaged picture")
        return Image.decode(data)

    def pictures(self, episode: int) -> set[str]:
        """The references of the stored pictures that a record or its corrections name, damaged or not."""
        texts = (
            path.read_text(encoding="utf-8", errors="replace")
            for path in (self.path(episode), corrections_path(self.folder, episode))
            if path.is_file()
        )
        return {match.group() for text in texts for match in STORED.finditer(text)}

    def digest(self, episode: int) -> str:
        """SHA-256 of the record's bytes and of what people made of it: pictures are named by content, so they
        are covered.
        """
        record = self.record_digest(episode)
        if not self.is_corrected(episode):
            return record
        text = _text(self.outline(episode))
        return record if text == _text(self.original(episode)) else digest(record, text)

    def record_digest(self, episode: int) -> str:
        """SHA-256 of the record's bytes alone."""
        return digest(self.path(episode).read_bytes())

    def stored(self, reference: str) -> Path:
        """Where a stored picture is.

        Raises:
            ValueError: it is gone, or the reference names none.
        """
        if not STORED.fullmatch(reference):
            raise ValueError(f"{reference!r} names no stored picture")
        path = self.folder / reference
        if not path.is_file():
            raise ValueError(f"{path}: the picture is missing")
        return path

    def _read(self, episode: int, get: Callable[[str], Image]) -> Storyboard:
        path = self.path(episode)
        try:
            data = path.read_bytes()
        except OSError as e:
            raise DatasetError(f"{path}: damaged record ({error_line(e)})") from e
        return self._parsed(path, RECORDING.sub(b"{", data, count=1), get)

    def _parsed(self, path: Path, data: bytes, get: Callable[[str], Image]) -> Storyboard:
        try:
            board = Storyboard.model_validate_json(data, context={"get_image": get})
        except (ValueError, OSError) as e:
            raise DatasetError(
                f"{path}: damaged record ({error_line(e)}): remove this file and annotate the episode again"
            ) from e
        return attributed(board, self.makers) if has_unknown(board) else board


def _text(board: Storyboard) -> str:
    return board.model_dump_json(context={"put_image": reference_of})


def reference_and_png(image: Image) -> tuple[str, bytes | None]:
    """What a record calls a picture, and its PNG; None for a frame of the recording."""
    if image.frame:
        return FRAME + image.frame, None
    data = image.png()
    name = hashlib.sha256(data).hexdigest()
    return f"images/{name[:2]}/{name}.png", data


def error_line(error: Exception) -> str:
    """What went wrong in one line; pydantic puts the place on its second line and the cause on its third."""
    lines = str(error).splitlines() or [type(error).__name__]
    return ": ".join(line.strip() for line in lines[:3])
