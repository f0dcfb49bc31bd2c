"""Large LeRobot datasets in seconds: a few episodes that lerobot recorded, repeated, and records of them."""

import itertools
import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from av.packet import Packet
from numpy.typing import NDArray

from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source

BLOCK = 20
"""Episodes that are recorded."""
FRAMES = 16
FPS = 10
SIDE = 64
CAMERA = "observation.images.front"
_FILE = "chunk-{:03d}/file-{:03d}"


def make(root: Path, episodes: int, files: int = 1, block: int = BLOCK) -> Path:
    """Make a dataset of `episodes` episodes in `files` data files and as many videos.

    It repeats the `block` first episodes, which are recorded, each with a number and a place of its own.
    """
    from lerobot.configs.video import RGBEncoderConfig

    with tempfile.TemporaryDirectory(prefix="goalreel-scale-") as work:
        recording = Path(work) / "block"
        encoder = RGBEncoderConfig(vcodec="h264", g=8, crf=23, extra_options={"bf": "0"})
        record(recording, block, rgb_encoder=encoder)
        (root / "meta").mkdir(parents=True)
        shutil.copy(recording / "meta" / "tasks.parquet", root / "meta" / "tasks.parquet")
        shutil.copy(recording / "meta" / "stats.json", root / "meta" / "stats.json")
        info = json.loads((recording / "meta" / "info.json").read_text())
        info |= {"total_episodes": episodes, "total_frames": episodes * FRAMES}
        info["splits"] = {"train": f"0:{episodes}"}
        (root / "meta" / "info.json").write_text(json.dumps(info, indent=4))
        edges = np.linspace(0, episodes, files + 1).astype(int).tolist()
        for file, (first, last) in enumerate(itertools.pairwise(edges)):
            _repeat_data(recording, root, file, first, last)
            _repeat_video(recording, root, file, first, last)
            _repeat_rows(recording, root, file, first, last)
    return root


def fill(root: Path, out: Path, block: int = BLOCK) -> None:
    """Give every episode of `root` the record in `out` of the one that it repeats."""
    source = Source.open(root)
    fingerprints = source.fingerprint().episodes
    records = Records(out / FOLDER, source="")
    texts = [records.path(e).read_text() for e in range(block)]
    for episode in sorted(set(source.indices) - records.recorded()):
        original = episode % block
        text = texts[original].replace(fingerprints[original], fingerprints[episode])
        path = records.path(episode)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(f"episode_{original:06d}", f"episode_{episode:06d}"))


def record(
    root: Path,
    episodes: int,
    frames: int = FRAMES,
    side: int = SIDE,
    cameras: Sequence[str] = (CAMERA,),
    **create: Any,
) -> None:
    """Record episodes of a square that is picked up and put down; the pictures are square, too."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    numbers = {"dtype": "float32", "shape": (4,), "names": ["x", "y", "z", "gripper"]}
    picture = {"dtype": "video", "shape": (side, side, 3), "names": ["height", "width", "channels"]}
    features = {name: dict(numbers) for name in ("observation.state", "action")}
    dataset = LeRobotDataset.create(
        "local/block",
        robot_type="koch_follower",  # its gripper is closed at the low end
        fps=FPS,
        features={camera: dict(picture) for camera in cameras} | features,
        root=root,
        **create,
    )
    cells = np.random.default_rng(0).integers(20, 60, (8, 8, 3), np.uint8)
    size = -(-side // 8)
    ground = cells.repeat(size, 0).repeat(size, 1)[:side, :side]
    for episode in range(episodes):
        for i in range(frames):
            view, at = ground.copy(), 3 * i % (side - 12)
            view[2 * episode : 2 * episode + 12, at : at + 12] = (250, 12 * episode % 256, 20)
            grip = 0.0 if frames // 3 <= i < 2 * frames // 3 else 1.0
            state = np.array([0.1 * i, 0.01 * episode, np.sin(i / 3), grip], np.float32)
            task = f"put the {('red', 'blue')[episode % 2]} block in the bowl"
            views = dict.fromkeys(cameras, view)
            dataset.add_frame({**views, "observation.state": state, "action": state, "task": task})
        dataset.save_episode()
    dataset.finalize()


def _repeat_data(recording: Path, root: Path, file: int, first: int, last: int) -> None:
    """Write one row group an episode, as lerobot does."""
    table = pq.read_table(next((recording / "data").glob("*/*.parquet")))
    block = table.num_rows // FRAMES
    path = root / "data" / (_FILE.format(file // 1000, file % 1000) + ".parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, table.schema, compression="snappy") as writer:
        for episode in range(first, last):
            part = table.slice(episode % block * FRAMES, FRAMES)
            start = episode * FRAMES
            part = _put(part, "episode_index", np.full(FRAMES, episode))
            writer.write_table(_put(part, "index", np.arange(start, start + FRAMES)))


def _repeat_video(recording: Path, root: Path, file: int, first: int, last: int) -> None:
    """Copy the packets of the block over and over, without encoding."""
    template = next((recording / "videos").rglob("*.mp4"))
    path = root / "videos" / CAMERA / (_FILE.format(file // 1000, file % 1000) + ".mp4")
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(av.open(str(template))) as source:
        stream = source.streams.video[0]
        packets = [(bytes(p), p.pts, p.is_keyframe) for p in source.demux(stream) if p.pts is not None]
        unit, time_base = packets[1][1] - packets[0][1], stream.time_base
        assert time_base is not None
        with av.open(str(path), "w", format="mp4") as out:
            copy = out.add_stream_from_template(stream)
            for at, frame in enumerate(range(first * FRAMES, last * FRAMES)):
                data, _, is_keyframe = packets[frame % len(packets)]
                packet = Packet(data)
                packet.pts = packet.dts = at * unit
                packet.duration, packet.is_keyframe = unit, is_keyframe
                packet.stream, packet.time_base = copy, time_base
                out.mux(packet)


def _repeat_rows(recording: Path, root: Path, file: int, first: int, last: int) -> None:
    table = pq.read_table(next((recording / "meta" / "episodes").glob("*/*.parquet")))
    episode = np.arange(first, last)
    rows = table.take(pa.array(episode % table.num_rows))
    start = (episode - first) * FRAMES / FPS
    columns = {
        "episode_index": episode,
        "dataset_from_index": episode * FRAMES,
        "dataset_to_index": (episode + 1) * FRAMES,
        f"videos/{CAMERA}/from_timestamp": start,
        f"videos/{CAMERA}/to_timestamp": start + FRAMES / FPS,
    }
    for part in ("data", f"videos/{CAMERA}"):
        columns[f"{part}/chunk_index"] = np.full(len(episode), file // 1000)
        columns[f"{part}/file_index"] = np.full(len(episode), file % 1000)
    for name, values in columns.items():
        rows = _put(rows, name, values)
    path = root / "meta" / "episodes" / (_FILE.format(file // 1000, file % 1000) + ".parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)


def _put(table: pa.Table, name: str, values: NDArray[Any]) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
