"""How far each frame of an episode is, 0-1: a feature of OUT, and the file that lerobot weights samples with.

lerobot's `RABCWeights` (`--sample_weighting.type=rabc`) reads `sarm_progress.parquet` beside data/, which its
reward models write otherwise, and takes NaN for no number.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.datasets.arrow import read_table
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import data_files
from goalreel.datasets.writing.goals import Goals
from goalreel.datasets.writing.stats import QUANTILES, Stats
from goalreel.errors import DatasetError
from goalreel.files import atomic

PROGRESS = "progress"
"""The feature: float32, one number a frame."""
PROGRESS_FILE = Path("sarm_progress.parquet")
"""Where lerobot looks, below the dataset's folder."""
_MARK = "goalreel.progress"
FEATURE: dict[str, Any] = {"dtype": "float32", "shape": [1], "names": None, "info": {_MARK: True}}
_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("index", "episode_index", "frame_index")),
        *((name, pa.float32()) for name in ("progress_sparse", "progress_dense")),
    ],
    {_MARK: "true"},
)


def frame_progress(goals: Goals | None, length: int) -> NDArray[np.float32]:
    """The progress on each frame, (length,); NaN throughout where a step is in doubt or has no place.

    Each step that is done has an equal share, and time divides it. A failed step gains nothing. Failed steps
    at the end stand for one that is still to be done, so such an episode ends below 1.
    """
    spans = goals.spans if goals else ()
    sure = all(span.failed or span.name is not None for span in spans)
    if goals is None or not spans or not sure or len(spans) < len(goals.statuses):
        return np.full(length, np.nan, np.float32)
    share = 1 / (sum(not span.failed for span in spans) + spans[-1].failed)
    frames, values = [0.0], [0.0]
    for span in spans:
        frames += [span.start, min(span.end, length - 1)]
        values += [values[-1], values[-1] + (0.0 if span.failed else share)]
    result = np.interp(np.arange(length), frames, values)
    result[-1] = values[-1]  # also where the last step is one frame long
    return result.clip(0, 1).astype(np.float32)


def progress_stats(values: NDArray[np.float32]) -> Stats:
    """As lerobot stores them, (1,) each; zeros with the count 0 where there is no number."""
    numbers = values[np.isfinite(values)].astype(np.float64)
    count, numbers = len(numbers), numbers if len(numbers) else np.zeros(1)
    stats = {name: np.array([getattr(numbers, name)()]) for name in ("min", "max", "mean", "std")}
    stats |= {f"q{int(q * 100):02d}": np.array([np.quantile(numbers, q)]) for q in QUANTILES}
    return {**stats, "count": np.array([count])}


def has_progress(source: Source) -> bool:
    """Whether an earlier pass of goalreel wrote the feature."""
    return _MARK in (source.features.get(PROGRESS, {}).get("info") or {})


def check_progress(source: Source) -> None:
    """Check that the feature and the file are nobody else's.

    Raises:
        DatasetError: they are the owner's, or another model's.
    """
    path = source.root / PROGRESS_FILE
    what = PROGRESS if PROGRESS in source.features and not has_progress(source) else None
    if what is None and path.is_file() and _MARK.encode() not in (pq.read_schema(path).metadata or {}):
        what = PROGRESS_FILE.name
    if what is not None:
        raise DatasetError(
            f"{source.root}: has a {what} already, which stays: leave progress out of --details"
        )


def write_progress(out: Path) -> None:
    """Write the file from the data files of `out`, which have the feature.

    Raises:
        DatasetError: a data file is not readable; the disk is full.
    """
    names = [*_SCHEMA.names[:3], PROGRESS]
    with atomic(out / PROGRESS_FILE) as tmp, pq.ParquetWriter(tmp, _SCHEMA) as writer:
        for path in data_files(out):
            try:
                columns = [read_table(path, names)[name] for name in (*names, PROGRESS)]
            except pa.ArrowException as e:
                raise DatasetError(f"{path}: {e}, so no {PROGRESS_FILE} can be made") from e
            writer.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA))
