"""The ground truth of a recording in lerobot's language columns."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lerobot.datasets.io_utils import write_table_one_row_group_per_episode
from lerobot.datasets.language import language_feature_info
from numpy.typing import NDArray

from goalreel.datasets.writing.language import (
    EVENTS,
    PERSISTENT,
    LanguageRow,
    broadcast,
    language_row,
    language_types,
)

type Subtask = tuple[str, int]
"""A sub-task's text and its first frame."""


def write_language(root: Path, subtasks: Sequence[Sequence[Subtask]]) -> None:
    """Give episode i of the finished dataset at `root` a `subtask` row for each sub-task, and `plan` rows.

    As lerobot-annotate does, the plan is restated at every boundary as the numbered list still to do.
    """
    types = language_types()
    for shard in sorted((root / "data").rglob("*.parquet")):
        table = pq.read_table(shard).replace_schema_metadata(None)
        columns: dict[str, list[pa.Array]] = {PERSISTENT: [], EVENTS: []}
        for episode in table["episode_index"].unique().to_pylist():
            times = table.filter(pc.field("episode_index") == episode)["timestamp"].to_numpy()
            rows = list(_rows(subtasks[episode], times))
            columns[PERSISTENT].append(broadcast(rows, len(times), types[PERSISTENT]))
            columns[EVENTS].append(broadcast([], len(times), types[EVENTS]))
        for name, parts in columns.items():
            table = table.append_column(pa.field(name, types[name]), pa.chunked_array(parts))
        write_table_one_row_group_per_episode(table, shard)
    path = root / "meta" / "info.json"
    info = json.loads(path.read_text())
    info["features"] |= language_feature_info()
    path.write_text(json.dumps(info, indent=4, ensure_ascii=False))


def _rows(subtasks: Sequence[Subtask], times: NDArray[np.float32]) -> Iterator[LanguageRow]:
    for i, (text, start) in enumerate(subtasks):
        todo = "\n".join(f"{n}. {subtask}" for n, (subtask, _) in enumerate(subtasks[i:], 1))
        yield language_row("plan", todo, times[start])
        yield language_row("subtask", text, times[start])
