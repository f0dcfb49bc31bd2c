"""Random LeRobot v3.0 datasets as people have them, written without lerobot: a recipe, and the files."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from goalreel.datasets.labels import language_row
from goalreel.datasets.parquet import array
from goalreel.datasets.writing.language import LANGUAGE_FEATURE, language_types
from goalreel.image import Image

RATES = (5, 10, 15, 24, 30, 50, 29.97)
CODECS = ("h264", "h264", "hevc", "libvpx-vp9", "libaom-av1")
SIZES = ((32, 32), (48, 32), (34, 50), (33, 47), (64, 64))
TASKS = (
    "pick up the red block",
    "USB stick: plug it in",
    "place",
    "把红色方块放进蓝色碗里",
    "Put the cup on the plate, then close the drawer.",
)
CHUNK = 2
"""Files of a folder."""
CLOCKS = ("steady", "offset", "jitter", "drift", "lost")
ODD_CLOCKS = CLOCKS[2:]
"""Those of videos that lerobot reads with pyav alone: torchcodec counts frames at a constant rate."""
SUB_TASKS = ("reach", "grasp the red block", "LED lamp on", "place it")


@dataclass(frozen=True)
class Camera:
    """A camera: how it is stored, and in which of its files each episode is."""

    name: str
    video: bool
    size: tuple[int, int]
    codec: str
    names: tuple[str, ...] | None
    files: tuple[int, ...]
    unused: int
    """Frames before each episode that no episode names, as tools leave that delete without encoding."""


@dataclass(frozen=True)
class Recipe:
    """All that tells a random dataset from another: a failure prints it, and it can be written again."""

    lengths: tuple[int, ...]
    fps: float
    clock: str
    """Of rows and videos alike: `steady`, `offset` where the episodes do not begin at zero, or ODD_CLOCKS."""
    cameras: tuple[Camera, ...]
    data: tuple[int, ...]
    """The number of the data file of each episode."""
    meta: tuple[int, ...]
    state: tuple[str, ...] | None
    """Names of its dimensions, None where only their number is known."""
    keys: tuple[str, str]
    """What the features of the state and the action are called."""
    extras: bool
    """Whether there are a reward, a flag and a text a frame too."""
    tasks: tuple[str, ...]
    task_of: tuple[int, ...]
    rows: tuple[tuple[tuple[int, str, str], ...], ...]
    """Frame, style and text of each language row of an episode; empty without language columns."""
    group: int
    """Rows of a row group; 0 is a group an episode."""
    fixed: bool
    """Whether numbers are stored as lists of a fixed size."""
    named_index: bool

    def clocks(self) -> list[np.ndarray]:
        """The timestamps of each episode's frames, (n,)."""
        first = 0.3 if self.clock == "offset" else 0.0
        frames = [np.arange(n) for n in self.lengths]
        odd = {"jitter": lambda i: 0.3 * (0.618 * i % 1), "drift": lambda i: i / 99, "lost": lambda i: i // 3}
        return [first + (i + odd.get(self.clock, lambda i: 0)(i)) / self.fps for i in frames]


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """Draw what every dataset that lerobot loads may be."""
    lengths = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    episodes = len(lengths)

    def files() -> tuple[int, ...]:
        steps = draw(st.lists(st.sampled_from((0, 0, 1, 2)), min_size=episodes, max_size=episodes))
        return tuple(itertools.accumulate(steps))

    cameras = [
        Camera(
            name=name,
            video=draw(st.sampled_from((True, True, False))),
            size=draw(st.sampled_from(SIZES)),
            codec=draw(st.sampled_from(CODECS)),
            names=draw(st.sampled_from((("height", "width", "channels"), ("height", "width", "channel")))),
            files=files(),
            unused=draw(st.sampled_from((0, 0, 3))),
        )
        for name in draw(st.sampled_from((("front",), ("front", "wrist"), ("wrist", "top", "side"))))
    ]
    names = draw(st.sampled_from((("x", "y", "z", "gripper"), ("joint_1", "joint_2", "gripper.pos"), None)))
    tasks = draw(st.permutations(TASKS))[: draw(st.integers(1, 3))]
    styles, texts = (st.sampled_from(words) for words in (("subtask", "plan", "memory"), SUB_TASKS))
    labels = st.lists(st.tuples(st.integers(0, 8), styles, texts), max_size=4, unique_by=lambda r: r[:2])
    labelled = draw(st.sampled_from((False, False, True)))
    rows = [sorted(r for r in draw(labels) if r[0] < n) for n in lengths] if labelled else []
    return Recipe(
        lengths=lengths,
        fps=draw(st.sampled_from(RATES)),
        clock=draw(st.sampled_from(CLOCKS)),
        cameras=tuple(cameras),
        data=files(),
        meta=files(),
        state=names,
        keys=draw(st.sampled_from((("observation.state", "action"), ("state", "actions")))),
        extras=draw(st.booleans()),
        tasks=tuple(tasks),
        task_of=tuple(draw(st.integers(0, len(tasks) - 1)) for _ in lengths),
        rows=tuple(map(tuple, rows)),
        group=draw(st.sampled_from((0, 7, 1000))),
        fixed=draw(st.booleans()),
        named_index=draw(st.booleans()),
    )


def write(recipe: Recipe, folder: Path) -> Path:
    """Write the dataset below `folder`, and return where it is."""
    root = folder / "data"
    features = _features(recipe)
    places = {f"videos/{_key(c)}": _write_videos(recipe, c, root) for c in recipe.cameras if c.video}
    _write_data(recipe, root, features)
    _write_meta(recipe, root, places)
    info = {
        "codebase_version": "v3.0",
        "robot_type": "koch_follower",
        "total_episodes": len(recipe.lengths),
        "total_frames": sum(recipe.lengths),
        "total_tasks": len(recipe.tasks),
        "chunks_size": CHUNK,
        "fps": recipe.fps,
        "splits": {"train": f"0:{len(recipe.lengths)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if places
        else None,
        "features": features,
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def picture(camera: int, frame: int, size: tuple[int, int]) -> np.ndarray:
    """A picture that tells its frame, of the whole dataset, by a code of bars; the scene stands still."""
    width, height = size
    pixels = np.full((height, width, 3), 40 + 30 * camera, np.uint8)
    pixels[height // 2 :, width // 3 : width // 2] = (200, 60, 30)
    for bit in range(8):
        pixels[: height // 3, bit * width // 8 : (bit + 1) * width // 8] = 230 if frame >> bit & 1 else 10
    return pixels


def _key(camera: Camera) -> str:
    return f"observation.images.{camera.name}"


def _features(recipe: Recipe) -> dict[str, Any]:
    def column(dtype: str, size: int = 1, names: Sequence[str] | None = None) -> dict[str, Any]:
        return {"dtype": dtype, "shape": [size], "names": names and list(names)}

    features = {key: column("float32", len(recipe.state or ()) or 3, recipe.state) for key in recipe.keys}
    features["timestamp"] = column("float32")
    features |= {f"{name}index": column("int64") for name in ("frame_", "episode_", "", "task_")}
    for camera in recipe.cameras:
        width, height = camera.size
        features[_key(camera)] = column("video" if camera.video else "image", names=camera.names)
        features[_key(camera)]["shape"] = [height, width, 3]
    if recipe.extras:
        features |= {"next.reward": column("float32"), "next.done": column("bool"), "note": column("string")}
    return features | (dict.fromkeys(language_types(), LANGUAGE_FEATURE) if recipe.rows else {})


def _file(folder: Path, number: int, suffix: str) -> Path:
    path = folder / f"chunk-{number // CHUNK:03d}" / f"file-{number % CHUNK:03d}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _starts(recipe: Recipe) -> list[int]:
    """The first row of each episode, and the end."""
    return [0, *itertools.accumulate(recipe.lengths)]


def _write_videos(recipe: Recipe, camera: Camera, root: Path) -> list[dict[str, Any]]:
    """Write the files of a camera; returns what meta/episodes says of each episode."""
    number = recipe.cameras.index(camera)
    rows = []
    for file, episodes in itertools.groupby(range(len(recipe.lengths)), camera.files.__getitem__):
        at = 0.0
        times, pictures = list[float](), list[np.ndarray]()
        for episode in episodes:
            times += [at + i / recipe.fps for i in range(camera.unused)]
            pictures += [np.zeros((camera.size[1], camera.size[0], 3), np.uint8)] * camera.unused
            at += camera.unused / recipe.fps
            clock, start = recipe.clocks()[episode], _starts(recipe)[episode]
            times += (at + clock - clock[0]).tolist()
            pictures += [picture(number, start + i, camera.size) for i in range(len(clock))]
            end = at + clock[-1] - clock[0] + 1 / recipe.fps
            spot = {"chunk_index": file // CHUNK, "file_index": file % CHUNK}
            rows.append({**spot, "from_timestamp": at - clock[0], "to_timestamp": end - clock[0]})
            at = end
        _encode(_file(root / "videos" / _key(camera), file, "mp4"), camera, recipe.fps, times, pictures)
    return rows


def _encode(
    path: Path, camera: Camera, fps: float, times: Sequence[float], pictures: Sequence[np.ndarray]
) -> None:
    """Encode pictures shown at `times` (s)."""
    odd = camera.size[0] % 2 or camera.size[1] % 2
    # x265 writes beyond its memory on smaller pictures.
    codec = "h264" if odd or (camera.codec == "hevc" and camera.size != SIZES[-1]) else camera.codec
    unit = Fraction(1, 90_000)
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=Fraction(str(fps)), options=_OPTIONS.get(codec, {}))
        stream.width, stream.height = camera.size
        stream.pix_fmt = "yuv444p" if odd else "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = unit
        for seconds, pixels in zip(times, pictures, strict=True):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = round(seconds / unit), unit
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


_X265 = "keyint=4:bframes=0:log-level=none:pools=none:frame-threads=1"
_OPTIONS = {
    "h264": {"g": "4", "preset": "ultrafast", "qp": "10"},
    "hevc": {"preset": "ultrafast", "x265-params": _X265},
    "libvpx-vp9": {"g": "4", "deadline": "realtime", "cpu-used": "8", "crf": "20"},
    "libaom-av1": {"g": "4", "cpu-used": "8", "usage": "realtime"},
}


def _write_data(recipe: Recipe, root: Path, features: dict[str, Any]) -> None:
    for file, episodes in itertools.groupby(range(len(recipe.lengths)), recipe.data.__getitem__):
        tables = [_rows(recipe, episode, features) for episode in episodes]
        with pq.ParquetWriter(_file(root / "data", file, "parquet"), tables[0].schema) as writer:
            for table in tables if recipe.group == 0 else [pa.concat_tables(tables)]:
                writer.write_table(table, row_group_size=recipe.group or len(table))


def _rows(recipe: Recipe, episode: int, features: dict[str, Any]) -> pa.Table:
    """The rows of an episode: a hand that moves on, closes in its second third, and opens."""
    length, start = recipe.lengths[episode], _starts(recipe)[episode]
    clock = recipe.clocks()[episode]
    frame = np.arange(length)
    dims = len(recipe.state or ()) or 3
    motion = np.sin(np.outer(frame + 3 * episode, 1 / np.arange(3, 3 + dims)))
    motion[:, -1] = np.where((frame >= length // 3) & (frame < 2 * length // 3), 0.0, 1.0)
    kind = pa.list_(pa.float32(), dims) if recipe.fixed else pa.list_(pa.float32())
    columns: dict[str, pa.Array] = {
        key: pa.array(list(values.astype(np.float32)), kind)
        for key, values in zip(recipe.keys, (motion, motion * 0.9), strict=True)
    }
    columns |= {
        "timestamp": pa.array(clock.astype(np.float32)),
        "frame_index": pa.array(frame),
        "episode_index": pa.array(np.full(length, episode)),
        "index": pa.array(start + frame),
        "task_index": pa.array(np.full(length, recipe.task_of[episode])),
        "next.reward": pa.array(frame.astype(np.float32)),
        "next.done": pa.array(frame == length - 1),
        "note": pa.array([f"frame {i}" for i in range(length)]),
    }
    for number, camera in enumerate(recipe.cameras):
        if not camera.video:
            cells = [Image(picture(number, start + i, camera.size)).png() for i in range(length)]
            names = [f"{_key(camera)}-{i}.png" for i in range(length)]
            stored = [{"bytes": cell, "path": name} for cell, name in zip(cells, names, strict=True)]
            columns[_key(camera)] = pa.array(stored, pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    if recipe.rows:
        persistent, events = language_types().values()
        said = [language_row(s, text, clock.astype(np.float32)[at]) for at, s, text in recipe.rows[episode]]
        columns["language_persistent"] = array([said] * length, persistent)
        columns["language_events"] = array([[]] * length, events)
    return pa.table({name: columns[name] for name in features if name in columns})


def _write_meta(recipe: Recipe, root: Path, places: dict[str, list[dict[str, Any]]]) -> None:
    starts = _starts(recipe)
    rows = []
    for episode, length in enumerate(recipe.lengths):
        data, meta = (divmod(file[episode], CHUNK) for file in (recipe.data, recipe.meta))
        row: dict[str, Any] = {"episode_index": episode, "tasks": [recipe.tasks[recipe.task_of[episode]]]}
        row |= {"dataset_from_index": starts[episode], "dataset_to_index": starts[episode + 1]}
        row |= {"length": length, "data/chunk_index": data[0], "data/file_index": data[1]}
        row |= {f"{key}/{name}": value for key, of in places.items() for name, value in of[episode].items()}
        rows.append({**row, "meta/episodes/chunk_index": meta[0], "meta/episodes/file_index": meta[1]})
    for file, episodes in itertools.groupby(range(len(rows)), recipe.meta.__getitem__):
        path = _file(root / "meta/episodes", file, "parquet")
        pq.write_table(pa.Table.from_pylist([rows[e] for e in episodes]), path)
    index = pd.Index(recipe.tasks, name="task" if recipe.named_index else None)
    tasks = pd.DataFrame({"task_index": range(len(recipe.tasks))}, index=index)
    tasks.to_parquet(root / "meta/tasks.parquet")
