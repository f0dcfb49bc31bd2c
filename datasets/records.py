"""The durable part of a run: one record an episode in OUT/meta/goalreel, committed atomically.

OUT/.cache/huggingface/goalreel/         (LOCAL)
    lock                                 held while a run writes
    review                               held while a correction is written, or files are dropped
    source                               the folder of the dataset annotated
OUT/meta/goalreel/
    settings.json                        what decided the result; another run must agree
    episodes/chunk-000/episode_000003.json   the storyboard
    images/ab/<sha256>.png               pictures that are no frame of the recording, by content
    examination/run.jsonl                    the critic's answers to control questions (`critics.examiner`)
    corrections/chunk-000/episode_000003.jsonl   what people changed (`goalreel.datasets.corrections`)
    files/data/chunk-000/file-000.parquet.json   what a file of OUT was made from (`datasets.writing.files`)

A record is a storyboard's JSON after a line with the fingerprint of the recording that it tells of. A picture
in it is "frame:CAMERA#INDEX" or "images/ab/<sha256>.png". No clock, no path, no random name enters a record,
so a resumed run leaves the same bytes as an unbroken one.
"""

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict

from pydantic import TypeAdapter
from pydantic_core import from_json

from goalreel.claims import Makers, attributed, makers
from goalreel.critics.examination import FOLDER as EXAMINATION
from goalreel.datasets.corrections import corrections_path, has_corrections, logged_episodes
from goalreel.datasets.fingerprint import Fingerprint, same_frames
from goalreel.datasets.info_file import is_outside
from goalreel.errors import DatasetError, InputError
from goalreel.files import digest, exclusive, file_lock, find, read_file, read_json, sweep, write_bytes
from goalreel.image import FRAME, Image, reference_of, stand_in
from goalreel.planners.kinematic.layout import Finding
from goalreel.types import Storyboard

if TYPE_CHECKING:
    from goalreel.boards.log import EventLog
    from goalreel.datasets.corrections.events import BeginLog, LogEntry
    from goalreel.datasets.corrections.state import Review
    from goalreel.planners.examples.carry import Measurement


log = logging.getLogger(__name__)

FOLDER = Path("meta") / "goalreel"
LOCAL = Path(".cache") / "huggingface" / "goalreel"
"""Folder of this machine alone, and no loss: the lock, answers that are not recorded yet.

Below the one folder that huggingface_hub uploads from nowhere.
"""
FORMAT = 2
_PICTURE = re.compile(rb'"image": "(?!frame:|data:)([^"]*)"|"(images/[0-9a-f]{2}/[0-9a-f]{64}\.png)"')
"""A picture that a record must have stored: what else an image is, and what looks stored, as in a list."""
_RECORDING = re.compile(rb'\{\n "recording": "([0-9a-f-]*)",')
_STORED = re.compile(r"images/([0-9a-f]{2})/(\1[0-9a-f]{62})\.png")


@dataclass(frozen=True)
class Shard:
    """Part `number` of `count`, counted from 1: neighbouring episodes, so that each opens few files."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "2/3"; raises InputError for anything else."""
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(f"--shard takes a number from 1 on and how many there are, as 2/3, not {text!r}")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of[T](self, episodes: Sequence[T]) -> list[T]:
        """Its part of the episodes; all parts together are all of them, none twice."""
        first, last = (len(episodes) * number // self.count for number in (self.number - 1, self.number))
        return list(episodes[first:last])

    @contextmanager
    def lock(self, local: Path, out: Path) -> Iterator[None]:
        """Hold this shard of `out`, whose lock is in `local`.

        Raises DatasetError where it is done elsewhere now, or a run without shards or with another number is.
        """
        names, running = local / "shards", "is running: wait for its end"
        whole = f"{out}: a run without --shard, or goalreel build, {running}"
        with (
            file_lock(local / "lock", whole, shared=True),
            file_lock(names / f"{self.number}-of-{self.count}", f"{out}: shard {self} {running}"),
        ):
            for other in find(names, "*-of-*"):
                if (count := other.name.rpartition("-")[2]) != str(self.count):
                    busy = f"{out}: a shard of {count}, not {self.count}, {running}"
                    with file_lock(other, busy, shared=True):
                        pass
            yield


def check_own(out: Path) -> None:
    """Raise DatasetError where `out` holds files other than goalreel's."""
    if out.is_file():
        raise DatasetError(f"{out}: is a file: choose another --out")
    others = (p for p in out.rglob("*") if p.is_file() and not p.is_relative_to(out / LOCAL))
    # Looked for twice: another shard may have made it meanwhile.
    if not (out / FOLDER).is_dir() and any(others) and not (out / FOLDER).is_dir():
        raise DatasetError(f"{out}: holds files that goalreel did not write: choose another --out")


class _Robot(TypedDict):
    layout: str
    findings: list[Finding]


class _Settings(TypedDict, total=False):
    """Settings that records and cards are read with; `annotator.options` checks the others."""

    camera: str | None
    details: str
    layout: str | None
    measured: list[dict[str, Any]]
    notes: list[tuple[str, str]]
    robot: _Robot | None


class _File(TypedDict):
    format: int
    settings: _Settings
    source: str


@dataclass(frozen=True)
class Records:
    """The records of one OUT, in OUT/meta/goalreel; `Records.open` makes them and holds the lock."""

    folder: Path
    source: str = ""
    """Digest of what the episodes of the dataset annotated have in common (`Fingerprint.shared`)."""
    recordings: Mapping[int, str] | None = None
    """Episode -> name of its recording (`fingerprint`); None where the records are only read."""

    @classmethod
    @contextmanager
    def open(
        cls, out: Path, settings: Mapping[str, Any], source: Fingerprint, shard: Shard | None = None
    ) -> Iterator[Self]:
        """Create or resume the records of `out` under an exclusive lock, or that of one `shard`.

        `settings` is JSON: everything that decides the result, and nothing else (so not which episodes,
        nor how many workers). The kernel drops the lock with the process, however that ends.

        Raises:
            DatasetError: `out` is in use, was made with other settings or from another dataset, or holds
                files that goalreel did not write.
        """
        out = Path(out)
        folder, local = out / FOLDER, out / LOCAL
        check_own(out)
        with exclusive(local, out) if shard is None else shard.lock(local, out):
            records = cls(folder, source.shared, source.episodes)
            if shard is None:
                shutil.rmtree(local / "shards", ignore_errors=True)
                sweep(folder)
            # One after the other: of two shards that begin at once, the second agrees with the first.
            with file_lock(local / "shards" / "settings", "", wait=True) if shard else nullcontext():
                records._agree(settings, out)
            yield records

    def _agree(self, settings: Mapping[str, Any], out: Path) -> None:
        """Write settings.json, or hold this run to the one that is there."""
        path, other = self.folder / "settings.json", f"{out}: made from another dataset: choose another --out"
        text = json.dumps({"format": FORMAT, "settings": dict(settings), "source": self.source})
        new: dict[str, Any] = json.loads(text)
        recorded = self.recorded()
        if recorded and not any(map(self.is_of_recording, sorted(recorded))):
            raise DatasetError(other)
        if path.is_file():
            try:
                old = self._stored()
            except ValueError as e:
                raise DatasetError(f"{path}: damaged: remove {out} and annotate again") from e
            if old["source"] != self.source:
                raise DatasetError(other)
            was, now = ({**each["settings"], "format": each["format"]} for each in (old, new))
            # Reasons for reading the robot so, and what is measured, may change with the episodes.
            robots = [each.pop("robot", None) or {} for each in (was, now)]
            before, measured = was.pop("measured", ()), now.pop("measured", ())
            if all(robots):
                was["--layout as read"], now["--layout as read"] = (robot["layout"] for robot in robots)
            if changed := sorted(k for k in now | was if now.get(k) != was.get(k)):
                what = ", ".join(f"{k} was {was.get(k)!r} and is now {now.get(k)!r}" for k in changed)
                raise DatasetError(
                    f"{out}: annotated with other settings ({what}): keep them or choose another --out"
                )
            texts = {one["instruction"] for one in measured}
            if kept := [one for one in before if one["instruction"] not in texts]:
                new["settings"]["measured"] = [*kept, *measured]
        write_bytes(path, json.dumps(new, indent=2, sort_keys=True).encode() + b"\n")

    @property
    def _local(self) -> Path:
        return self.folder.parent.parent / LOCAL

    @property
    def answers(self) -> Path:
        """Folder of models' answers until their episodes are recorded."""
        return self._local / "answers"

    @property
    def examination(self) -> Path:
        """Folder of the critic's answers to control questions."""
        return self.folder / EXAMINATION

    @contextmanager
    def reviewing(self) -> Iterator[None]:
        """Hold what one process at a time writes corrections under, or drops what is in nobody's use."""
        with file_lock(self._local / "review", "", wait=True):
            yield

    def remember(self, source_root: Path) -> None:
        """Keep, on this machine alone, which dataset is annotated."""
        write_bytes(self._local / "source", os.fsencode(source_root.resolve()))

    def source_root(self) -> Path | None:
        """The dataset annotated; None where nothing tells, as on another machine."""
        try:
            return Path(os.fsdecode(read_file(self._local / "source")))
        except OSError:
            return None

    def recorded(self) -> set[int]:
        """Episodes with a record, whole or not."""
        paths = find(self.folder / "episodes", "chunk-*/episode_*.json")
        numbers = (path.stem.removeprefix("episode_") for path in paths)
        return {int(number) for number in numbers if number.isdecimal()}

    def done(
        self, among: Collection[int] | None = None, *, corrected: bool = False, reported: Collection[int] = ()
    ) -> set[int]:
        """Episodes, or those `among` them, with a whole record of the recording, and its words, as it is now.

        Any other record is reported, but for those that were `reported` before. Whole is a JSON object whose
        pictures are all there. With `corrected`, an episode whose words alone have changed counts too where a
        person has corrected its steps: these stay. Each record is read, so the answer is to be passed on.
        """
        episodes, recorded = set(), self.recorded()
        for episode in sorted(recorded if among is None else recorded.intersection(among)):
            fault = self._fault(episode, corrected)
            if fault is None:
                episodes.add(episode)
            elif episode not in reported:
                log.warning("%s", fault)
        return episodes

    def _fault(self, episode: int, corrected: bool) -> str | None:
        """Say why a record does not count; None where it does. It takes a tenth of `original`'s time."""
        path = self.path(episode)
        try:
            data = read_file(path)
            if not isinstance(from_json(data, cache_strings="none"), dict):
                raise ValueError("not a JSON object")
            for match in _PICTURE.finditer(data):
                self.stored((match[1] or match[2]).decode())
        except (ValueError, OSError) as e:
            return f"{path}: damaged record ({_error_line(e)}); the episode will be annotated again"
        if not self.outdated(episode):
            return None
        is_same = self.is_of_recording(episode)
        changed = f"{path}: its {'instruction or labels have' if is_same else 'recording has'}"
        if corrected and is_same and self.is_corrected(episode) and self.review(episode).corrected:
            log.warning("%s changed; the steps that a person corrected are kept", changed)
            return None
        return f"{changed} changed: goalreel annotate makes it anew"

    def outdated(self, episode: int) -> bool:
        """Tell whether a record tells of another recording, or of other words, than the dataset now has."""
        if self.recordings is None or (known := self.recording(episode)) is None:
            return False
        return known != self.recordings.get(episode)

    def is_of_recording(self, episode: int) -> bool:
        """Tell whether an episode's record tells of the recording that the dataset now has."""
        if self.recordings is None or (known := self.recording(episode)) is None:
            return True
        return same_frames(known, self.recordings.get(episode))

    def commit(self, episode: int, storyboard: Storyboard) -> None:
        """Store an episode's storyboard, pictures first: the record appears only when all of it is there."""
        pictures: dict[str, bytes] = {}

        def put(image: Image) -> str:
            if image.frame:
                return FRAME + image.frame
            data = image.png()
            name = hashlib.sha256(data).hexdigest()
            reference = f"images/{name[:2]}/{name}.png"
            pictures[reference] = data
            return reference

        text = storyboard.model_dump_json(indent=1, context={"put_image": put})
        if self.recordings is not None:
            text = f'{{\n "recording": "{self.recordings[episode]}",{text.removeprefix("{")}'
        # Not while it is serialized: pydantic would wrap what a full disk raises.
        for reference, data in pictures.items():
            write_bytes(self.folder / reference, data)
        write_bytes(self.path(episode), text.encode() + b"\n")

    def drop_unused_images(self) -> None:
        """Remove the pictures that no record and no correction names any more."""
        used = set[str]().union(*map(self.pictures, self.recorded()))
        # Only a run writes records, and this is it; logs are written meanwhile.
        with self.reviewing():
            used = used.union(*map(self.pictures, logged_episodes(self.folder)))
            for path in find(self.folder / "images", "*/*.png"):
                if path.relative_to(self.folder).as_posix() not in used:
                    path.unlink()

    def settings(self) -> dict[str, Any]:
        """Settings that decided the result; empty where the file is gone or damaged."""
        try:
            return self._stored()["settings"]
        except (OSError, ValueError) as e:
            log.warning("%s: the settings cannot be read (%s)", self.folder, type(e).__name__)
            return {}

    def _stored(self) -> dict[str, Any]:
        """Read settings.json. Raises ValueError where it is damaged, OSError where it is gone."""
        content = read_json(self.folder / "settings.json")
        TypeAdapter(_File).validate_python(content)
        return content

    @property
    def measured(self) -> "list[Measurement]":
        """Boundaries of labelled episodes that were found again, of each instruction; empty without any."""
        from goalreel.planners.examples.carry import Measurement

        return [Measurement(**one) for one in self.settings().get("measured", ())]

    @cached_property
    def makers(self) -> Makers:
        """Names of the models, for claims of records from before they had claims."""
        return makers(self.settings().get)

    def path(self, episode: int) -> Path:
        """Path of an episode's record."""
        return self.folder / "episodes" / f"chunk-{episode // 1000:03d}" / f"episode_{episode:06d}.json"

    def load(self, episode: int, get_frame: Callable[[str], Image]) -> Storyboard:
        """Read a storyboard as people have corrected it; `get_frame("CAMERA#INDEX")` gives its frames.

        Raises:
            DatasetError: no such record, or a damaged one.
        """

        def get(reference: str) -> Image:
            is_frame = reference.startswith(FRAME)
            return get_frame(reference.removeprefix(FRAME)) if is_frame else self.image(reference)

        if not self.is_corrected(episode):
            return self._parsed(self.path(episode), None, get)
        return self._parsed(self.corrections(episode).path, _text(self.outline(episode)), get)

    def outline(self, episode: int) -> Storyboard:
        """The storyboard as people have corrected it; every picture is a 1x1 stand-in with its reference.

        Raises DatasetError as `load`, and where a stored picture is gone.
        """
        if not self.is_corrected(episode):
            return self.original(episode)
        from goalreel.datasets.corrections.board import corrected

        return attributed(corrected(self.review(episode)), self.makers)

    def original(self, episode: int) -> Storyboard:
        """The same as `outline`, without what people have corrected."""
        return self._parsed(self.path(episode), None, self.stand_in)

    def stand_in(self, reference: str) -> Image:
        """A stored picture, or a frame, without its pixels; raises ValueError where it is gone."""
        if not reference.startswith(FRAME):
            self.stored(reference)
        return stand_in(reference)

    def corrections(self, episode: int) -> "EventLog[LogEntry, Review]":
        """The log of what people changed in an episode; there may be none yet.

        Raises DatasetError where it is a link out of the folder of records.
        """
        from goalreel.boards.log import EventLog
        from goalreel.datasets.corrections.events import LogEntry
        from goalreel.datasets.corrections.state import after

        path = corrections_path(self.folder, episode)
        if is_outside(path, self.folder):
            raise DatasetError(f"{path}: is a link to {path.resolve()}: put a copy in its place")
        return EventLog(path, LogEntry, after, self.stand_in)

    def is_corrected(self, episode: int) -> bool:
        """Tell whether a person has said anything of an episode."""
        return has_corrections(corrections_path(self.folder, episode))

    def review(self, episode: int) -> "Review":
        """An episode as a person has it; raises DatasetError where its log or its record is damaged."""
        review = self.corrections(episode).read().replay.state
        return review.on_record(self.begin_log(episode, review.length))

    def begin_log(self, episode: int, length: int) -> "BeginLog":
        """The record as it is, for a log to go on from; `length` is the episode's, in frames."""
        from goalreel.datasets.corrections.events import BeginLog

        return BeginLog(
            record=digest(read_file(self.path(episode))),
            recording=self.recording(episode),
            length=length,
            board=self.original(episode),
        )

    def recording(self, episode: int) -> str | None:
        """Name of the recording that a record tells of (`fingerprint`); None where it does not say."""
        match = _RECORDING.match(read_file(self.path(episode)))
        return match[1].decode() if match else None

    def image(self, reference: str) -> Image:
        """A stored picture. Raises as `png`."""
        return Image.decode(self.png(reference))

    def png(self, reference: str) -> bytes:
        """The file of a stored picture, checked against its name: a link may lead to any other.

        Raises ValueError where there is no such picture, or a damaged one.
        """
        path = self.stored(reference)
        data = read_file(path)
        if hashlib.sha256(data).hexdigest() != path.stem:
            raise ValueError(f"{path}: damaged picture")
        return data

    def pictures(self, episode: int) -> set[str]:
        """The references of the stored pictures that a record or its corrections name, damaged or not."""
        paths = (self.path(episode), corrections_path(self.folder, episode))
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())
        return {match.group() for text in texts for match in _STORED.finditer(text)}

    def digest(self, episode: int) -> str:
        """SHA-256 of the record, in which pictures are named by content, and of what people made of it."""
        record = digest(read_file(self.path(episode)))
        if not self.is_corrected(episode):
            return record
        text = _text(self.outline(episode))
        return record if text == _text(self.original(episode)) else digest(record, text)

    def stored(self, reference: str) -> Path:
        """Path of a stored picture; raises ValueError where it is gone, or the reference names none."""
        if not _STORED.fullmatch(reference):
            raise ValueError(f"{reference!r} names no stored picture")
        path = self.folder / reference
        if not path.is_file():
            raise ValueError(f"{path}: the picture is missing")
        return path

    def _parsed(self, path: Path, text: str | None, get: Callable[[str], Image]) -> Storyboard:
        """Read a storyboard from `text`, or from the record at `path`."""
        try:
            data = _RECORDING.sub(b"{", read_file(path), count=1) if text is None else text
            board = Storyboard.model_validate_json(data, context={"get_image": get})
        except (ValueError, OSError) as e:
            raise DatasetError(
                f"{path}: damaged record ({_error_line(e)}): remove this file and annotate the episode again"
            ) from e
        return attributed(board, self.makers)


def _text(board: Storyboard) -> str:
    return board.model_dump_json(context={"put_image": reference_of})


def _error_line(error: Exception) -> str:
    """Message of an error in one line; pydantic puts place and cause on its second and third."""
    lines = str(error).splitlines() or [type(error).__name__]
    return ": ".join(line.strip() for line in lines[:3])
