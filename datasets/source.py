"""A LeRobot v3.0 dataset on disk, read without lerobot or torch, episode by episode.

Nothing is ever written; timestamps are those of the parquet, never recomputed. Layout and names follow
`lerobot.datasets` 0.6: `meta/info.json`, `meta/tasks.parquet`, `meta/episodes/**`, `data/**`, `videos/**`.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.concurrency import map_threaded
from goalreel.datasets import hub, labels
from goalreel.datasets.episode import Episode, EpisodeRows
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.info_file import NumberFeatures, find_numbers, read_info, stored
from goalreel.errors import DatasetError
from goalreel.planners.kinematic.layout import Confidence, Finding

EPISODES, FRAMES = 3, 4
"""The first episodes, so that a dataset that grows keeps its camera; frames of each, first to last."""
_MOVING, _ALIKE = 0.6, 1.5
"""A camera moves if more than this share of its edges is elsewhere, or so many times that of the stillest."""
_PARTS, _SOME, _EVERYWHERE = 4, 0.02, 0.7
"""Rows and columns of parts of a picture, the share of a part that stays as edges, and of the parts that do:
the gripper that a wrist camera shows fills 0.6 at most, and a still scene but for plain tables 0.75 to 1."""
_SHOWS = 0.01
"""A camera below this share is covered, frozen or looks away from the work; 0.04 is the least of others."""


@dataclass(frozen=True, eq=False)
class Source:
    """The dataset's metadata; `episode(i)` reads one episode.

    Raises (from `open` and `episode`):
        DatasetError: one line naming the file and the episode.
    """

    root: Path
    info: dict[str, Any]
    rows: EpisodeRows
    tasks: dict[int, str]

    @classmethod
    def open(cls, root: Path) -> Self:
        """Read the metadata of the dataset in the folder `root`, or of that name on the Hub, in a cache."""
        root = hub.local_folder(Path(root))
        info = read_info(root)
        rows = EpisodeRows.read(root).located(root)
        return cls(root, info, rows, labels.read_texts(root / "meta" / "tasks.parquet", "task"))

    @property
    def fps(self) -> float:
        return float(self.info["fps"])

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        return self.info["features"]

    @cached_property
    def cameras(self) -> tuple[str, ...]:
        """Colour cameras, in the dataset's order; depth maps are left out."""
        pictures = {k: f for k, f in self.features.items() if f["dtype"] in ("image", "video")}
        notes = {k: f.get("info") or f.get("video_info") or {} for k, f in pictures.items()}
        depth = {k for k, n in notes.items() if n.get("is_depth_map") or n.get("video.is_depth_map")}
        return tuple(name for name in pictures if name not in depth)

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(self.rows.indices.tolist())

    @property
    def lengths(self) -> dict[int, int]:
        """Episode -> frames, as meta/episodes says."""
        return dict(zip(self.indices, self.rows.column("length"), strict=True))

    def camera(self, name: str | None) -> str:
        """The camera called `name`, in full or without `observation.images.`.

        None picks the first one that is not on the wrist.
        """
        if not self.cameras:
            raise DatasetError(f"{self.root}: no camera, so there is nothing to show as a goal")
        if name is None:
            fixed = [c for c in self.cameras if not on_wrist(c) and "subgoal" not in c]
            return (fixed or list(self.cameras))[0]
        for camera in self.cameras:
            if name in (camera, camera.removeprefix("observation.images.")):
                return camera
        raise DatasetError(f"{self.root}: no camera {name!r}; it has {', '.join(self.cameras)}")

    def picture_size(self, camera: str, episodes: Sequence[int] = ()) -> tuple[int, int]:
        """(width, height) of the first picture that can be read, of the first ten episodes or of `episodes`.

        Where none can be read, it is what info.json says, which may be wrong.
        """
        for index in dict.fromkeys((*self.indices[:10], *episodes[:10])):
            try:
                return self.episode(index).frames(camera, [0])[0].size
            except DatasetError:
                continue
        return declared_size(self.features[camera])

    def views(self, camera: str) -> tuple[str, ...]:
        """The cameras that show an episode: `camera`, then those on a wrist, then the others."""
        others = [c for c in self.cameras if c != camera and "subgoal" not in c]
        return (camera, *sorted(others, key=lambda c: not on_wrist(c)))

    def fingerprint(self) -> Fingerprint:
        """Name this dataset and each of its episodes."""
        return Fingerprint.of(self.root, self.info, self.rows, self.tasks)

    def check_data(self, episodes: Collection[int] | None = None) -> None:
        """Find the data files of the episodes (None: all); raises DatasetError where one is missing."""
        missing = self._missing("data", self.info["data_path"])
        for episode in sorted(missing if episodes is None else missing.keys() & set(episodes)):
            path = missing[episode]
            raise DatasetError(f"{self.root}: episode {episode}: {path} is missing: copy the dataset again")

    def missing_files(self) -> dict[int, Path]:
        """Map each episode that is not whole to a file of its rows, or of a camera, that is not there."""
        missing = self._missing("data", self.info["data_path"])
        template = self.info["video_path"]
        for name in (n for n, f in self.features.items() if f["dtype"] == "video" and template):
            missing = self._missing(f"videos/{name}", template, video_key=name) | missing
        return missing

    def _missing(self, prefix: str, template: str, **keys: str) -> dict[int, Path]:
        """Map each episode whose file is not there to that file."""
        paths: dict[object, Path] = {}
        columns = (self.rows.column(f"{prefix}/{name}_index") for name in ("chunk", "file"))
        places = list(zip(*columns, strict=True))
        for at, place in enumerate(places):
            if place not in paths:
                paths[place] = stored(self.root, template, self.rows[at], prefix, **keys)
        gone = {place: path for place, path in paths.items() if not path.is_file()}
        return {e: gone[place] for e, place in zip(self.indices, places, strict=True) if place in gone}

    def data_path(self, index: int) -> Path:
        """The data file that holds an episode's rows."""
        return stored(self.root, self.info["data_path"], self.rows.of(index), "data")

    @cached_property
    def numbers(self) -> NumberFeatures:
        """The features that hold the state and the action."""
        return find_numbers(self.features)

    def read_numbers(self, state: Sequence[str], action: Sequence[str]) -> None:
        """Take these features for state and action, or find them; raises InputError where one is missing."""
        self.__dict__["numbers"] = find_numbers(self.features, state, action)  # where it is cached

    def episode(self, index: int) -> Episode:
        """Read one episode's rows (not its frames) and check them."""
        self.select([index])
        episode = Episode.read(self.root, self.info, self.rows.of(index), self.tasks, self.numbers)
        self._open[episode.id] = episode
        return episode

    def recording(self, id: str) -> Episode:
        """The episode with this id that `episode` returned; raises KeyError where it is no longer in use."""
        return self._open[id]

    def select(self, episodes: Iterable[int] | None) -> list[int]:
        """The episodes wanted, in order and once each; None means all. Raises DatasetError for others."""
        if episodes is None:
            return list(self.indices)
        chosen = sorted(set(episodes))
        exists = np.isin(chosen, self.rows.indices)
        if not exists.all():
            unknown, has = chosen[int(np.argmin(exists))], self.indices
            raise DatasetError(
                f"{self.root}: no episode {unknown}; it has {len(has)} from {has[0]} to {has[-1]}"
            )
        return chosen

    @cached_property
    def _open(self) -> WeakValueDictionary[str, Episode]:
        return WeakValueDictionary()


def declared_size(feature: Mapping[str, Any]) -> tuple[int, int]:
    """(width, height) of a camera by its shape in info.json, whether channels come first or last.

    Raises:
        DatasetError: there is no such shape.
    """
    shape = _shape(feature)
    if len(shape) != 3:
        raise DatasetError(f"no picture can be read, and meta/info.json gives them the shape {shape}")
    name, counts = next(iter(feature.get("names") or ()), None), (1, 3, 4)
    if name in ("channel", "channels") or (shape[0] in counts and shape[-1] not in counts):
        shape = shape[1:] + shape[:1]
    return shape[1], shape[0]


def declares(feature: Mapping[str, Any], size: tuple[int, int]) -> bool:
    """Tell whether info.json gives a camera this (width, height) as lerobot's `dataset_to_policy_features`
    reads it: channels are last where the third name says so, and else first.
    """
    shape, names = _shape(feature), list(feature.get("names") or ())
    edges = shape[:2] if names[2:] and names[2] in ("channel", "channels") else shape[1:]
    return len(names) == 3 and edges == [size[1], size[0]]


def _shape(feature: Mapping[str, Any]) -> list[int]:
    """Shape of a camera in info.json, which lerobot does not look at when it loads pictures."""
    shape = feature.get("shape")
    return shape if isinstance(shape, list) and all(isinstance(size, int) for size in shape) else []


def on_wrist(camera: str) -> bool:
    return any(word in camera for word in ("wrist", "hand", "gripper"))


def find_still_camera(source: Source) -> Finding:
    """Choose the camera of the goal images: one that stands still, by its pictures and then by its name.

    Raises:
        DatasetError: the dataset has no camera.
    """
    preferred = source.camera(None)
    cameras = [preferred, *(c for c in source.views(preferred) if c != preferred)]
    try:
        # Three at once: decoding leaves Python's lock to others.
        shares, kept = zip(*map_threaded(partial(_edges_over_time, source), cameras, 3), strict=True)
    except DatasetError:
        return _finding(preferred, "likely", "by its name: pictures cannot be read")
    lost_text = ", ".join(f"{share:.0%} of {_short(c)}" for c, share in zip(cameras, shares, strict=True))
    reason = f"edges that are elsewhere in other frames: {lost_text}"
    if len(cameras) == 1:
        moves = ", and it moves with the robot" if shares[0] > _MOVING else ""
        return _finding(preferred, "likely", f"the only camera{moves}; {reason}")
    least = min([share for share in shares if share >= _SHOWS] or shares)
    limit = min(_MOVING, _ALIKE * least + 0.02)
    still = next((c for c, share in zip(cameras, shares, strict=True) if least <= share <= limit), None)
    if still is None:
        names = tuple(_short(camera) for camera in cameras)
        reason = f"no camera stands still; {reason}"
        return Finding(field="camera", value=None, confidence="unknown", reason=reason, answers=names)
    is_sure = 2 * least < _MOVING and kept[cameras.index(still)] >= _EVERYWHERE
    return _finding(still, "certain" if is_sure else "likely", reason)


def _edges_over_time(source: Source, camera: str) -> tuple[float, float]:
    """Measure how much a camera's picture changes in a few frames, (shares of edges, of parts).

    The first are the edges that are not there in other frames, the second the parts in which some edges stay.
    A hand that fills the picture, a plain table and other light count little.
    """
    shares: list[float] = []
    parts: list[bool] = []
    for index in source.indices[:EPISODES]:
        episode = source.episode(index)
        indices = sorted({round(at * (len(episode) - 1)) for at in np.linspace(0, 1, FRAMES)})
        edges = [_edges(image.pixels) for image in episode.frames(camera, indices)]
        rows = np.array_split(np.logical_and.reduce(edges), _PARTS)
        parts += [p.mean() >= _SOME for row in rows for p in np.array_split(row, _PARTS, axis=1)]
        for a, b in itertools.combinations(edges, 2):
            fewer, chance = min(a.sum(), b.sum()), max(a.mean(), b.mean())
            if fewer and chance < 1:
                shares.append(min(1.0, float((1 - (a & b).sum() / fewer) / (1 - chance))))
    return float(np.median(shares)) if shares else 0.0, float(np.mean(parts))


def _edges(pixels: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Mark the edges in a small grey picture, 48 pixels high."""
    size = (max(2, round(48 * pixels.shape[1] / pixels.shape[0])), 48)
    grey = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), size, interpolation=cv2.INTER_AREA)
    return np.hypot(*np.gradient(grey.astype(np.float32))) > 6.0


def _finding(camera: str | None, confidence: Confidence, reason: str) -> Finding:
    return Finding(field="camera", value=camera, confidence=confidence, reason=reason)


def _short(camera: str) -> str:
    return camera.removeprefix("observation.images.")
