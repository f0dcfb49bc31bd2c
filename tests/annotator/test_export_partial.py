"""A download of a part of an annotated dataset: each export has the episodes that are whole, and says so."""

import logging
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from goalreel.annotator.exports import export_sarm, export_table
from goalreel.errors import DatasetError

KINDS = (("data", "parquet"), ("videos/observation.images.front", "mp4"))


def episodes(root: Path) -> list[dict]:
    files = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def file(root: Path, row: dict, prefix: str, suffix: str) -> Path:
    place = f"chunk-{row[f'{prefix}/chunk_index']:03d}/file-{row[f'{prefix}/file_index']:03d}.{suffix}"
    return root / prefix / place


def test_each_export_has_the_whole_episodes(sharded_dataset, annotated, tmp_path, caplog):
    """Of four episodes the last has no data, and the one before no picture of the front camera."""
    part = annotated(sharded_dataset, tmp_path / "out", {e: {} for e in range(4)})
    rows = episodes(part)
    for row, kind in zip(rows[:1:-1], KINDS, strict=True):
        file(part, row, *kind).unlink()
    there = [r["episode_index"] for r in rows if all(file(part, r, *kind).is_file() for kind in KINDS)]
    assert 0 < len(there) < 4
    with caplog.at_level(logging.WARNING):
        exported = export_sarm(part, tmp_path / "sarm")
    assert f"{len(there)} of 4 episodes are whole; {part}" in caplog.text
    assert "is missing: only the complete episodes are exported" in caplog.text
    assert exported == {"episodes": len(there), "named": len(there)}
    named = [row["episode_index"] for row in episodes(tmp_path / "sarm") if row["dense_subtask_names"]]
    assert named == there
    assert "have no stages" not in caplog.text
    export_table(part, tmp_path / "steps.parquet")
    assert set(pq.read_table(tmp_path / "steps.parquet")["episode"].to_pylist()) == {0, 1, 2, 3}
    for path in (part / "data").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(
        DatasetError, match=r"0 of 4 episodes are whole; .* is missing: copy the dataset again"
    ):
        export_sarm(part, tmp_path / "none")
    assert not (tmp_path / "none").exists()
