"""Ground-truth rows in lerobot's `language_persistent` column, through lerobot's own writer.

lerobot 0.6.1's `LanguageColumnsWriter` lets pyarrow infer the types, so timestamps come out as double and
all-null fields as null, and shards can differ; `declare_types` casts them to what lerobot declares.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from lerobot.annotations.steerable_pipeline.reader import iter_episodes
from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
from lerobot.annotations.steerable_pipeline.writer import LanguageColumnsWriter
from lerobot.datasets.io_utils import write_table_one_row_group_per_episode
from lerobot.datasets.language import (
    LANGUAGE_EVENTS,
    LANGUAGE_PERSISTENT,
    language_events_arrow_type,
    language_feature_info,
    language_persistent_arrow_type,
)

from goalreel.datasets.writing.language import canonical

type Subtask = tuple[str, int]
"""A sub-task's text and its first frame."""


def write_language(root: Path, subtasks: Sequence[Sequence[Subtask]]) -> None:
    """Give episode i of the finished dataset at `root` a `subtask` row a sub-task, and the `plan` rows.

    As lerobot-annotate does, the plan is restated at every boundary as the numbered list still to do.
    """
    records = list(iter_episodes(root))
    with tempfile.TemporaryDirectory() as staging:
        for record in records:
            rows = _rows(subtasks[record.episode_index], record.frame_timestamps)
            EpisodeStaging(Path(staging), record.episode_index).write("plan", rows)
        writer = LanguageColumnsWriter(drop_existing_subtask_index=False)
        for shard in writer.write_all(records, Path(staging), root):
            declare_types(shard)
    info_path = root / "meta" / "info.json"
    info = json.loads(info_path.read_text())
    info["features"] |= language_feature_info()
    info_path.write_text(json.dumps(info, indent=4, ensure_ascii=False))


def _rows(subtasks: Sequence[Subtask], timestamps: Sequence[float]) -> list[dict[str, Any]]:
    rows = []
    for i, (text, start) in enumerate(subtasks):
        todo = "\n".join(f"{n}. {subtask}" for n, (subtask, _) in enumerate(subtasks[i:], 1))
        for style, content in (("plan", todo), ("subtask", text)):
            rows.append(
                {
                    "role": "assistant",
                    "content": content,
                    "style": style,
                    "timestamp": float(timestamps[start]),
                    "camera": None,
                    "tool_calls": None,
                }
            )
    return rows


def declare_types(shard: Path) -> None:
    """Rewrite a shard's language columns with exactly lerobot's declared Arrow types, atomically."""
    table = pq.read_table(shard)
    for name, declared in (
        (LANGUAGE_PERSISTENT, language_persistent_arrow_type()),
        (LANGUAGE_EVENTS, language_events_arrow_type()),
    ):
        index = table.schema.get_field_index(name)
        column = canonical(table.column(index).combine_chunks(), declared)
        table = table.set_column(index, pa.field(name, declared), column)
    temporary = shard.with_suffix(".parquet.tmp")
    write_table_one_row_group_per_episode(table, temporary)
    temporary.replace(shard)
