"""meta/ of a dataset for GR00T: LeRobot v2.1's files, and modality.json, which says what is where."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goalreel.annotator.exports.numbers import FrameNumbers, camera_stats
from goalreel.annotator.exports.parts import parts
from goalreel.datasets.source import Source
from goalreel.datasets.writing.card import CARD, before_goalreel, claim_lines
from goalreel.datasets.writing.copies import dataset_files
from goalreel.datasets.writing.encoder import video_info
from goalreel.datasets.writing.goals import Goals
from goalreel.datasets.writing.plan import FORM
from goalreel.files import copy, write_bytes

DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
_CAMERA = "observation.images."
_ANNOTATION = "annotation."
_OF_V3 = ("data_files_size_in_mb", "video_files_size_in_mb")


class GrootMeta:
    """Collects what meta/ says, episode after episode."""

    def __init__(
        self, source: Source, texts: Mapping[int, str], annotations: Sequence[str], dropped: Collection[str]
    ) -> None:
        """`annotations`: the new columns of task indices; `texts`: what those stand for; `dropped`: features
        without a column.
        """
        self._source = source
        self._texts = dict(source.tasks) | dict(texts)
        self._features = _features(source, annotations, dropped)
        self._numbers = FrameNumbers(self._features)
        self._pictures = camera_stats(source, source.cameras)
        self._claims: list[str] = []
        self._episodes: list[dict[str, Any]] = []
        self._stats: list[dict[str, Any]] = []
        self._chunk = int(source.info.get("chunks_size", 1000))

    def path(self, template: str, episode: int, camera: str = "") -> Path:
        """Name the file of an episode, relative to the dataset."""
        where = {"episode_chunk": episode // self._chunk, "episode_index": episode, "video_key": camera}
        return Path(template.format(**where))

    def add(self, episode: int, table: pa.Table, task: NDArray[np.int64], goals: Goals | None) -> None:
        """Add an episode: its rows as written, the task of each row, and its sub-tasks."""
        spans = () if goals is None else goals.spans
        line = {
            "episode_index": episode,
            "tasks": [self._texts[index] for index in dict.fromkeys(task.tolist())],
            "length": len(table),
            # Read by N1.6's loader as the language "sub_task".
            "sub_tasks": [{"start": s.start, "end": s.end, "text": s.name} for s in spans if s.name],
        }
        self._episodes.append(line)
        self._claims += () if goals is None else goals.claims
        stats = self._pictures.get(episode, {}) | self._numbers.add(table)
        self._stats.append({"episode_index": episode, "stats": stats})

    def write(self, root: Path) -> None:
        """Write the files of meta/ below `root`, where the videos exist already.

        Raises:
            DatasetError: the disk is full.
        """
        meta = root / "meta"
        tasks = ({"task_index": index, "task": text} for index, text in sorted(self._texts.items()))
        _write_lines(meta / "tasks.jsonl", tasks)
        _write_lines(meta / "episodes.jsonl", sorted(self._episodes, key=lambda e: e["episode_index"]))
        _write_lines(meta / "episodes_stats.jsonl", sorted(self._stats, key=lambda e: e["episode_index"]))
        _write(meta / "stats.json", self._numbers.total())
        _write(meta / "modality.json", self._modality())
        _write(meta / "info.json", self._info(root))
        for path in dataset_files(self._source.root):
            if path.parent == self._source.root and path.name != CARD.name:
                copy(path, root / path.name)
        card = self._source.root / CARD
        text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        parts = (before_goalreel(text).strip(), "## Sub-tasks", "\n".join(claim_lines(self._claims)))
        write_bytes(root / CARD, "\n\n".join(filter(None, parts)).encode() + b"\n")

    def _modality(self) -> dict[str, Any]:
        annotations = [name for name in self._features if name.startswith(_ANNOTATION)]
        return {
            "state": self._parts(self._source.numbers.state, "observation.state"),
            "action": self._parts(self._source.numbers.action, "action"),
            "video": {c.removeprefix(_CAMERA): {"original_key": c} for c in self._source.cameras},
            "annotation": {name.removeprefix(_ANNOTATION): {} for name in annotations},
        }

    def _parts(self, names: Sequence[str], usual: str) -> dict[str, dict[str, int | str]]:
        """Name the parts of some features; GR00T looks for them in `usual` where there is no original_key."""
        entries: dict[str, dict[str, int | str]] = {}
        for name in names:
            feature = self._features[name]
            groups = parts(feature.get("names"), feature["shape"][0])
            short_name = name.rpartition(".")[2]
            for part, (start, end) in groups.items():
                key = part if len(names) == 1 else short_name if len(groups) == 1 else f"{short_name}_{part}"
                elsewhere = {} if name == usual else {"original_key": name}
                entries[name if key in entries else key] = {"start": start, "end": end, **elsewhere}
        return entries

    def _info(self, root: Path) -> dict[str, Any]:
        info = {key: value for key, value in self._source.info.items() if key not in _OF_V3}
        episodes = [line["episode_index"] for line in self._episodes]
        for camera in self._source.cameras:
            probed = video_info(root / self.path(VIDEO, min(episodes), camera))
            camera_info = self._source.features[camera].get("info") or {}
            form = {FORM: camera_info[FORM]} if FORM in camera_info else {}
            self._features[camera]["info"] = probed | {"video.fps": info["fps"]} | form
        return info | {
            "codebase_version": "v2.1",
            "total_episodes": len(episodes),
            "total_frames": sum(line["length"] for line in self._episodes),
            "total_tasks": len(self._texts),
            "total_videos": len(episodes) * len(self._source.cameras),
            "total_chunks": len({episode // self._chunk for episode in episodes}),
            "chunks_size": self._chunk,
            "data_path": DATA,
            "video_path": VIDEO,
            "features": self._features,
        }


def _features(
    source: Source, annotations: Sequence[str], dropped: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Describe the features as v2.1 does; GR00T's loader of N1.5 wants `channels` beside `info`."""
    features: dict[str, dict[str, Any]] = {}
    for name, feature in source.features.items():
        if name in source.cameras:
            width, height = source.picture_size(name)
            names = ["height", "width", "channels"]
            features[name] = {"dtype": "video", "shape": [height, width, 3], "names": names}
        elif name not in dropped:
            features[name] = {key: value for key, value in feature.items() if key != "fps"}
    return features | {name: {"dtype": "int64", "shape": [1], "names": None} for name in annotations}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain ASCII: GR00T reads the file in the encoding of its machine."""
    write_bytes(path, json.dumps(content, indent=4).encode())


def _write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    write_bytes(path, "".join(f"{json.dumps(line)}\n" for line in lines).encode())
