"""The sub-task labels that a LeRobot dataset has already: rows of `language_persistent` of style subtask."""

from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from goalreel.errors import DatasetError

type Label = tuple[float, str]
"""Seconds since the episode's start, and the text, which may be empty."""
type Labels = dict[int, tuple[Label, ...]]


def subtask_labels(path: Path) -> Labels:
    """Episode -> its subtask rows in order of time, of one data file; only episodes that have some.

    Raises:
        DatasetError: the file cannot be read.
    """
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except FileNotFoundError as e:
        raise DatasetError(f"{path} is missing: copy the dataset again") from e
    except (pa.ArrowException, OSError) as e:
        message = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise DatasetError(f"{path} is not readable ({message})") from e


@lru_cache(maxsize=2)
def _read(path: Path, mtime_ns: int, size: int) -> Labels:
    """Every frame of an episode has the same rows, so those of its first frame are read."""
    if not {"language_persistent", "frame_index"} <= set(pq.read_schema(path).names):
        return {}
    columns = ["episode_index", "language_persistent"]
    firsts = pq.read_table(path, columns=columns, filters=[("frame_index", "=", 0)])
    found: Labels = {}
    for first in firsts.to_pylist():
        rows = [row for row in first["language_persistent"] or () if row["style"] == "subtask"]
        if rows:
            labels = ((float(row["timestamp"]), row["content"] or "") for row in rows)
            found[first["episode_index"]] = tuple(sorted(labels))
    return found
