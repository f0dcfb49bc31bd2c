"""Faults of LeRobot datasets as they occur in the wild: each changes a copy in place."""

import json
from collections.abc import Callable
from pathlib import Path

import av
import pyarrow as pa
import pyarrow.parquet as pq

FRONT, WRIST = "observation.images.front", "observation.images.wrist"
DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
TASKS = "meta/tasks.parquet"

type Fault = Callable[[Path], object]


def info(change: Callable[[dict], object]) -> Fault:
    """Change info.json."""

    def apply(root: Path) -> None:
        path = root / "meta/info.json"
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return apply


def feature(name: str, **changes: object) -> Fault:
    """Change a feature in info.json, or add it."""
    return info(lambda i: i["features"].setdefault(name, {}).update(changes))


def column(file: str, name: str, change: Callable[[list], list]) -> Fault:
    """Change a column of a parquet file."""

    def apply(root: Path) -> None:
        table = pq.read_table(root / file)
        at = table.column_names.index(name)
        values = pa.array(change(table[name].to_pylist()), table.schema.field(name).type)
        pq.write_table(table.set_column(at, table.schema.field(name), values), root / file)

    return apply


def start(name: str, *values: object) -> Fault:
    """Replace the first values of a column of the data file."""
    return column(DATA, name, lambda old: [*values, *old[len(values) :]])


def table(file: str, change: Callable[[pa.Table], pa.Table]) -> Fault:
    """Change a parquet file."""
    return lambda root: pq.write_table(change(pq.read_table(root / file)), root / file)


def video(camera: str) -> str:
    """The video file of a camera."""
    return f"videos/{camera}/chunk-000/file-000.mp4"


def truncate(file: str, keep: float = 0.6) -> Fault:
    """Keep a file's first part."""

    def apply(root: Path) -> None:
        content = (root / file).read_bytes()
        (root / file).write_bytes(content[: int(keep * len(content))])

    return apply


def damage_rows(file: str, name: str) -> Fault:
    """Overwrite the stored values of a column of a parquet file, whose header stays whole."""

    def apply(root: Path) -> None:
        content = bytearray((root / file).read_bytes())
        group = pq.read_metadata(root / file).row_group(0)
        [column] = [c for i in range(group.num_columns) if (c := group.column(i)).path_in_schema == name]
        start, end = column.data_page_offset, column.data_page_offset + column.total_compressed_size
        content[start + (end - start) // 2 : end] = bytes(end - start - (end - start) // 2)
        (root / file).write_bytes(content)

    return apply


def reshow(file: str, seconds: Callable[[int], float], chosen: Callable[[int], int] = lambda i: i) -> Fault:
    """Encode a video anew with frame `chosen(i)` shown at `seconds(i)`, as long as there are such frames."""

    def apply(root: Path) -> None:
        with av.open(str(root / file)) as source:
            frames = [f.to_ndarray(format="rgb24") for f in source.decode(video=0)]
        with av.open(str(root / file), "w") as out:
            options = {"g": "4", "bf": "0", "crf": "18", "threads": "1"}
            stream = out.add_stream("h264", rate=1000, options=options)
            stream.height, stream.width = frames[0].shape[:2]
            stream.pix_fmt = "yuv420p"
            for i in range(len(frames)):
                if (at := chosen(i)) < len(frames):
                    frame = av.VideoFrame.from_ndarray(frames[at], format="rgb24")
                    frame.pts = round(1000 * seconds(i))
                    out.mux(stream.encode(frame))
            out.mux(stream.encode())

    return apply


def unlink(file: str) -> Fault:
    """Remove a file."""
    return lambda root: (root / file).unlink()


def write(file: str, text: str) -> Fault:
    """Write a file."""
    return lambda root: (root / file).write_text(text)


def both(*faults: Fault) -> Fault:
    """Several faults at once."""
    return lambda root: [fault(root) for fault in faults]
