"""Copy records and corrections of annotated datasets to a dataset that lerobot's tools made from them.

Those tools (delete, split, merge, remove a feature) renumber the episodes and drop meta/goalreel. An episode
is known again by its numbers: timestamps, and state and action where all datasets have them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalreel.datasets.episode import Episode
from goalreel.datasets.hub import local_folder
from goalreel.datasets.info_file import check_links
from goalreel.datasets.records import FOLDER, LOCAL, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.files import digest, exclusive, link_or_copy, read_json, sweep, write_bytes
from goalreel.types import ROLES

_CARRIED_OVER = "adopted"
"""Stands for the fingerprint in settings.json: no run goes on in such a dataset."""
_FRAME = re.compile(r'"frame:([^"#]+)#\d+"')


@dataclass(frozen=True)
class CarryOver:
    """The episodes of the edited dataset with and without a record."""

    recorded: int
    """Episodes that have their record again."""
    unrecorded: tuple[int, ...]
    """Episodes that had none."""


type _Origin = tuple[Records, int]
"""An episode of an annotated dataset."""
type _Pair = tuple[Episode, _Origin]
"""An episode of the edited dataset, and where it comes from."""


def carry_over(edited: Path, outs: Sequence[Path]) -> CarryOver:
    """Give the dataset `edited` the records of the annotated datasets `outs` that it was made from.

    Run again after a kill, it ends the same. What was corrected in `edited` since then stays.

    Raises:
        DatasetError: an episode of `edited` is in none of `outs`, or could be several, or was corrected in
            both; `edited` has other records, or lacks a camera that a record shows; or the disk is full.
    """
    # One on the Hub gets a folder of its own: the cache is not written to.
    target, sources = Source.open(local_folder(edited, own=True)), [Source.open(out) for out in outs]
    for source in sources:
        if not (source.root / FOLDER).is_dir():
            raise DatasetError(f"{source.root}: has no records: name what goalreel annotate wrote")
        check_links(source.root / FOLDER)
    names = [role for role in ("state", "action") if _is_shared(role, (target, *sources))]
    origins: defaultdict[str, list[_Origin]] = defaultdict(list)
    done: dict[Path, set[int]] = {}
    for source in sources:
        records = Records(source.root / FOLDER)
        done[records.folder] = records.done()
        for index in source.indices:
            origins[_key(source.episode(index), names)].append((records, index))
    targets: defaultdict[str, list[Episode]] = defaultdict(list)
    for episode in map(target.episode, target.indices):
        targets[_key(episode, names)].append(episode)
    pairs = [p for key, episodes in targets.items() for p in _paired(target.root, episodes, origins[key])]
    recorded = [(e, origin) for e, origin in pairs if origin[1] in done[origin[0].folder]]
    _check_cameras(target, recorded)
    with exclusive(target.root / LOCAL, target.root):
        sweep(target.root / FOLDER)
        _write(target.root, [source.root for source in sources], recorded)
    without = {e.index for e, _ in pairs} - {e.index for e, _ in recorded}
    return CarryOver(len(recorded), tuple(sorted(without)))


def _is_shared(role: str, sources: Sequence[Source]) -> bool:
    """Tell if all datasets have a state, or an action, in the same features."""
    features = {getattr(source.numbers, role) for source in sources}
    return len(features) == 1 and features != {()}


def _key(episode: Episode, names: Sequence[str]) -> str:
    """Digest of an episode's recorded numbers, which identify it whatever its index and its file."""
    numbers = {"state": episode.state, "action": episode.action}
    return digest(episode.timestamps.tobytes(), *(numbers[name].tobytes() for name in names))


def _paired(edited: Path, episodes: Sequence[Episode], origins: Sequence[_Origin]) -> list[_Pair]:
    """Pair each of `episodes` with one of `origins`; all of them have the same numbers."""
    if not origins:
        raise DatasetError(
            f"{edited}: episode {episodes[0].index} is in no dataset that --from names: "
            "name all datasets that it was made from"
        )
    digests = {r.digest(index) if r.path(index).is_file() else "" for r, index in origins}
    if len(digests) == 1:
        return [(episode, origins[0]) for episode in episodes]
    if len(origins) == len(episodes):  # lerobot's tools keep the order
        return list(zip(episodes, origins, strict=True))
    raise DatasetError(
        f"{edited}: episode {episodes[0].index} has the same data as {len(origins)} episodes, "
        "whose records differ: name only the dataset that it comes from"
    )


def _check_cameras(target: Source, recorded: Sequence[_Pair]) -> None:
    for episode, (records, index) in recorded:
        paths = (records.path(index), records.corrections(index).path)
        texts = (p.read_text(encoding="utf-8") for p in paths if p.is_file())
        cameras = {camera for text in texts for camera in _FRAME.findall(text)}
        if missing := sorted(cameras - set(target.features)):
            raise DatasetError(
                f"{target.root}: has no camera {missing[0]}, "
                f"which the record of episode {episode.index} shows: keep it"
            )


def _write(edited: Path, outs: Sequence[Path], recorded: Sequence[_Pair]) -> None:
    """Write the settings first, by which a later call recognises what a killed one left."""
    records = Records(edited / FOLDER)
    settings = records.folder / "settings.json"
    if (settings.is_file() or records.recorded()) and _read(settings).get("source") != _CARRIED_OVER:
        raise DatasetError(f"{edited}: has records already: nothing to carry over")
    stored = [_read(out / FOLDER / "settings.json") for out in outs]
    merged = {
        **stored[0],
        "settings": _joined([s.get("settings", {}) for s in stored]),
        "source": _CARRIED_OVER,
    }
    write_bytes(settings, json.dumps(merged, indent=2, sort_keys=True).encode() + b"\n")
    for episode, (origin, index) in recorded:
        # First: who reviews them may add a picture meanwhile.
        corrected = origin.is_corrected(index)
        log = origin.corrections(index).path.read_bytes() if corrected else b""
        theirs = records.corrections(episode.index).path
        own = theirs.read_bytes() if theirs.is_file() else b""
        if own != log and own.startswith(log):
            continue
        if not log.startswith(own):
            raise DatasetError(
                f"{edited}: episode {episode.index} was corrected here and in {origin.folder.parents[1]}: "
                "edit the dataset anew with lerobot, and carry over to that"
            )
        for picture in sorted(origin.pictures(index)):
            link_or_copy(origin.folder / picture, records.folder / picture)
        record = read_json(origin.path(index))
        record["task"]["id"] = episode.id
        text = json.dumps(record, indent=1, ensure_ascii=False)
        write_bytes(records.path(episode.index), text.encode() + b"\n")
        if corrected:
            write_bytes(theirs, log)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(read_json(path))
    except (OSError, ValueError, TypeError) as e:
        raise DatasetError(f"{path}: cannot be read ({type(e).__name__}): copy the dataset again") from e


def _joined(settings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join settings: those on which all agree, and all names of the models."""
    first = settings[0]
    agreed = {k: v for k, v in first.items() if all(k in s and s[k] == v for s in settings)}
    models = {r: dict.fromkeys(str(s[r]) for s in settings if r in s) for r in ROLES}
    return agreed | {role: ", ".join(names) for role, names in models.items() if names}
