"""WGO-Bench as published: one Parquet file, a row an episode, with the bytes of its MP4 file.

huggingface.co/datasets/macrodata/WGO-Bench, CC-BY-NC-SA-4.0: `data/annotations.parquet` has the columns `id`,
`video` (MP4 bytes), `instruction` (may be empty), `segments` (a list of `start_sec`, `end_sec` and `subtask`)
and `metadata` (JSON). Read from the dataset's card and viewer, not from the file itself. So a video may also
be a struct with `bytes`, and segments a JSON string, as other tools hand them out.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as pq
from pydantic import BaseModel, TypeAdapter, ValidationError

from goalreel.errors import InputError
from goalreel.files import digest, write_bytes
from goalreel_lab.videos.recording import VideoRecording

FILE = "annotations.parquet"
WHERE = "hf download macrodata/WGO-Bench --repo-type dataset --local-dir DIR"
COLUMNS = ("id", "video", "instruction", "segments")
NO_INSTRUCTION = "The task is not known: say what is seen."
"""Stands for an empty instruction."""


class WgoSegment(BaseModel):
    """A sub-task that people marked: from `start_sec` to `end_sec` s, and in words."""

    start_sec: float
    end_sec: float
    subtask: str


@dataclass(frozen=True)
class WgoEpisode:
    """One episode with its gold segments, in order of time."""

    recording: VideoRecording
    segments: tuple[WgoSegment, ...]
    digest: str
    """Of the video's bytes."""


def read_wgo(data: Path, videos: Path, limit: int | None = None) -> list[WgoEpisode]:
    """Read the benchmark; its videos are written to `videos`, once.

    Args:
        data: the folder of the download, or the file itself.
        limit: only the first so many episodes.

    Raises:
        InputError: it is not there, or not in the published shape.
    """
    path = next((p for p in (data, data / "data" / FILE, data / FILE) if p.is_file()), None)
    if path is None:
        raise InputError(f"{data}: no {FILE}: {WHERE}")
    episodes: list[WgoEpisode] = []
    for row in _rows(path):
        if limit is not None and len(episodes) == limit:
            break
        episodes.append(_episode(row, path, videos))
    if not episodes:
        raise InputError(f"{path}: holds no episode: {WHERE}")
    if len({episode.recording.id for episode in episodes}) < len(episodes):
        raise InputError(f"{path}: two episodes of one id: {WHERE}")
    return episodes


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Read a row at a time: all videos together are more than a gigabyte."""
    try:
        with pq.ParquetFile(path) as file:
            if missing := [name for name in COLUMNS if name not in file.schema_arrow.names]:
                raise InputError(f"{path}: no column {missing[0]}: not WGO-Bench as published: {WHERE}")
            for batch in file.iter_batches(batch_size=1, columns=list(COLUMNS)):
                yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as e:
        raise InputError(f"{path}: cannot be read as Parquet ({e}): {WHERE}") from e


def _episode(row: Mapping[str, Any], path: Path, videos: Path) -> WgoEpisode:
    name, video = row["id"], row["video"]
    if not isinstance(name, str) or re.fullmatch(r"\w[\w.-]*", name) is None:
        raise InputError(f"{path}: id {name!r} is none of WGO-Bench: {WHERE}")
    video = video.get("bytes") if isinstance(video, dict) else video
    if not isinstance(video, bytes) or b"ftyp" not in video[:64]:
        raise InputError(f"{path}: {name}: its video is no MP4 file: {WHERE}")
    try:
        raw = json.loads(row["segments"]) if isinstance(row["segments"], str) else row["segments"]
        segments = TypeAdapter(tuple[WgoSegment, ...]).validate_python(raw)
    except ValueError as e:
        problem = "not as published" if isinstance(e, ValidationError) else str(e)
        raise InputError(f"{path}: {name}: its segments cannot be read ({problem}): {WHERE}") from e
    if not segments or any(s.end_sec <= s.start_sec for s in segments):
        raise InputError(f"{path}: {name}: it has no segments, or one that ends before it begins: {WHERE}")
    file, key = videos / f"{name}.mp4", digest(video)
    if not file.is_file() or file.stat().st_size != len(video):
        write_bytes(file, video)
    instruction = str(row["instruction"] or "").strip() or NO_INSTRUCTION
    ordered = tuple(sorted(segments, key=lambda s: s.start_sec))
    return WgoEpisode(VideoRecording(name, file, instruction), ordered, key)
