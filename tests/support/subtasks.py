"""Sub-task labels, written into a dataset as lerobot 0.4 had them."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def add_subtasks(root: Path, boundaries: Mapping[int, Sequence[int]], names: Sequence[str]) -> None:
    """Label episodes of a dataset with one data file: `boundaries` are the frames between the sub-tasks."""
    (rows,) = root.glob("data/*/*.parquet")
    table = pq.read_table(rows)
    steps = np.full(len(table), -1)
    for episode, frames in boundaries.items():
        places = np.flatnonzero(np.array(table["episode_index"]) == episode)
        for step, (start, end) in enumerate(pairwise([0, *frames, len(places)])):
            steps[places[start:end]] = step
    pq.write_table(table.append_column("subtask_index", pa.array(steps)), rows)
    texts = pa.table({"subtask_index": range(len(names)), "subtask": list(names)})
    pq.write_table(texts, root / "meta/subtasks.parquet")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["subtask_index"] = {"dtype": "int64", "shape": [1], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
