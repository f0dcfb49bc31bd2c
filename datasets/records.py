"""The durable part of a run: one record an episode in OUT/meta/goalreel, committed atomically.

OUT/.cache/huggingface/goalreel/         (LOCAL)
    lock                                 held while a run writes
    review                               held while a correction is written, or files are dropped
    source                               the folder of the dataset annotated
OUT/meta/goalreel/
    settings.json                        what decided the result; another run must agree
    episodes/chunk-000/episode_000003.json   the storyboard
    images/ab/<sha256>.png               pictures that are no frame of the recording, by content
    corrections/chunk-000/episode_000003.jsonl   what people changed (`goalreel.datasets.corrections`)
    files/data/chunk-000/file-000.parquet.json   what a file of OUT was made from (`datasets.writing.marks`)

A record is a storyboard's JSON after a line with the fingerprint of the recording that it tells of. A picture
in it is "frame:CAMERA#INDEX" or "images/ab/<sha256>.png". No clock, no path, no random name enters a record,
so a resumed run leaves the same bytes as an unbroken one.
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic_core import from_json

from goalreel.datasets.corrections.files import log_episode
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.record_files import BEFORE, RecordFiles, error_line, reference_and_png
from goalreel.datasets.recording_id import same_frames, same_words
from goalreel.datasets.shards import Shard
from goalreel.errors import DatasetError
from goalreel.files import exclusive, file_lock, sweep, write_bytes
from goalreel.image import Image
from goalreel.types import Storyboard

log = logging.getLogger(__name__)

FOLDER = Path("meta") / "goalreel"
LOCAL = Path(".cache") / "huggingface" / "goalreel"
"""Of this machine alone, and no loss: the lock, answers that are not recorded yet.

Below the one folder that huggingface_hub uploads from nowhere.
"""
FORMAT = 2
_PICTURE = re.compile(rb'"image": "(?!frame:|data:)([^"]*)"|"(images/[0-9a-f]{2}/[0-9a-f]{64}\.png)"')
"""A picture that a record must have stored: what else an image is, and what looks stored, as in a list."""


@dataclass(frozen=True)
class Records(RecordFiles):
    """The committed episodes of one OUT. Made by `Records.open`, which holds the lock."""

    source: str
    """What the episodes of the dataset annotated have in common (`Fingerprint.shared`)."""
    recordings: Mapping[int, str] | None = None
    """Episode -> what names its recording (`recording_id`); None where the records are only read."""

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
        if Path(out).is_file():
            raise DatasetError(f"{out}: is a file: choose another --out")
        folder, local = Path(out) / FOLDER, Path(out) / LOCAL
        others = (p for p in Path(out).rglob("*") if p.is_file() and not p.is_relative_to(local))
        # Looked for twice: another shard may have made it meanwhile.
        if not folder.is_dir() and any(others) and not folder.is_dir():
            raise DatasetError(f"{out}: holds files that goalreel did not write: choose another --out")
        with exclusive(local, Path(out)) if shard is None else shard.lock(local, Path(out)):
            records = cls(folder, source.shared, source.episodes)
            if shard is None:
                shutil.rmtree(local / "shards", ignore_errors=True)
                with records.reviewing():  # a picture that is being stored is no leftover
                    sweep(folder)
            # One after the other: of two shards that begin at once, the second agrees with the first.
            with file_lock(local / "shards" / "settings", "", wait=True) if shard else nullcontext():
                _agree(folder / "settings.json", settings, source, Path(out))
                recorded = records.recorded()
                if recorded and not any(map(records.is_of_recording, sorted(recorded))):
                    raise DatasetError(f"{out}: made from another dataset: choose another --out")
                _agree_on_robot(folder / "settings.json", settings, Path(out))
            yield records

    @property
    def _local(self) -> Path:
        return self.folder.parent.parent / LOCAL

    @property
    def answers(self) -> Path:
        """Where models' answers are kept until their episodes are recorded."""
        return self._local / "answers"

    @contextmanager
    def reviewing(self) -> Iterator[None]:
        """Hold what one process at a time writes corrections under, or drops what is in nobody's use.

        A picture is stored before the line that names it: between the two nobody may drop it.

        Raises:
            DatasetError: the disk is full.
        """
        with file_lock(self._local / "review", "", wait=True):
            yield

    def remember(self, source_root: Path) -> None:
        """Keep, on this machine alone, which dataset is annotated.

        Raises:
            DatasetError: the disk is full.
        """
        write_bytes(self._local / "source", os.fsencode(source_root.resolve()))

    def source_root(self) -> Path | None:
        """The dataset annotated; None where nothing tells, as on another machine."""
        try:
            return Path(os.fsdecode((self._local / "source").read_bytes()))
        except OSError:
            return None

    def recorded(self) -> set[int]:
        """Episodes with a record, whole or not."""
        paths = (self.folder / "episodes").glob("chunk-*/episode_*.json")
        numbers = (path.stem.removeprefix("episode_") for path in paths)
        return {int(number) for number in numbers if number.isdecimal()}

    def done(
        self,
        among: Collection[int] | None = None,
        *,
        corrected: bool = False,
        reported: Collection[int] = (),
    ) -> set[int]:
        """Episodes, or those `among` them, with a whole record of the recording, and its words, as it is now.

        Any other record is reported, but for those that were `reported` before. Whole is a JSON object whose
        pictures are all there; whether it is a storyboard shows when it is read. With `corrected`, an episode
        whose words alone have changed counts too where a person has corrected its steps: these stay.
        Each record is read, so the answer is to be passed on.
        """
        episodes, recorded = set(), self.recorded()
        for episode in sorted(recorded if among is None else recorded.intersection(among)):
            try:
                self._check(episode)
            except DatasetError as e:
                if episode not in reported:
                    log.warning("%s; the episode will be annotated again", error_line(e))
                continue
            if self.outdated(episode):
                of_recording = self.is_of_recording(episode)
                what = "instruction or labels have" if of_recording else "recording has"
                text = f"{self.path(episode)}: its {what} changed"
                if corrected and of_recording and self._has_steps_of_person(episode):
                    log.warning("%s; the steps that a person corrected are kept", text)
                else:
                    if episode not in reported:
                        log.warning("%s: goalreel annotate makes it anew", text)
                    continue
            episodes.add(episode)
        return episodes

    def outdated(self, episode: int) -> bool:
        """Tell whether an episode's record tells of another recording, or of other words, than the dataset
        now has.
        """
        return not self._agrees(episode, same_words)

    def is_of_recording(self, episode: int) -> bool:
        """Tell whether an episode's record tells of the recording that the dataset now has."""
        return self._agrees(episode, same_frames)

    def _agrees(self, episode: int, same: Callable[[str | None, str | None], bool]) -> bool:
        recording = None if self.recordings is None else self.recording(episode)
        return recording is None or same(recording, (self.recordings or {}).get(episode))

    def _has_steps_of_person(self, episode: int) -> bool:
        return self.is_corrected(episode) and self.review(episode).corrected

    def commit(self, episode: int, storyboard: Storyboard) -> None:
        """Store an episode's storyboard, pictures first: the record appears only when all of it is there.

        Raises:
            DatasetError: the disk is full.
        """
        pictures: dict[str, bytes] = {}

        def put(image: Image) -> str:
            reference, data = reference_and_png(image)
            if data is not None:
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
        used = {name for episode in self.recorded() for name in self._stored(episode)}
        # Only a run writes records, and this is it; logs are written meanwhile.
        with self.reviewing():
            logged = {log_episode(path) for path in (self.folder / "corrections").glob("chunk-*/*.jsonl")}
            episodes = {episode for episode in logged if episode is not None}
            used |= {name for episode in episodes for name in self._stored(episode)}
            for path in (self.folder / "images").glob("*/*.png"):
                if not re.fullmatch("[0-9a-f]{64}", path.stem) or bytes.fromhex(path.stem) not in used:
                    path.unlink()

    def _stored(self, episode: int) -> Iterator[bytes]:
        """The digests of an episode's stored pictures, half as long as their names."""
        return (bytes.fromhex(Path(picture).stem) for picture in self.pictures(episode))

    def _check(self, episode: int) -> None:
        """As `_read`, for a tenth of its time."""
        path = self.path(episode)
        try:
            data = path.read_bytes()
            if not isinstance(from_json(data, cache_strings="none"), dict):
                raise ValueError("not a JSON object")
            for match in _PICTURE.finditer(data):
                self.stored((match[1] or match[2]).decode())
        except (ValueError, OSError) as e:
            raise DatasetError(f"{path}: damaged record ({error_line(e)})") from e


def _agree(path: Path, settings: Mapping[str, Any], source: Fingerprint, out: Path) -> None:
    """Write settings.json, or hold this run to the one that is there."""
    text = json.dumps(
        {"format": FORMAT, "settings": dict(settings), "source": source.shared}, indent=2, sort_keys=True
    )
    if not path.is_file():
        write_bytes(path, text.encode() + b"\n")
        return
    try:
        content = json.loads(path.read_bytes())
        old, old_source, old_format = dict(content["settings"]), content["source"], content["format"]
    except (ValueError, KeyError, TypeError) as e:
        raise DatasetError(f"{path}: damaged: remove {out} and annotate again") from e
    if old_source != source.shared:
        raise DatasetError(f"{out}: made from another dataset: choose another --out")
    new = BEFORE | json.loads(text)["settings"] | {"format": FORMAT}
    old = BEFORE | old | {"format": old_format, "robot": new.get("robot")}
    if changed := sorted(k for k in new | old if new.get(k) != old.get(k)):
        what = ", ".join(f"{k} was {old.get(k)!r} and is now {new.get(k)!r}" for k in changed)
        raise DatasetError(
            f"{out}: annotated with other settings ({what}): keep them or choose another --out"
        )


def _agree_on_robot(path: Path, settings: Mapping[str, Any], out: Path) -> None:
    """Hold this run to how the robot was read, and note the reasons that all episodes now give."""
    content, robot = json.loads(path.read_bytes()), settings.get("robot")
    previous = content["settings"].get("robot")
    if previous == robot:
        return
    if previous and robot and previous["layout"] != robot["layout"]:
        raise DatasetError(
            f"{out}: annotated with --layout {previous['layout']}, and the episodes now say "
            f"{robot['layout']}: choose another --out"
        )
    content["settings"]["robot"] = robot
    write_bytes(path, json.dumps(content, indent=2, sort_keys=True).encode() + b"\n")
