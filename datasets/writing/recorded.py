"""Language rows of a dataset that lerobot has just recorded, put into its files."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lerobot.datasets.io_utils import write_table_one_row_group_per_episode
from lerobot.datasets.language import language_feature_info

from goalreel.datasets.writing.language import (
    EVENTS,
    PERSISTENT,
    canonical,
    language_row,
    language_types,
    spread,
)
from goalreel.datasets.writing.meta import write_json
from goalreel.files import TMP, find, read_json

type RecordedRow = tuple[int, str, str]
"""A row's first frame, its style and its content."""


def put_rows(root: Path, rows: Mapping[int, Sequence[RecordedRow]]) -> None:
    """Give episodes of a finished dataset their persistent rows; those of all others stay.

    Its files are replaced together, once all are written: a kill before that leaves the recording as it was.
    """
    types, new = language_types(), root / f"{TMP}rows"  # beside data/, of which lerobot reads every file
    try:
        for shard in find(root / "data", "**/*.parquet"):
            table = pq.read_table(shard).replace_schema_metadata(None)
            columns: dict[str, list[pa.Array]] = {PERSISTENT: [], EVENTS: []}
            for episode in table["episode_index"].unique().to_pylist():
                part = table.filter(pc.field("episode_index") == episode)
                times = part["timestamp"].to_numpy()
                made = [language_row(style, text, times[at]) for at, style, text in rows.get(episode, ())]
                for name, parts in columns.items():
                    if name in part.column_names and not (made and name == PERSISTENT):
                        parts.append(canonical(part[name].combine_chunks(), types[name]))
                    else:
                        parts.append(spread(made if name == PERSISTENT else (), times, types[name]))
            table = table.select([name for name in table.column_names if name not in columns])
            for name, parts in columns.items():
                table = table.append_column(pa.field(name, types[name]), pa.chunked_array(parts))
            written = new / shard.relative_to(root)
            written.parent.mkdir(parents=True, exist_ok=True)
            write_table_one_row_group_per_episode(table, written)
        info = read_json(root / "meta" / "info.json")
        info["features"] |= language_feature_info()
        for written in new.rglob("*.parquet"):
            written.replace(root / written.relative_to(new))
    finally:
        shutil.rmtree(new, ignore_errors=True)
    write_json(root / "meta" / "info.json", info)
